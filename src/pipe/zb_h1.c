// zb-h1 - zero bubble with the memory of 1f1b: P micro-batches in flight.

#include "pipe/zero_bubble.h"

static tt_status fill(tt_pipe *p, const tt_pipe_shape *s, const void *params)
{
    (void)params;
    return tt__pipe_zero_bubble(p, s, s->ranks);
}

static double bubble(const tt_pipe_shape *s, const void *params,
                     const tt_pipe_even *t)
{
    (void)params;
    // A weight gradient fits where a forward row would be.
    if (t->weight_grad > t->forward || s->micro < s->ranks)
        return -1;
    return (s->ranks - 1) * (t->forward + t->input_grad - t->weight_grad);
}

static int64_t slots(const tt_pipe_shape *s, const void *params, int32_t rank)
{
    (void)params, (void)rank;
    return s->micro < s->ranks ? s->micro : s->ranks;
}

const tt_pipe_def tt_pipe_zb_h1 = {
    .name = "zb-h1",
    .doc = "weight gradients fill the bubble, with the memory of 1f1b",
    .paper = "Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024",
    .has_no_chunks = true,
    .fill = fill,
    .bubble = bubble,
    .slots = slots,
};
