// Tables that no generator writes: random orders, and orders that a message-driven pipe
// comes to when messages are late.

#include "../test.h"
#include "base/rng.h"
#include "carry.h"
#include "pipe/measure.h"
#include "pipe/text.h"

#include <string.h>

enum { RANKS = 5, CHUNKS = 6, MICRO = 6 };

typedef struct dice {
    uint64_t key, n;
} dice;

static int draw(dice *d, int n)
{
    return (int)(tt_rng_u32(d->key, d->n++) % (uint32_t)n);
}

static tt_pipe *parse(const tt_str *text)
{
    tt_pipe *p = NULL;
    if (tt_pipe_parse(tt_str_text(text), text->n, "table", &p) != TT_OK)
        tt_test_fail(__FILE__, __LINE__, "%s\n%s", tt_error_message(),
                     tt_str_text(text));
    return p;
}

// ---- random orders -------------------------------------------------------

typedef struct work {
    int n_ranks, n_chunks, n_micro;
    int place[CHUNKS];
    bool is_split[CHUNKS];
    bool out[CHUNKS][MICRO], input[CHUNKS][MICRO], weight[CHUNKS][MICRO];
    bool update[CHUNKS];
    tt_str rows[RANKS];
    int n_left;
} work;

static bool may_update(const work *w, int c)
{
    for (int m = 0; m < w->n_micro; m++)
        if (!w->weight[c][m])
            return false;
    return !w->update[c];
}

// Does a random piece of work if it can be done now.
static void try_one(work *w, dice *d)
{
    const int c = draw(d, w->n_chunks), m = draw(d, w->n_micro);
    tt_str *row = &w->rows[w->place[c]];
    if (!w->out[c][m]) {
        if (c > 0 && !w->out[c - 1][m])
            return;
        w->out[c][m] = true;
        tt_str_addf(row, " F%d.%d", c, m);
    } else if (!w->input[c][m]) {
        if (c + 1 < w->n_chunks && !w->input[c + 1][m])
            return;
        w->input[c][m] = true;
        w->weight[c][m] = !w->is_split[c];
        tt_str_addf(row, " %c%d.%d", w->is_split[c] ? 'I' : 'B', c, m);
    } else if (!w->weight[c][m]) {
        w->weight[c][m] = true;
        tt_str_addf(row, " W%d.%d", c, m);
    } else if (may_update(w, c)) {
        w->update[c] = true;
        w->n_left--;
        tt_str_addf(row, " U%d.%d", c, w->n_micro - 1);
    }
}

static void write_table(work *w, dice *d, tt_str *out)
{
    *w = (work){.n_ranks = 1 + draw(d, RANKS),
                .n_chunks = 1 + draw(d, CHUNKS),
                .n_micro = 1 + draw(d, MICRO)};
    tt_str_addf(out, "fill\nranks %d\nchunks %d\nmicro %d\nplace", w->n_ranks,
                w->n_chunks, w->n_micro);
    for (int c = 0; c < w->n_chunks; c++) {
        w->place[c] = draw(d, w->n_ranks);
        w->is_split[c] = draw(d, 2) == 0;
        tt_str_addf(out, " %d", w->place[c]);
    }
    for (w->n_left = w->n_chunks; w->n_left > 0;)
        try_one(w, d);
    for (int r = 0; r < w->n_ranks; r++) {
        tt_str_addf(out, "\nrank %d\n%s", r, tt_str_text(&w->rows[r]));
        tt_str_fini(&w->rows[r]);
    }
}

TEST(random_orders_are_valid_and_stand_still_exactly_when_found)
{
    int n_tight = 0;
    for (int i = 0; i < 1000; i++) {
        dice d = {tt_rng_key(16, "orders", (uint64_t)i), 0};
        work w;
        tt_str text = {0};
        int32_t least = 0;
        const char *why = NULL;
        write_table(&w, &d, &text);
        tt_pipe *p = parse(&text);
        if (tt_pipe_check(p, 0) != TT_OK)
            tt_test_fail(__FILE__, __LINE__, "%s\n%s", tt_error_message(),
                         tt_str_text(&text));
        CHECK_OK(tt_pipe_least_capacity(p, &least));
        for (int k = 0; k <= least + 1; k++) {
            const bool is_valid = tt_pipe_check(p, k) == TT_OK;
            CHECK(is_valid == (k == 0 || k >= least));
            if (!is_valid)
                CHECK(strstr(tt_error_message(), "deadlock: rank") != NULL);
            if (tt_pipe_carry(p, k, d.key + (uint64_t)k, &why) != is_valid)
                tt_test_fail(__FILE__, __LINE__, "table %d, room for %d: %s", i,
                             k, why != NULL ? why : "it runs");
        }
        n_tight += least > 1;
        tt_pipe_destroy(p);
        tt_str_fini(&text);
    }
    CHECK(n_tight > 100);
}

// ---- messages that are late ----------------------------------------------

typedef struct late {
    int n_ranks, n_micro, bound;
    double came[2][RANKS][MICRO * 4]; // forward, gradient; -1: not yet
    bool is_done[2][RANKS][MICRO * 4];
    double free_at[RANKS];
    int n_started, n_back; // on rank 0
    tt_str rows[RANKS];
} late;

// The rule of message_driven.c: what has arrived when the rank is free, gradients first,
// of each kind what came first. When nothing has, what comes next.
static bool choose(const late *w, int rank, int *what, int *micro,
                   double *start)
{
    double first = 1e300;
    for (int k = 0; k < 2; k++)
        for (int m = 0; m < w->n_micro; m++)
            if (w->came[k][rank][m] >= 0 && !w->is_done[k][rank][m])
                first = fmin(first, w->came[k][rank][m]);
    if (first == 1e300)
        return false;
    *start = fmax(first, w->free_at[rank]);
    for (int k = 1; k >= 0; k--) {
        double best = 1e300;
        for (int m = 0; m < w->n_micro; m++)
            if (w->came[k][rank][m] >= 0 && !w->is_done[k][rank][m] &&
                w->came[k][rank][m] <= *start && w->came[k][rank][m] < best) {
                best = w->came[k][rank][m];
                *what = k;
                *micro = m;
            }
        if (best < 1e300)
            return true;
    }
    return false;
}

static void start_more(late *w, double now)
{
    while (w->n_started < w->n_micro && w->n_started - w->n_back < w->bound)
        w->came[0][0][w->n_started++] = now;
}

static void run_row(late *w, dice *d, int rank, int what, int micro,
                    double start)
{
    const double over = start + 1 + draw(d, 4);
    const double there = over + draw(d, 10);
    w->is_done[what][rank][micro] = true;
    w->free_at[rank] = over;
    tt_str_addf(&w->rows[rank], " %c%d.%d", "FB"[what], rank, micro);
    if (what == 0 && rank + 1 < w->n_ranks)
        w->came[0][rank + 1][micro] = there;
    else if (what == 0)
        w->came[1][rank][micro] = over;
    else if (rank > 0)
        w->came[1][rank - 1][micro] = there;
    if (what == 1 && rank == 0) {
        w->n_back++;
        start_more(w, over);
    }
}

static void run_late(late *w, dice *d)
{
    start_more(w, 0);
    for (;;) {
        int rank = -1, what = 0, micro = 0;
        double start = 1e300;
        for (int r = 0; r < w->n_ranks; r++) {
            int a = 0, b = 0;
            double at = 0;
            if (choose(w, r, &a, &b, &at) && at < start) {
                rank = r;
                what = a;
                micro = b;
                start = at;
            }
        }
        if (rank < 0)
            return;
        run_row(w, d, rank, what, micro, start);
    }
}

TEST(late_messages_never_need_more_than_the_bound)
{
    for (int i = 0; i < 300; i++) {
        dice d = {tt_rng_key(16, "late", (uint64_t)i), 0};
        late w = {.n_ranks = 1 + draw(&d, RANKS),
                  .n_micro = 1 + draw(&d, MICRO * 4),
                  .bound = 1 + draw(&d, RANKS)};
        for (int r = 0; r < RANKS; r++)
            for (int m = 0; m < MICRO * 4; m++)
                w.came[0][r][m] = w.came[1][r][m] = -1;
        run_late(&w, &d);
        tt_str text = {0};
        const char *why = NULL;
        tt_str_addf(&text, "fill\nranks %d\nchunks %d\nmicro %d\nbound %d",
                    w.n_ranks, w.n_ranks, w.n_micro, w.bound);
        for (int r = 0; r < w.n_ranks; r++) {
            tt_str_addf(&text, "\nrank %d\n%s U%d.%d", r,
                        tt_str_text(&w.rows[r]), r, w.n_micro - 1);
            tt_str_fini(&w.rows[r]);
        }
        tt_pipe *p = parse(&text);
        if (tt_pipe_check(p, w.bound) != TT_OK)
            tt_test_fail(__FILE__, __LINE__, "%s\n%s", tt_error_message(),
                         tt_str_text(&text));
        CHECK(tt_pipe_carry(p, w.bound, d.key, &why));
        tt_pipe_destroy(p);
        tt_str_fini(&text);
    }
}
