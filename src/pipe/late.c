// late - one rank; the update of a chunk waits until the chunk is read again.
//
// Problem: the sums of the gradients over the ranks along data must be there before the
// update, and the update before the next step. Those of the first layers are made last, so
// nothing hides them. Idea (P3, ByteScheduler, TicTac): a layer's weights are needed when
// the next forward pass comes to it, not before. So the update of each chunk comes there,
// and what is on its way has the forward pass of all chunks before it to arrive.
//
//   step 0                  | step 1
//   F0 F1 F2 B2 B1 B0 U0    | F0 U1 F1 U2 F2 B2 B1 B0 U0 | ...
//   sums         2--1--0--->    1->    2->
//
// Every row reads the weights that it would read with a flush, so what is computed is the
// same. Only the sums of chunk 0 are waited for; they must be sent first
// (exchange.order=priority). There is one version of the weights.

#include "pipe/inside.h"

static tt_status refuse(const tt_pipe_shape *s, const void *params)
{
    (void)params;
    return s->ranks == 1
               ? TT_OK
               : tt_fail(TT_ERR_ARG,
                         "updates wait for sums over ranks along data, so it "
                         "is for one stage, not %d; 1f1b would do",
                         s->ranks);
}

static tt_status add_forward(tt_pipe *p, int32_t micro)
{
    const bool is_first = micro > 0 && micro % p->n_micro == 0;
    for (int32_t c = 0; c < p->n_chunks; c++) {
        if (is_first)
            TT_TRY(tt__pipe_add(p, 0, TT_PIPE_UPDATE, c, micro - 1));
        TT_TRY(tt__pipe_add(p, 0, TT_PIPE_FORWARD, c, micro));
    }
    return TT_OK;
}

static tt_status fill(tt_pipe *p, const tt_pipe_shape *s, const void *params)
{
    const int32_t all = tt__pipe_all_micro(p);
    (void)s;
    (void)params;
    for (int32_t m = 0; m < all; m++) {
        TT_TRY(add_forward(p, m));
        for (int32_t c = p->n_chunks - 1; c >= 0; c--)
            TT_TRY(tt__pipe_add(p, 0, TT_PIPE_BACKWARD, c, m));
    }
    for (int32_t c = 0; c < p->n_chunks; c++)
        TT_TRY(tt__pipe_add(p, 0, TT_PIPE_UPDATE, c, all - 1));
    return TT_OK;
}

static double bubble(const tt_pipe_shape *s, const void *params,
                     const tt_pipe_even *t)
{
    (void)s;
    (void)params;
    (void)t;
    return 0;
}

static int64_t slots(const tt_pipe_shape *s, const void *params, int32_t rank)
{
    (void)params;
    (void)rank;
    return s->chunks;
}

const tt_pipe_def tt_pipe_late = {
    .name = "late",
    .doc = "one rank; the update of a chunk waits until the chunk is read "
           "again, so that sums over ranks may end in the next forward pass",
    .paper = "Jayarajan et al., P3, MLSys 2019; Peng et al., ByteScheduler, "
             "SOSP 2019; Hashemi et al., TicTac, MLSys 2019",
    .rule = TT_PIPE_STASH,
    .refuse = refuse,
    .fill = fill,
    .bubble = bubble,
    .slots = slots,
};
