// gpipe - all micro-batches forward, then all backward. With several chunks per rank,
// all micro-batches go through a rank's first chunk before its second one starts
// (breadth first; Lamy-Poirier, MLSys 2023).
//
//   rank 0   F0 F1 F2 F3 .  .  B0 B1 B2 B3
//   rank 1   .  F0 F1 F2 F3 B0 B1 B2 B3 .
//
// The simplest schedule; all micro-batches are in flight at once. The paper goes back
// from the last micro-batch to the first. Here gradients come in the order of the
// micro-batches, so that sums are taken in the same order as on one rank. Bubble and
// memory are the same.

#include "pipe/inside.h"

static tt_status fill(tt_pipe *p, const tt_pipe_shape *s, const void *params)
{
    (void)params;
    for (int32_t r = 0; r < s->ranks; r++) {
        for (int32_t v = 0; v < s->chunks; v++)
            for (int32_t m = 0; m < s->micro; m++)
                TT_TRY(
                    tt__pipe_add(p, r, TT_PIPE_FORWARD, v * s->ranks + r, m));
        for (int32_t v = s->chunks - 1; v >= 0; v--)
            for (int32_t m = 0; m < s->micro; m++)
                TT_TRY(
                    tt__pipe_add(p, r, TT_PIPE_BACKWARD, v * s->ranks + r, m));
    }
    return TT_OK;
}

static double bubble(const tt_pipe_shape *s, const void *params,
                     const tt_pipe_even *t)
{
    (void)params;
    if (s->chunks > 1 && s->micro < s->ranks)
        return -1; // a rank waits for its next chunk too
    return (s->ranks - 1) * (t->forward + t->input_grad + t->weight_grad);
}

static int64_t slots(const tt_pipe_shape *s, const void *params, int32_t rank)
{
    (void)params, (void)rank;
    return (int64_t)s->micro * s->chunks;
}

const tt_pipe_def tt_pipe_gpipe = {
    .name = "gpipe",
    .doc = "all micro-batches forward, then all backward",
    .paper = "Huang et al., GPipe, NeurIPS 2019",
    .fill = fill,
    .bubble = bubble,
    .slots = slots,
};
