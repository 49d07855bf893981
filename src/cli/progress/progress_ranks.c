// progress_ranks - what the ranks of a run did, as a table under its summary. It
// answers the question why many ranks were not as fast as hoped: bytes sent, time of
// the network hidden beside computing, time exposed, and time waited for a slower
// rank.

#include "cli/columns.h"
#include "cli/progress/progress_parts.h"
#include "cli/table.h"
#include "train/ranks.h"

enum { ROWS = 16 }; // the rest is in ranks.json

typedef void add_fn(tt_str *out, double value);

static void add_bytes(tt_str *out, double bytes)
{
    tt_add_bytes(out, (int64_t)bytes);
}

static void add_whole(tt_str *out, double value)
{
    tt_add_grouped(out, (int64_t)value);
}

static void add_cell(tt_columns *c, add_fn *add, double value)
{
    tt_str text = {0};
    add(&text, value);
    tt_columns_add(c, tt_str_text(&text));
    tt_str_fini(&text);
}

static void add_rank(tt_columns *c, int32_t rank, const tt_rank_row *row,
                     bool has_stages)
{
    tt_columns_addf(c, "  %d", rank);
    tt_columns_add(c, row->host);
    add_cell(c, add_bytes, (double)row->bytes);
    add_cell(c, add_whole, (double)row->messages);
    add_cell(c, tt_add_seconds, row->busy);
    add_cell(c, tt_add_seconds, tt_rank_hidden(row));
    add_cell(c, tt_add_seconds, row->exposed);
    if (has_stages) // they have different collectives: see the next table
        tt_columns_add(c, "-");
    else
        add_cell(c, tt_add_seconds, row->waited);
}

// What codes were: a line for each rank would say the same.
static void add_codes(const tt_ranks *ranks, int width, tt_str *out)
{
    double raw = 0, coded = 0, seconds = 0;
    tt_str text = {0};
    for (int32_t r = 0; r < ranks->n; r++) {
        raw += (double)ranks->rank[r].raw;
        coded += (double)ranks->rank[r].coded;
        seconds += ranks->rank[r].coding;
    }
    if (raw <= 0 || coded <= 0)
        return;
    tt_str_add(&text, "codes: on average a rank made ");
    add_bytes(&text, coded / ranks->n);
    tt_str_add(&text, " of ");
    add_bytes(&text, raw / ranks->n);
    tt_str_addf(&text, " (%.3g times %s) in ",
                coded > raw ? coded / raw : raw / coded,
                coded > raw ? "as much" : "less");
    tt_add_seconds(&text, seconds / ranks->n);
    tt_str_add(out, "  ");
    tt_add_wrapped(out, tt_str_text(&text),
                   &(tt_wrapping){.width = width, .used = 2, .indent = "  "});
    tt_str_add(out, "\n");
    tt_str_fini(&text);
}

static void add_table(const tt_term *term, const tt_ranks *ranks,
                      tt_arena *arena, int width, tt_str *out)
{
    static const char *const heading[] = {
        "  rank",       "host",   "sent",    "messages",
        "network busy", "hidden", "exposed", "waited for others"};
    tt_columns c = {.arena = arena,
                    .n = 8,
                    .right = 0xfc,
                    .width = width,
                    .drop = {3, 4, 7, 1, 2}};
    for (int i = 0; i < 8; i++)
        tt_columns_add(&c, heading[i]);
    for (int32_t r = 0; r < ranks->n && r < ROWS; r++)
        add_rank(&c, r, &ranks->rank[r], ranks->pipe != NULL);
    (void)tt_columns_print(&c, term, out); // no memory: no table
    if (ranks->n > ROWS)
        tt_str_addf(out, "  and %d more, in ranks.json\n", ranks->n - ROWS);
    tt_str_add(out, "  ");
    tt_add_wrapped(out,
                   "network busy: with collectives of steps; of that, hidden: "
                   "beside computing, exposed: with nothing else to do, waited "
                   "for others: until the last rank came to them",
                   &(tt_wrapping){.width = width, .used = 2, .indent = "  "});
    tt_str_add(out, "\n");
    add_codes(ranks, width, out);
}

void tt__progress_text_ranks(const tt_term *term, const tt_ranks *ranks,
                             int width, tt_str *out)
{
    tt_arena *arena = tt_arena_create();
    if (arena == NULL)
        return;
    tt_str sentence = {0}, clean = {0};
    add_table(term, ranks, arena, width, out);
    if (ranks->pipe != NULL)
        tt__progress_text_pipe(term, ranks->pipe, width, out);
    tt_ranks_report_sentence(ranks, &sentence);
    if (sentence.n > 0) {
        tt_str_add(out, "  ");
        tt_term_add_foreign(tt_str_text(&sentence), false, &clean);
        tt_add_wrapped(
            out, tt_str_text(&clean),
            &(tt_wrapping){.width = width, .used = 2, .indent = "  "});
        tt_str_add(out, "\n");
    }
    tt_str_fini(&clean);
    tt_str_fini(&sentence);
    tt_arena_destroy(arena);
}
