// plan_show - tables of what lies where and what is sent.
//
// A large model has thousands of values. Rows of layers that are alike become one
// (cli/layer_rows.h), with their number in column n; the sums count every one.

#include "cli/planning/plan_show.h"

#include "cli/columns.h"
#include "cli/layer_rows.h"
#include "cli/table.h"

#include <string.h>

typedef struct page {
    const tt_job *job;
    const tt_survey *survey;
    tt_arena *arena;
    tt_term term;
    tt_str *out;
} page;

// "64x192"; a scalar is "1".
static const char *extents(tt_arena *arena, const tt_shape *shape)
{
    tt_str text = {0};
    for (int d = 0; d < shape->ndim; d++)
        tt_str_addf(&text, "%s%lld", d > 0 ? "x" : "",
                    (long long)tt_shape_dim(shape, d));
    if (shape->ndim == 0)
        tt_str_add(&text, "1");
    const char *copy = tt_str_keep(&text, arena);
    return copy != NULL ? copy : "";
}

// What ranks hold: "32x768", or "21-22x768" where they differ.
static const char *parts(tt_arena *arena, const tt_survey_value *v)
{
    tt_str text = {0};
    for (int d = 0; d < v->least.ndim; d++) {
        const int64_t least = tt_shape_dim(&v->least, d);
        const int64_t most = tt_shape_dim(&v->most, d);
        tt_str_addf(&text, "%s%lld", d > 0 ? "x" : "", (long long)least);
        if (most != least)
            tt_str_addf(&text, "-%lld", (long long)most);
    }
    if (v->least.ndim == 0)
        tt_str_add(&text, "1");
    const char *copy = tt_str_keep(&text, arena);
    return copy != NULL ? copy : "";
}

static const char *split_of(const page *p, const tt_type *type)
{
    tt_str text = {0};
    tt_survey_split(type, &p->job->graph->mesh, &text);
    const char *copy = tt_str_keep(&text, p->arena);
    return copy != NULL ? copy : "";
}

static const char *grouped(tt_arena *arena, int64_t value)
{
    tt_str text = {0};
    tt_add_grouped(&text, value);
    const char *copy = tt_str_keep(&text, arena);
    return copy != NULL ? copy : "";
}

// Prints rows under a heading, with the number of rows that each stands for after its
// name. `total` (NULL: none) is the last row and counts all of them.
static tt_status print_rows(const page *p, const tt_layer_rows *rows,
                            const char *const *heading, uint64_t right,
                            const char *const *total)
{
    tt_columns columns = {
        .arena = p->arena, .n = rows->n_cells + 1, .right = right << 1 | 2};
    TT_TRY(rows->status);
    if (rows->n == 0)
        return TT_OK;
    for (int i = 0; i < rows->n_cells; i++) {
        tt_columns_add(&columns, heading[i]);
        if (i == 0)
            tt_columns_add(&columns, "n");
    }
    for (int64_t r = 0; r < rows->n; r++) {
        const tt_layer_row *row = &rows->row[r];
        tt_str name = {0};
        tt_layer_rows_name(row, &name);
        tt_columns_add(&columns, tt_str_text(&name));
        tt_str_fini(&name);
        tt_columns_addf(&columns, "%lld", (long long)row->n);
        for (int i = 1; i < rows->n_cells; i++)
            tt_columns_add(&columns, row->cell[i]);
    }
    for (int i = 0; i <= rows->n_cells && total != NULL; i++)
        tt_columns_add(&columns, total[i]);
    tt_str_add(p->out, "\n");
    return tt_columns_print(&columns, &p->term, p->out);
}

// ---- values --------------------------------------------------------------

static tt_status print_leaves(const page *p, const char *kind)
{
    const char *const heading[] = {kind, "shape", "split", "per rank", "bytes"};
    tt_layer_rows rows = {.arena = p->arena, .n_cells = 5};
    int64_t n = 0, bytes = 0;
    for (int64_t i = 0; i < p->survey->n_values; i++) {
        const tt_survey_value *v = &p->survey->value[i];
        if (strcmp(v->kind, kind) != 0)
            continue;
        n++;
        bytes += v->bytes;
        tt_layer_rows_add(
            &rows,
            (const char *const[]){v->name, extents(p->arena, &v->type->shape),
                                  split_of(p, v->type), parts(p->arena, v),
                                  grouped(p->arena, v->bytes)});
    }
    const char *const total[] = {"in all", grouped(p->arena, n),    "", "",
                                 "",       grouped(p->arena, bytes)};
    return print_rows(p, &rows, heading, 0x10, total);
}

static tt_status print_computed(const page *p, const char *kind)
{
    const char *const heading[] = {kind,    "operator", "shape",
                                   "split", "per rank", "bytes"};
    tt_layer_rows rows = {.arena = p->arena, .n_cells = 6};
    for (int64_t i = 0; i < p->survey->n_values; i++) {
        const tt_survey_value *v = &p->survey->value[i];
        if (strcmp(v->kind, kind) == 0 && !v->is_view)
            tt_layer_rows_add(&rows,
                              (const char *const[]){
                                  v->layer[0] != '\0' ? v->layer : "-", v->name,
                                  extents(p->arena, &v->type->shape),
                                  split_of(p, v->type), parts(p->arena, v),
                                  grouped(p->arena, v->bytes)});
    }
    return print_rows(p, &rows, heading, 0x20, NULL);
}

// ---- what is sent --------------------------------------------------------

static const char *axis_name(const page *p, int32_t axis)
{
    return p->job->graph->mesh.axis[axis].name;
}

static tt_status print_sent(const page *p)
{
    static const char *const heading[] = {
        "layer", "direction", "collective", "axis", "count", "sent", "formula"};
    tt_layer_rows rows = {.arena = p->arena, .n_cells = 7};
    for (int64_t i = 0; i < p->survey->n_sent; i++) {
        const tt_survey_sent *s = &p->survey->sent[i];
        tt_layer_rows_add(
            &rows, (const char *const[]){
                       s->layer[0] != '\0' ? s->layer : "-", s->direction,
                       s->kind, axis_name(p, s->axis),
                       grouped(p->arena, s->count), grouped(p->arena, s->bytes),
                       grouped(p->arena, (int64_t)(s->formula + 0.5))});
    }
    tt_survey_sent sum = {0};
    for (int64_t i = 0; i < p->survey->n_sent; i++) {
        sum.count += p->survey->sent[i].count;
        sum.bytes += p->survey->sent[i].bytes;
        sum.formula += p->survey->sent[i].formula;
    }
    const char *const total[] = {
        "in all",
        grouped(p->arena, p->survey->n_sent),
        "",
        "",
        "",
        grouped(p->arena, sum.count),
        grouped(p->arena, sum.bytes),
        grouped(p->arena, (int64_t)(sum.formula + 0.5))};
    return print_rows(p, &rows, heading, 0x70, total);
}

static void add_total(tt_columns *c, const char *name, const char *ranks,
                      const tt_survey_sent *s)
{
    tt_columns_add(c, name);
    tt_columns_add(c, ranks);
    tt_columns_add(c, grouped(c->arena, s->count));
    tt_columns_add(c, grouped(c->arena, s->messages));
    tt_columns_add(c, grouped(c->arena, s->bytes));
    tt_columns_add(c, grouped(c->arena, (int64_t)(s->formula + 0.5)));
}

static tt_status print_axes(const page *p)
{
    const tt_mesh *mesh = &p->job->graph->mesh;
    static const char *const heading[] = {"axis",     "ranks", "count",
                                          "messages", "sent",  "formula"};
    tt_columns c = {.arena = p->arena, .n = 6, .right = 0x3e};
    for (int i = 0; i < 6; i++)
        tt_columns_add(&c, heading[i]);
    for (int a = 0; a < mesh->n_axes; a++)
        add_total(&c, mesh->axis[a].name, grouped(p->arena, mesh->axis[a].size),
                  &p->survey->axis[a]);
    if (p->survey->host.count > 0)
        add_total(&c, "host", grouped(p->arena, tt_mesh_ranks(mesh)),
                  &p->survey->host);
    if (mesh->n_axes > 0)
        add_total(&c, "all", grouped(p->arena, tt_mesh_ranks(mesh)),
                  &p->survey->total);
    tt_str_add(p->out, "\n");
    return tt_columns_print(&c, &p->term, p->out);
}

static void print_range(const page *p, const char *what,
                        const tt_survey_range *r)
{
    tt_str_addf(p->out, "  %-7s ", what);
    tt_add_grouped(p->out, r->least);
    if (r->least == r->most) {
        tt_str_add(p->out, " on every rank\n");
        return;
    }
    tt_str_addf(p->out, " on rank %d to ", r->least_rank);
    tt_add_grouped(p->out, r->most);
    tt_str_addf(p->out, " on rank %d\n", r->most_rank);
}

static tt_status print_page(const page *p, tt_show show)
{
    const bool is_split = p->job->peers.size > 1;
    TT_TRY(print_leaves(p, "weight"));
    if (show == TT_SHOW_ALL) {
        TT_TRY(print_leaves(p, "state"));
        TT_TRY(print_leaves(p, "input"));
        TT_TRY(print_computed(p, "activation"));
        TT_TRY(print_computed(p, "gradient"));
    }
    if (!is_split)
        return TT_OK;
    TT_TRY(print_sent(p));
    TT_TRY(print_axes(p));
    tt_str_add(p->out,
               "n rows alike are one, with the bytes of each; sent: exactly, ");
    if (p->survey->steps == 1)
        tt_str_add(p->out, "in one step");
    else
        tt_str_addf(p->out, "in %lld steps\nwithout meetings",
                    (long long)p->survey->steps);
    tt_str_add(p->out,
               "; formula: as is usual,\n2 (p-1)/p of the bytes for an "
               "all_reduce of p ranks, (p-1)/p for others; (gaps): room "
               "between\ngradients that is summed with them; host: the wish "
               "to stop, outside of the graph\n\nbytes per rank\n");
    print_range(p, "memory", &p->survey->memory);
    print_range(p, p->survey->steps == 1 ? "sent" : "a step",
                &p->survey->sends);
    return TT_OK;
}

tt_status tt_show_plan(const tt_job *job, const tt_survey *survey, tt_show show,
                       tt_str *out)
{
    page p = {
        .job = job, .survey = survey, .arena = tt_arena_create(), .out = out};
    if (p.arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a table");
    tt_term_init(&p.term, 1);
    const tt_status status = print_page(&p, show);
    tt_arena_destroy(p.arena);
    return status;
}
