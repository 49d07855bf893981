// gems - two copies of the model in opposite directions, one micro-batch after another.
//
// Rank r holds chunk r of one copy and chunk P - 1 - r of the other. While the gradient
// of a micro-batch comes back from the last rank, the next micro-batch follows it
// through the other copy, which begins there.
//
//   rank 0   F0 .  .  B0 f1 b1 .  .  F2       f, b: the second copy
//   rank 1   .  F0 B0 f1 .  .  b1 F2 .
//
// A rank holds one micro-batch at a time. That is least memory, and most bubble.

#include "pipe/inside.h"

static tt_status refuse(const tt_pipe_shape *s, const void *params)
{
    (void)params;
    if (s->micro < 2)
        return tt_fail(TT_ERR_ARG,
                       "1 micro-batch: two copies of the model need at least "
                       "2, one for each direction");
    return TT_OK;
}

static tt_status fill(tt_pipe *p, const tt_pipe_shape *s, const void *params)
{
    (void)params;
    for (int32_t r = 0; r < s->ranks; r++)
        for (int32_t m = 0; m < s->micro; m++) {
            tt_pipe_row row = {.phase = TT_PIPE_FORWARD,
                               .chunk = m % 2 == 0 ? r : s->ranks - 1 - r,
                               .copy = m % 2,
                               .micro = m};
            TT_TRY(tt__pipe_add_row(p, r, &row));
            row.phase = TT_PIPE_BACKWARD;
            TT_TRY(tt__pipe_add_row(p, r, &row));
        }
    return TT_OK;
}

static double bubble(const tt_pipe_shape *s, const void *params,
                     const tt_pipe_even *t)
{
    (void)params;
    const double f = t->forward, b = t->input_grad + t->weight_grad;
    if (b < f)
        return -1; // gradients would wait for the forward rows before them
    // First forward pass, M backward passes, and between two of these a forward row.
    return s->ranks * f + s->micro * s->ranks * b + (s->micro - 1) * f -
           s->micro * (f + b);
}

static int64_t slots(const tt_pipe_shape *s, const void *params, int32_t rank)
{
    (void)s, (void)params, (void)rank;
    return 1;
}

const tt_pipe_def tt_pipe_gems = {
    .name = "gems",
    .doc = "two copies of the model in opposite directions: least memory for "
           "activations",
    .paper = "Jain et al., GEMS, SC 2020",
    .n_copies = 2,
    .has_no_chunks = true,
    .refuse = refuse,
    .fill = fill,
    .bubble = bubble,
    .slots = slots,
};
