// progress_workers - what workers at their own pace did, as a table under the summary of a
// run: whose gradients were old, dropped or refused, and where the time of each went.

#include "cli/columns.h"
#include "cli/progress/progress_parts.h"
#include "cli/table.h"
#include "job/workers.h"

enum { ROWS = 16, FIXED = 7 }; // the rest is in workers.json

static const char *const heading[TT_N_CAUSES] = {
    [TT_CAUSE_COMPUTING] = "computing", [TT_CAUSE_WASTED] = "wasted",
    [TT_CAUSE_MESSAGES] = "messages",   [TT_CAUSE_HELD] = "held",
    [TT_CAUSE_TURN] = "its turn",
};

static void add_worker(const tt_workers *w, int32_t i, tt_columns *c)
{
    const tt_worker_row *row = &w->worker[i];
    tt_str bytes = {0};
    double all = 0;
    for (int k = 0; k < TT_N_CAUSES; k++)
        all += row->time[k];
    tt_columns_addf(c, "  %d", i);
    if (row->rank >= 0)
        tt_columns_addf(c, "%d", row->rank);
    else
        tt_columns_add(c, "-");
    tt_columns_addf(c, "%lld", (long long)row->pushed);
    tt_columns_addf(c, "%.2f", row->staleness);
    tt_columns_addf(c, "%lld", (long long)row->dropped);
    tt_columns_addf(c, "%lld", (long long)row->refused);
    tt_add_bytes(&bytes, row->up + row->down);
    tt_columns_add(c, tt_str_text(&bytes));
    for (int k = 0; w->unit != NULL && k < TT_N_CAUSES; k++)
        tt_columns_addf(c, "%.0f%%", all > 0 ? 100 * row->time[k] / all : 0);
    tt_str_fini(&bytes);
}

void tt__progress_text_workers(const tt_term *term, const tt_workers *w,
                               int width, tt_str *out)
{
    static const char *const first[FIXED] = {
        "  worker", "rank",    "gradients", "staleness",
        "dropped",  "refused", "bytes"};
    tt_arena *arena = tt_arena_create();
    if (arena == NULL)
        return;
    const int n = FIXED + (w->unit != NULL ? TT_N_CAUSES : 0);
    tt_columns c = {.arena = arena, .n = n, .right = 0xffe, .width = width};
    static const int drop[] = {1,
                               6,
                               FIXED + TT_CAUSE_TURN,
                               FIXED + TT_CAUSE_MESSAGES,
                               FIXED + TT_CAUSE_WASTED,
                               5,
                               4};
    for (size_t i = 0, k = 0; i < sizeof drop / sizeof *drop; i++)
        if (drop[i] < n)
            c.drop[k++] = drop[i];
    for (int i = 0; i < FIXED; i++)
        tt_columns_add(&c, first[i]);
    for (int i = FIXED; i < n; i++)
        tt_columns_add(&c, heading[i - FIXED]);
    for (int32_t i = 0; i < w->n && i < ROWS; i++)
        add_worker(w, i, &c);
    (void)tt_columns_print(&c, term, out); // no memory: no table
    if (w->n > ROWS)
        tt_str_addf(out, "  and %d more, in workers.json\n", w->n - ROWS);
    tt_str_add(out, "  ");
    tt_add_wrapped(out,
                   "staleness: updates between the weights that a gradient was "
                   "computed at and the update that it goes into; bytes: "
                   "gradients and weights; wasted: computing "
                   "what was dropped or refused; held: by the clock; its turn: "
                   "while its rank computed for another",
                   &(tt_wrapping){.width = width, .used = 2, .indent = "  "});
    tt_str_add(out, "\n");
    tt_arena_destroy(arena);
}
