// interleaved - 1f1b with several chunks per rank, as in Megatron-LM.
//
// Rank r holds chunks r, r + P, r + 2P, ...: the layers go round the ranks V times.
// Chunks are V times smaller, and so is the time until the last rank has work; the
// price is V times as many messages and more micro-batches in flight. Micro-batches go
// through a rank in groups of P: all of a group through its first chunk, then through
// its second, and so on; gradients the other way round.
//
//   rank 0   F0.0 F0.1 F2.0 F2.1 F0.2 B2.0 F0.3 B2.1 F2.2 B0.0 ...   (chunk.micro-batch)
//   rank 1   .    F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 F1.2 B1.0 ...
//
// Rank r runs 2(P - r - 1) + (V - 1)P forward rows ahead of its first gradient.
//
// Megatron wants a multiple of P micro-batches. Here those that are left over go with the
// first group, which then has G instead of P, in the formula above too. A short group at
// the end would not do: a rank would need a micro-batch in its next chunk before it has
// come round, and some such orders stand still.

#include "pipe/inside.h"

// Micro-batches of the first group: P, and those by which their number is no multiple.
static int32_t first_group(const tt_pipe_shape *s)
{
    return s->micro < 2 * s->ranks ? s->micro : s->ranks + s->micro % s->ranks;
}

// The k-th row of a rank: its chunk among the rank's, and its micro-batch.
static void find(const tt_pipe_shape *s, int32_t k, int32_t *v, int32_t *micro)
{
    const int32_t first = first_group(s);
    int32_t size = first, begin = 0;
    if (k >= first * s->chunks) {
        k -= first * s->chunks;
        size = s->ranks;
        begin = first + k / (size * s->chunks) * size;
        k %= size * s->chunks;
    }
    *v = k / size;
    *micro = begin + k % size;
}

static tt_status add(tt_pipe *p, const tt_pipe_shape *s, int32_t rank,
                     tt_pipe_phase phase, int32_t k)
{
    int32_t v = 0, micro = 0;
    find(s, k, &v, &micro);
    if (phase == TT_PIPE_BACKWARD)
        v = s->chunks - 1 - v;
    return tt__pipe_add(p, rank, phase, v * s->ranks + rank, micro);
}

static int32_t ahead(const tt_pipe_shape *s, int32_t rank)
{
    return s->chunks == 1
               ? s->ranks - rank - 1
               : 2 * (s->ranks - rank - 1) + (s->chunks - 1) * first_group(s);
}

static tt_status fill(tt_pipe *p, const tt_pipe_shape *s, const void *params)
{
    (void)params;
    const int32_t n = s->micro * s->chunks;
    for (int32_t r = 0; r < s->ranks; r++) {
        int32_t f = 0;
        for (int32_t b = 0; b < n; b++) {
            while (f < n && f <= b + ahead(s, r))
                TT_TRY(add(p, s, r, TT_PIPE_FORWARD, f++));
            TT_TRY(add(p, s, r, TT_PIPE_BACKWARD, b));
        }
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
    (void)params;
    const int32_t most = s->micro * s->chunks, n = ahead(s, rank) + 1;
    return n < most ? n : most;
}

const tt_pipe_def tt_pipe_interleaved = {
    .name = "interleaved",
    .doc = "1f1b with several chunks per rank: a smaller bubble, more messages",
    .paper = "Narayanan et al., Megatron-LM, SC 2021",
    .fill = fill,
    .bubble = bubble,
    .slots = slots,
};
