// progress_pipe - what the stages of a run did, as a table under its summary: how long each
// waited for its neighbours, and what the schedule says about it.

#include "cli/columns.h"
#include "cli/progress/progress_parts.h"
#include "cli/table.h"
#include "train/ranks.h"

enum { ROWS = 16 }; // the rest is in ranks.json

// "rank 1 25.1 ms, rank 3 5.13 ms"
static void add_waits(const tt_ranks_pipe *p, const tt_rank_stage *rank,
                      tt_str *out)
{
    for (int32_t i = 0; i < p->n_ranks; i++)
        if (rank->waited[i] > 0) {
            tt_str_addf(out, "%srank %d ", out->n > 0 ? ", " : "", i);
            tt_add_seconds(out, rank->waited[i]);
        }
    if (out->n == 0)
        tt_str_add(out, "-");
}

static void add_rank(tt_columns *c, const tt_ranks_pipe *p, int32_t r)
{
    const tt_rank_stage *rank = &p->rank[r];
    tt_str text = {0};
    tt_columns_addf(c, "  %d", r);
    tt_columns_addf(c, "%d", rank->stage);
    tt_columns_addf(c, "%.1f%%", 100 * rank->bubble);
    tt_columns_addf(c, "%.1f%%", 100 * rank->expected);
    tt_columns_addf(c, "%d", rank->n_slots);
    if (p->is_endless) {
        tt_columns_addf(c, "%d", rank->n_versions);
        tt_columns_addf(c, "%d", rank->staleness);
    }
    tt_add_bytes(&text, rank->peak_bytes);
    tt_columns_add(c, tt_str_text(&text));
    tt_str_clear(&text);
    add_waits(p, rank, &text);
    tt_columns_add(c, tt_str_text(&text));
    tt_str_fini(&text);
}

void tt__progress_text_pipe(const tt_term *term, const tt_ranks_pipe *p,
                            int width, tt_str *out)
{
    enum { VERSIONS = 5, STALENESS, N = 9 };
    static const char *const heading[N] = {"  rank",
                                           "stage",
                                           "bubble",
                                           "by the schedule",
                                           "slots",
                                           [VERSIONS] = "versions",
                                           [STALENESS] = "staleness",
                                           "memory",
                                           "waits in a step for"};
    tt_arena *arena = tt_arena_create();
    tt_str sentence = {0};
    if (arena == NULL)
        return;
    tt_columns c = {.arena = arena,
                    .n = p->is_endless ? N : N - 2,
                    .right = p->is_endless ? 0xfe : 0x3e,
                    .width = width,
                    .drop = {1, 5, 6, 4}};
    for (int i = 0; i < N; i++)
        if (p->is_endless || (i != VERSIONS && i != STALENESS))
            tt_columns_add(&c, heading[i]);
    for (int32_t r = 0; r < p->n_ranks && r < ROWS; r++)
        add_rank(&c, p, r);
    (void)tt_columns_print(&c, term, out); // no memory: no table
    if (p->n_ranks > ROWS)
        tt_str_addf(out, "  and %d more, in ranks.json\n", p->n_ranks - ROWS);
    tt_ranks_pipe_sentence(p, &sentence);
    tt_str_add(out, "  ");
    tt_add_wrapped(out, tt_str_text(&sentence),
                   &(tt_wrapping){.width = width, .used = 2, .indent = "  "});
    tt_str_add(out, "\n");
    tt_str_fini(&sentence);
    tt_arena_destroy(arena);
}
