// predict - without flush; one version of the weights, and a guess of later ones.
//
// No old weights are kept. Forward and gradient read the newest weights, carried on by
// the momentum as many updates as there will be until the micro-batch has come back to
// the first rank: w - ahead * lr * momentum. On rank k of P that is k/2 + P - k - 1
// updates for forward and k/2 for the gradient (halves rounded down).

#include "pipe/endless.h"

static tt_status fill(tt_pipe *p, const tt_pipe_shape *s, const void *params)
{
    (void)params;
    return tt__pipe_endless(p, s);
}

const tt_pipe_def tt_pipe_predict = {
    .name = "predict",
    .doc = "without flush; one version of the weights, carried ahead by the "
           "momentum",
    .paper = "Chen et al., SpecTrain, 2018 (arXiv 1809.02839)",
    .rule = TT_PIPE_PREDICT,
    .has_no_chunks = true,
    .fill = fill,
    .bubble = tt__pipe_endless_bubble,
    .slots = tt__pipe_endless_slots,
};
