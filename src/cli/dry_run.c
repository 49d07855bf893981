#include "cli/dry_run.h"

#include "base/figures.h"
#include "base/json.h"
#include "cli/command.h"
#include "job/survey.h"
#include "session/doubts.h"
#include "train/loop.h"

#include <stdio.h>
#include <string.h>

static void print_bytes(tt_str *out, const char *name, int64_t bytes)
{
    tt_str figure = {0};
    tt_add_grouped(&figure, bytes);
    tt_str_addf(out, "#   %-16s %19s  ", name, tt_str_text(&figure));
    tt_add_bytes(out, bytes);
    tt_str_add(out, "\n");
    tt_str_fini(&figure);
}

// Settings are YAML. The table follows as # comments, so the whole output can be saved
// as a file of settings.
static void print_text(tt_session *s, const tt_train_memory *memory,
                       const tt_survey_range *range, tt_str *out)
{
    tt_str plan = {0};
    tt_settings_print(&s->resolved, out);
    tt_plan_print_memory(s->job->plan, &plan);
    tt_str_addf(out, "# %s\n# %s\n# steps %lld, samples per epoch %lld\n# ",
                tt_session_model_text(s), tt_session_data_text(s),
                (long long)s->steps, (long long)s->epoch);
    if (s->job->peers.size > 1 && range->least == range->most)
        tt_str_addf(out, "each of %d ranks:\n# ", s->job->peers.size);
    else if (s->job->peers.size > 1)
        tt_str_addf(out, "of %d ranks, rank %d, which needs the most:\n# ",
                    s->job->peers.size, range->most_rank);
    for (const char *p = tt_str_text(&plan); *p != '\0'; p++) {
        tt_str_add_bytes(out, p, 1);
        if (*p == '\n' && p[1] != '\0')
            tt_str_add(out, "# ");
    }
    print_bytes(out, "evaluation", memory->evaluation);
    print_bytes(out, "loader", memory->loader);
    print_bytes(out, "snapshot", memory->snapshot);
    if (memory->stage > 0)
        print_bytes(out, "collectives", memory->stage);
    print_bytes(out, "in all", memory->total);
    if (tt_str_status(&plan) != TT_OK)
        out->status = TT_ERR_NOMEM;
    tt_str_fini(&plan);
}

static void add_warnings(const tt_session *s, tt_json *json)
{
    tt_str doubts = {0}, line = {0};
    tt_session_doubts(s, &doubts);
    tt_json_open(json, "warnings", '[');
    for (const char *p = tt_str_text(&doubts); *p != '\0';) {
        const size_t n = strcspn(p, "\n");
        tt_str_clear(&line);
        tt_str_add_bytes(&line, p, (int64_t)n);
        tt_json_str(json, NULL, tt_str_text(&line));
        p += n + 1;
    }
    tt_json_close(json, ']');
    tt_str_fini(&doubts);
    tt_str_fini(&line);
}

static void print_json(tt_session *s, const tt_train_memory *memory,
                       tt_str *out)
{
    tt_json json = {.out = out};
    tt_json_open(&json, NULL, '{');
    tt_json_bool(&json, "ok", true);
    tt_json_bool(&json, "dry_run", true);
    tt_json_str(&json, "model", tt_session_model_text(s));
    tt_json_str(&json, "data", tt_session_data_text(s));
    tt_json_i64(&json, "parameters", tt_job_parameters(s->job));
    tt_json_i64(&json, "ranks", s->job->peers.size);
    tt_json_i64(&json, "steps", s->steps);
    tt_json_i64(&json, "samples_per_step", s->job->step_samples);
    tt_json_i64(&json, "samples_per_epoch", s->epoch);
    tt_json_open(&json, "memory", '{');
    tt_json_i64(&json, "rank", s->job->peers.rank);
    tt_json_i64(&json, "step_bytes", s->job->plan->peak_bytes);
    tt_json_i64(&json, "evaluation_bytes", memory->evaluation);
    tt_json_i64(&json, "loader_bytes", memory->loader);
    tt_json_i64(&json, "snapshot_bytes", memory->snapshot);
    tt_json_i64(&json, "collectives_bytes", memory->stage);
    tt_json_i64(&json, "total_bytes", memory->total);
    tt_json_close(&json, '}');
    add_warnings(s, &json);
    tt_json_open(&json, "settings", '{');
    for (int64_t i = 0; i < s->resolved.n; i++)
        tt_json_str(&json, s->resolved.v[i].key, s->resolved.v[i].value);
    tt_json_close(&json, '}');
    tt_json_close(&json, '}');
    tt_str_add(out, "\n");
}

tt_status tt_dry_run(tt_session *session, bool is_json)
{
    tt_str text = {0};
    tt_train_memory memory;
    tt_survey_range range = {0};
    if (session->job->peers.size > 1) {
        TT_TRY(tt_survey_take_largest(session->job, &range));
        TT_TRY(tt_job_check_fit(session->job));
    }
    TT_TRY(tt_train_memory_of(session, &memory));
    if (is_json)
        print_json(session, &memory, &text);
    else
        print_text(session, &memory, &range, &text);
    return tt_cli_print(&text);
}
