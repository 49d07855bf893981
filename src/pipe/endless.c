// endless - see endless.h.

#include "pipe/endless.h"

tt_status tt__pipe_endless(tt_pipe *p, const tt_pipe_shape *s)
{
    const int32_t all = tt__pipe_all_micro(p);
    for (int32_t r = 0; r < s->ranks; r++) {
        int32_t f = 0;
        for (int32_t b = 0; b < all; b++) {
            while (f < all && f < b + s->ranks - r)
                TT_TRY(tt__pipe_add(p, r, TT_PIPE_FORWARD, r, f++));
            TT_TRY(tt__pipe_add(p, r, TT_PIPE_BACKWARD, r, b));
            if ((b + 1) % s->micro == 0)
                TT_TRY(tt__pipe_add(p, r, TT_PIPE_UPDATE, r, b));
        }
    }
    return TT_OK;
}

double tt__pipe_endless_bubble(const tt_pipe_shape *s, const void *params,
                               const tt_pipe_even *t)
{
    (void)params;
    return (s->ranks - 1) * (t->forward + t->input_grad + t->weight_grad);
}

int64_t tt__pipe_endless_slots(const tt_pipe_shape *s, const void *params,
                               int32_t rank)
{
    const int64_t all = (int64_t)s->micro * s->steps;
    (void)params;
    return all < s->ranks - rank ? all : s->ranks - rank;
}
