// plan_json - a survey as JSON.

#include "cli/planning/plan_show.h"

static void add_value(const tt_mesh *mesh, const tt_survey_value *v,
                      tt_json *json, tt_str *room)
{
    tt_json_open(json, NULL, '{');
    tt_json_str(json, "name", v->name);
    tt_json_str(json, "layer", v->layer);
    tt_json_str(json, "kind", v->kind);
    tt_json_str(json, "dtype", tt_dtype_name(v->type->dtype));
    tt_str_clear(room);
    tt_shape_print(&v->type->shape, room);
    tt_json_str(json, "shape", tt_str_text(room));
    tt_str_clear(room);
    tt_survey_split(v->type, mesh, room);
    tt_json_str(json, "split", tt_str_text(room));
    tt_str_clear(room);
    tt_shape_print(&v->local.shape, room);
    tt_json_str(json, "local", tt_str_text(room));
    tt_str_clear(room);
    tt_shape_print(&v->least, room);
    tt_json_str(json, "least", tt_str_text(room));
    tt_str_clear(room);
    tt_shape_print(&v->most, room);
    tt_json_str(json, "most", tt_str_text(room));
    tt_json_i64(json, "bytes", v->bytes);
    tt_json_bool(json, "view", v->is_view);
    tt_json_close(json, '}');
}

static void add_numbers(const tt_survey_sent *s, tt_json *json)
{
    tt_json_i64(json, "count", s->count);
    tt_json_i64(json, "messages", s->messages);
    tt_json_i64(json, "bytes", s->bytes);
    tt_json_f64(json, "formula_bytes", s->formula);
}

static void add_range(const char *key, const tt_survey_range *r, tt_json *json)
{
    tt_json_open(json, key, '{');
    tt_json_i64(json, "least", r->least);
    tt_json_i64(json, "least_rank", r->least_rank);
    tt_json_i64(json, "most", r->most);
    tt_json_i64(json, "most_rank", r->most_rank);
    tt_json_close(json, '}');
}

tt_status tt_show_plan_json(const tt_job *job, const tt_survey *survey,
                            tt_json *json)
{
    const tt_mesh *mesh = &job->graph->mesh;
    tt_str room = {0};
    tt_json_open(json, "axes", '[');
    for (int a = 0; a < mesh->n_axes; a++) {
        tt_json_open(json, NULL, '{');
        tt_json_str(json, "axis", mesh->axis[a].name);
        tt_json_i64(json, "ranks", mesh->axis[a].size);
        add_numbers(&survey->axis[a], json);
        tt_json_close(json, '}');
    }
    tt_json_close(json, ']');
    tt_json_open(json, "host", '{');
    add_numbers(&survey->host, json);
    tt_json_close(json, '}');
    tt_json_open(json, "sent", '{');
    add_numbers(&survey->total, json);
    tt_json_close(json, '}');
    tt_json_i64(json, "steps", survey->steps);
    add_range("rank_memory_bytes", &survey->memory, json);
    add_range("rank_sent_bytes", &survey->sends, json);
    tt_json_open(json, "collectives", '[');
    for (int64_t i = 0; i < survey->n_sent; i++) {
        const tt_survey_sent *s = &survey->sent[i];
        tt_json_open(json, NULL, '{');
        tt_json_str(json, "layer", s->layer);
        tt_json_str(json, "direction", s->direction);
        tt_json_str(json, "kind", s->kind);
        tt_json_str(json, "axis", mesh->axis[s->axis].name);
        add_numbers(s, json);
        tt_json_close(json, '}');
    }
    tt_json_close(json, ']');
    tt_json_open(json, "placements", '[');
    for (int64_t i = 0; i < survey->n_values; i++)
        add_value(mesh, &survey->value[i], json, &room);
    tt_json_close(json, ']');
    const tt_status status = tt_str_status(&room);
    tt_str_fini(&room);
    return status;
}
