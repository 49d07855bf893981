// 2bw - without flush; two versions of the weights on every rank.
//
// All micro-batches of step t read the weights of t - 1 updates, which is one less than
// there could be: w(t+1) = w(t) - lr * gradient at w(t-1). So every rank has the same
// delay, one. Two versions are enough as long as a step has at least P - 1 micro-batches
// (the paper asks for P): then the first of step t + 2 starts after the last gradient of
// step t, whose update makes the weights that it reads.

#include "pipe/endless.h"

static tt_status refuse(const tt_pipe_shape *s, const void *params)
{
    (void)params;
    if (s->micro < s->ranks - 1)
        return tt_fail(TT_ERR_ARG,
                       "%d micro-batches per step on %d ranks: two versions of "
                       "the weights are enough only with at least %d; "
                       "pipedream keeps as many as it needs",
                       s->micro, s->ranks, s->ranks - 1);
    return TT_OK;
}

static tt_status fill(tt_pipe *p, const tt_pipe_shape *s, const void *params)
{
    (void)params;
    for (int32_t r = 0; r < s->ranks; r++)
        p->n_versions[r] = 2;
    return tt__pipe_endless(p, s);
}

const tt_pipe_def tt_pipe_two_bw = {
    .name = "2bw",
    .doc = "without flush; two versions of the weights, every update is one "
           "step late",
    .paper = "Narayanan et al., PipeDream-2BW, ICML 2021",
    .rule = TT_PIPE_DOUBLE,
    .has_no_chunks = true,
    .refuse = refuse,
    .fill = fill,
    .bubble = tt__pipe_endless_bubble,
    .slots = tt__pipe_endless_slots,
};
