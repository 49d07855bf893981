// ranks_pipe_text - what stages did, as a sentence and as JSON.

#include "config/pace.h"
#include "train/ranks_pipe.h"

#include <math.h>

enum { ROWS_MAX = 2048 }; // of a rank; a longer step is not listed

// "; gradients are 3, 2, 1, 0 updates old" - stage by stage.
static void add_staleness(const tt_ranks_pipe *p, tt_str *out)
{
    int32_t next = 0;
    tt_str_add(out, "; gradients are ");
    for (int32_t r = 0; r < p->n_ranks; r++)
        if (p->rank[r].stage == next) {
            tt_str_addf(out, "%s%d", next > 0 ? ", " : "",
                        p->rank[r].staleness);
            next++;
        }
    tt_str_add(out, " updates old, stage by stage");
}

void tt_ranks_pipe_sentence(const tt_ranks_pipe *p, tt_str *out)
{
    tt_str_addf(out,
                "%s on %d stages: bubble %.1f%%; the schedule says %.1f%% for "
                "rows of the measured length",
                p->schedule, p->n_stages, 100 * p->bubble, 100 * p->expected);
    if (p->formula >= 0)
        tt_str_addf(out, ", its formula %.1f%% for even chunks",
                    100 * p->formula);
    if (p->is_endless)
        add_staleness(p, out);
    if (p->is_paced)
        tt_str_addf(out, "; %s", tt_pace_note);
    if (p->n_late > 0)
        tt_str_addf(out,
                    "; %lld of %lld rows computed for longer than that, so "
                    "smaller speeds would be better",
                    (long long)p->n_late, (long long)p->n_paced);
}

// A row is an array, since there are many.
static void print_rows(const tt_rank_stage *rank, tt_json *j)
{
    tt_json_open(j, "rows", '[');
    for (int32_t i = 0; i < rank->n_rows && rank->n_rows <= ROWS_MAX; i++) {
        const tt_stage_row *row = &rank->row[i];
        tt_json_open(j, NULL, '[');
        tt_json_str(j, NULL, row->phase);
        tt_json_i64(j, NULL, row->chunk);
        tt_json_i64(j, NULL, row->micro);
        tt_json_f64(j, NULL, row->start);
        tt_json_f64(j, NULL, row->end);
        tt_json_f64(j, NULL, row->waited);
        tt_json_i64(j, NULL, row->peer);
        tt_json_close(j, ']');
    }
    tt_json_close(j, ']');
}

static void print_rank(const tt_ranks_pipe *p, int32_t r, tt_json *j)
{
    const tt_rank_stage *rank = &p->rank[r];
    tt_json_open(j, NULL, '{');
    tt_json_i64(j, "rank", r);
    tt_json_i64(j, "stage", rank->stage);
    tt_json_f64(j, "bubble", rank->bubble);
    tt_json_f64(j, "expected", rank->expected);
    tt_json_f64(j, "bubble_seconds", rank->bubble_seconds);
    tt_json_open(j, "waited_seconds", '{');
    for (int32_t i = 0; i < p->n_ranks; i++)
        if (rank->waited[i] > 0) {
            tt_str key = {0};
            tt_str_addf(&key, "%d", i);
            tt_json_f64(j, tt_str_text(&key), rank->waited[i]);
            tt_str_fini(&key);
        }
    tt_json_close(j, '}');
    tt_json_i64(j, "slots", rank->n_slots);
    tt_json_i64(j, "slot_bytes", rank->slot_bytes);
    tt_json_i64(j, "peak_bytes", rank->peak_bytes);
    tt_json_i64(j, "versions", rank->n_versions);
    tt_json_i64(j, "old_bytes", rank->old_bytes);
    tt_json_i64(j, "staleness", rank->staleness);
    print_rows(rank, j);
    tt_json_close(j, '}');
}

void tt_ranks_pipe_print_json(const tt_ranks_pipe *p, tt_json *j)
{
    tt_str sentence = {0};
    tt_ranks_pipe_sentence(p, &sentence);
    tt_json_open(j, "pipe", '{');
    tt_json_str(j, "schedule", p->schedule);
    tt_json_i64(j, "stages", p->n_stages);
    tt_json_i64(j, "chunks", p->n_chunks);
    tt_json_i64(j, "micro", p->n_micro);
    tt_json_i64(j, "steps", p->n_steps);
    tt_json_bool(j, "split", p->is_split);
    tt_json_bool(j, "endless", p->is_endless);
    tt_json_f64(j, "bubble", p->bubble);
    tt_json_f64(j, "expected", p->expected);
    if (p->formula >= 0)
        tt_json_f64(j, "formula", p->formula);
    tt_json_bool(j, "paced", p->is_paced);
    if (p->is_paced) {
        tt_json_i64(j, "paced_rows", p->n_paced);
        tt_json_i64(j, "late_rows", p->n_late);
    }
    tt_json_str(j, "sentence", tt_str_text(&sentence));
    tt_json_open(j, "ranks", '[');
    for (int32_t r = 0; r < p->n_ranks; r++)
        print_rank(p, r, j);
    tt_json_close(j, ']');
    tt_json_close(j, '}');
    tt_str_fini(&sentence);
}
