// pipedream - without flush; old weights are kept (stashed).
//
// Forward reads the newest weights, and the gradient of the micro-batch reads the same
// ones, however many updates came in between. Rank r of P has P - r micro-batches in
// flight, and so P - r versions of its weights, if each micro-batch is an update. With M
// of them per update it is 1 + (P - r - 1) / M, rounded up.

#include "pipe/endless.h"

static tt_status fill(tt_pipe *p, const tt_pipe_shape *s, const void *params)
{
    (void)params;
    for (int32_t r = 0; r < s->ranks; r++)
        p->n_versions[r] = 1 + (s->ranks - r - 1 + s->micro - 1) / s->micro;
    return tt__pipe_endless(p, s);
}

const tt_pipe_def tt_pipe_pipedream = {
    .name = "pipedream",
    .doc = "without flush; a micro-batch's gradient reads the weights that its "
           "forward read, which are kept",
    .paper = "Narayanan et al., PipeDream, SOSP 2019",
    .rule = TT_PIPE_STASH,
    .has_no_chunks = true,
    .fill = fill,
    .bubble = tt__pipe_endless_bubble,
    .slots = tt__pipe_endless_slots,
};
