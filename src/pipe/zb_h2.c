// zb-h2 - zero bubble: with 2P - 1 micro-batches in flight no rank ever waits. Fewer
// slots are allowed; with P of them it is zb-h1.

#include "pipe/zero_bubble.h"

typedef struct slot_params {
    int64_t slots;
} slot_params;

static const tt_opt options[] = {
    {"slots", "0",
     "most micro-batches in flight on a rank; 0: 2P - 1, no bubble", TT_OPT_I64,
     offsetof(slot_params, slots), NULL, 0, TT_PIPE_MICRO_MAX},
    {0},
};

static int32_t most(const tt_pipe_shape *s, const slot_params *params)
{
    return params->slots > 0 ? (int32_t)params->slots : 2 * s->ranks - 1;
}

static tt_status fill(tt_pipe *p, const tt_pipe_shape *s, const void *params)
{
    return tt__pipe_zero_bubble(p, s, most(s, params));
}

static double bubble(const tt_pipe_shape *s, const void *params,
                     const tt_pipe_even *t)
{
    if (t->weight_grad > t->forward || most(s, params) != 2 * s->ranks - 1 ||
        s->micro < 2 * s->ranks - 1)
        return -1;
    const double gap = t->forward + t->input_grad - 2 * t->weight_grad;
    return gap > 0 ? (s->ranks - 1) * gap : 0;
}

static int64_t slots(const tt_pipe_shape *s, const void *params, int32_t rank)
{
    const int32_t n = most(s, params);
    (void)rank;
    return s->micro < n ? s->micro : n;
}

const tt_pipe_def tt_pipe_zb_h2 = {
    .name = "zb-h2",
    .doc = "weight gradients fill the bubble, with twice the memory of 1f1b",
    .paper = "Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024",
    .options = options,
    .params_bytes = sizeof(slot_params),
    .has_no_chunks = true,
    .fill = fill,
    .bubble = bubble,
    .slots = slots,
};
