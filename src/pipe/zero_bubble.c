// zero_bubble - see zero_bubble.h.

#include "pipe/zero_bubble.h"

// Forward rows ahead of the first gradient: as many as the gradient takes to come back,
// so that there is no bubble before it, as far as the slots allow. Rank r holds r
// micro-batches longer than needed, so that its weight gradients are left for the end.
static int32_t lead(const tt_pipe_shape *s, int32_t rank, int32_t slots)
{
    const int32_t whole = 2 * (s->ranks - rank) - 1, room = slots - rank;
    const int32_t n = whole < room ? whole : room;
    return n < 1 ? 1 : n;
}

tt_status tt__pipe_zero_bubble(tt_pipe *p, const tt_pipe_shape *s,
                               int32_t slots)
{
    for (int32_t r = 0; r < s->ranks; r++) {
        int32_t f = 0, w = 0;
        while (f < s->micro && f < lead(s, r, slots))
            TT_TRY(tt__pipe_add(p, r, TT_PIPE_FORWARD, r, f++));
        for (int32_t i = 0; i < s->micro; i++) {
            TT_TRY(tt__pipe_add(p, r, TT_PIPE_INPUT_GRAD, r, i));
            // At the end there is no forward row left to put between two input
            // gradients.
            if (f == s->micro || f - w == slots)
                TT_TRY(tt__pipe_add(p, r, TT_PIPE_WEIGHT_GRAD, r, w++));
            if (f < s->micro)
                TT_TRY(tt__pipe_add(p, r, TT_PIPE_FORWARD, r, f++));
        }
        while (w < s->micro)
            TT_TRY(tt__pipe_add(p, r, TT_PIPE_WEIGHT_GRAD, r, w++));
    }
    return TT_OK;
}
