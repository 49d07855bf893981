// 1f1b - a few micro-batches forward, then one backward for each forward.
//
//   rank 0   F0 F1 .  B0 F2 B1 F3 B2 .  B3
//   rank 1   .  F0 B0 F1 B1 F2 B2 F3 B3 .
//
// As soon as a gradient can come back, it does, and its slot is free for the next
// micro-batch: rank r of P has at most P - r in flight, however many there are. The
// bubble is that of gpipe.

#include "pipe/inside.h"

static tt_status fill(tt_pipe *p, const tt_pipe_shape *s, const void *params)
{
    (void)params;
    for (int32_t r = 0; r < s->ranks; r++) {
        int32_t f = 0;
        for (int32_t b = 0; b < s->micro; b++) {
            while (f < s->micro && f < b + s->ranks - r)
                TT_TRY(tt__pipe_add(p, r, TT_PIPE_FORWARD, r, f++));
            TT_TRY(tt__pipe_add(p, r, TT_PIPE_BACKWARD, r, b));
        }
    }
    return TT_OK;
}

static double bubble(const tt_pipe_shape *s, const void *params,
                     const tt_pipe_even *t)
{
    (void)params;
    return (s->ranks - 1) * (t->forward + t->input_grad + t->weight_grad);
}

static int64_t slots(const tt_pipe_shape *s, const void *params, int32_t rank)
{
    (void)params;
    return s->micro < s->ranks - rank ? s->micro : s->ranks - rank;
}

const tt_pipe_def tt_pipe_one_f_one_b = {
    .name = "1f1b",
    .doc = "one forward, one backward: as few micro-batches in flight as there "
           "are stages",
    .paper =
        "Narayanan et al., PipeDream, SOSP 2019, with a flush (Fan et al., "
        "DAPPLE, PPoPP 2021)",
    .has_no_chunks = true,
    .fill = fill,
    .bubble = bubble,
    .slots = slots,
};
