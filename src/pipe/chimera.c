// chimera - two copies of the model in opposite directions, both full.
//
// Rank r holds chunk r of one copy and chunk P - 1 - r of the other. P micro-batches
// are a unit: half of them go each way, as in 1f1b. Where one direction leaves a gap the
// other has a row, if forward and backward take equally long.
//
//   rank 0   F0 .  F1 f2 b2 f3 b3 B0 .  B1      f, b: the second copy
//   rank 1   .  F0 f2 F1 f3 b2 B0 b3 B1 .
//   rank 2   .  f2 F0 f3 F1 B0 b2 B1 b3 .
//   rank 3   f2 .  f3 F0 B0 F1 B1 b2 .  b3
//
// So a row has a nominal time: in a unit that begins at 0, forward of the j-th
// micro-batch of a direction in its chunk c at c + 2j, backward at 2P - 1 - c + 2j. The
// next unit begins 2P later and fills the gaps of the one before. Rows are sorted by
// that time, so a row never waits for one that comes later.

#include "pipe/inside.h"

#include <stdlib.h>

typedef struct timed_row {
    int64_t time;
    tt_pipe_row row;
} timed_row;

static int compare(const void *a, const void *b)
{
    const timed_row *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return x->row.micro - y->row.micro;
}

static tt_status refuse(const tt_pipe_shape *s, const void *params)
{
    (void)params;
    if (s->micro < 2)
        return tt_fail(TT_ERR_ARG,
                       "1 micro-batch: two copies of the model need at least "
                       "2, one for each direction");
    return TT_OK;
}

static void list_rank(const tt_pipe_shape *s, int32_t rank, timed_row *list)
{
    const int64_t n_ranks = s->ranks;
    for (int32_t m = 0; m < s->micro; m++, list += 2) {
        const int32_t unit = m / s->ranks, begin = unit * s->ranks;
        const int32_t n =
            s->micro - begin < s->ranks ? s->micro - begin : s->ranks;
        const int32_t half = (n + 1) / 2, i = m - begin;
        const int32_t copy = i >= half;
        const int32_t chunk = copy == 0 ? rank : s->ranks - 1 - rank;
        const int64_t j = copy == 0 ? i : i - half;
        const int64_t start = 2 * n_ranks * unit + 2 * j;
        list[0] = (timed_row){start + chunk,
                              {.phase = TT_PIPE_FORWARD,
                               .chunk = chunk,
                               .copy = copy,
                               .micro = m}};
        list[1] = list[0];
        list[1].row.phase = TT_PIPE_BACKWARD;
        list[1].time = start + 2 * n_ranks - 1 - chunk;
    }
}

static tt_status fill(tt_pipe *p, const tt_pipe_shape *s, const void *params)
{
    (void)params;
    const int32_t n = 2 * s->micro;
    timed_row *list = tt_arena_alloc(p->arena, n * (int64_t)sizeof(*list));
    if (list == NULL)
        return TT_ERR_NOMEM;
    for (int32_t r = 0; r < s->ranks; r++) {
        list_rank(s, r, list);
        qsort(list, (size_t)n, sizeof(*list), compare);
        for (int32_t i = 0; i < n; i++)
            TT_TRY(tt__pipe_add_row(p, r, &list[i].row));
    }
    return TT_OK;
}

static double bubble(const tt_pipe_shape *s, const void *params,
                     const tt_pipe_even *t)
{
    (void)params;
    const double b = t->input_grad + t->weight_grad;
    if (t->forward != b || s->micro % s->ranks != 0)
        return -1;
    return (s->ranks - 2) * b;
}

const tt_pipe_def tt_pipe_chimera = {
    .name = "chimera",
    .doc = "two copies of the model in opposite directions: half the bubble of "
           "1f1b",
    .paper = "Li and Hoefler, Chimera, SC 2021",
    .n_copies = 2,
    .has_no_chunks = true,
    .refuse = refuse,
    .fill = fill,
    .bubble = bubble,
};
