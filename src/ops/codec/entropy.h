// entropy - the codecs whose codes have a length that depends on the numbers.
//
// qsgd, with s levels. A block's numbers are whole multiples of norm / s:
//
//   norm    root of the sum of squares, added as doubles in chains as in codes.h
//           With a residual it is sent times tt_qsgd_shrink: else residuals would grow
//           without end, since what is sent is right on average but far off each time
//   level   floor(|e| (s / norm) + u), at most s; u = 24 random bits
//   body    norms of all blocks; sizes of all blocks (u16); the blocks' bytes
//   block   for each level above 0: Elias gamma of the distance from the one before, a bit
//           for minus, Elias gamma of the level. Bits fill bytes from the lowest. Where
//           that would not be shorter, level + s in as many bits as 2 s needs instead,
//           and the size's top bit is set
//
// Elias gamma of x: as many zeros as x has bits after its first, then these bits of x
// from the highest, with the first.
//
// 3lc. A block's numbers are -1, 0 or 1 times a scale, five in a byte (codes.h, with
// digits 0, 1, 2 and the weights 1, 3, 9, 27, 81):
//
//   scale   `sparsity` times the largest |e|
//   digit   floor(e (1 / scale) + 1/2) + 1
//   body    scales of all blocks, then all bytes with runs made short: 2 to 14 bytes
//           "121", five zeros each, are one byte from 243 to 255

#ifndef TT_OPS_CODEC_ENTROPY_H
#define TT_OPS_CODEC_ENTROPY_H

#include "ops/codec/codes.h"

enum {
    TT_QSGD_DENSE = 0x8000, // flag of a size
    TT_THREELC_ZEROS = 121,
    TT_THREELC_RUN = 243, // two bytes of zeros
    TT_THREELC_LONGEST = 14,
    TT_THREELC_PER_BYTE = 5,
};

extern const tt_opt tt_qsgd_options[], tt_threelc_options[];

// Bits of a level with its sign, when all are written.
static inline int tt_qsgd_bits(const tt_code_params *p)
{
    int bits = 1;
    while (((int64_t)1 << bits) <= 2 * p->levels)
        bits++;
    return bits;
}

float tt_qsgd_shrink(const tt_code_params *p);

static inline int64_t tt_qsgd_dense_bytes(const tt_code_params *p,
                                          int64_t length)
{
    return tt_ceil_div(length * tt_qsgd_bits(p), 8);
}

#endif
