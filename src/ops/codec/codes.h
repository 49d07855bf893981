// codes - the options and sizes of the codecs that write packets (packet.h).
//
// Codecs in blocks cut the tensor, seen as a vector, into blocks; the last may be
// shorter. A block has one or two scales (float) and a digit per element. Several digits
// of a small base share a byte. They are taken from as many parts of the block, not from
// neighbours, so that plain loops over bytes are vectors:
//
//   m = ceil(length / per_byte)
//   byte j = digit[j] + base digit[j + m] + base^2 digit[j + 2 m] + ...
//
//   body   scales of all blocks, then the bytes of all blocks
//
//   codec     scale                digit and what it stands for
//   int8      the largest |e|      1 .. 255: (digit - 128) scale / 127
//   onebit    mean below 0, mean   0, 1: the mean of that side
//             of the others
//   sign      mean |e|             0, 1: minus or plus the scale
//   twobit    mean |e| or fixed    0, 1, 2: nothing, plus, minus the scale
//   ternary   the largest |e|      0, 1, 2: minus the scale, nothing, plus
//   natural   a power of 2 above   sign and 7 bits: a power of 2
//
// A block with a number that is not finite has a scale that is not, and comes back as NaN;
// its residual is 0, since it could never recover from NaN.
//
// Means are sums in 16 chains: chain c adds elements c, c + 16, ... in order; then chains
// c and c + 8 are added, then c and c + 4, and so on.

#ifndef TT_OPS_CODEC_CODES_H
#define TT_OPS_CODEC_CODES_H

#include "ops/codec/packet.h"

enum { TT_CODE_CHAINS = 16, TT_CODE_BLOCK_MOST = 16384 };

typedef struct tt_code_params {
    int64_t block;
    double threshold; // twobit
    int64_t levels;   // qsgd
    double sparsity;  // 3lc
} tt_code_params;

extern const tt_opt tt_int8_options[], tt_onebit_options[], tt_sign_options[],
    tt_twobit_options[], tt_ternary_options[], tt_natural_options[];

// Of the options that decoders must share with encoders.
static inline uint32_t tt_code_digest(const tt_code_params *p)
{
    return (uint32_t)p->block ^ (uint32_t)p->levels << 20;
}

static inline int64_t tt_code_blocks(const tt_code_params *p, int64_t n)
{
    return tt_ceil_div(n, p->block);
}

// Bytes of the digits of n elements.
static inline int64_t tt_code_digits_bytes(const tt_code_params *p,
                                           int64_t per_byte, int64_t n)
{
    return n / p->block * tt_ceil_div(p->block, per_byte) +
           tt_ceil_div(n % p->block, per_byte);
}

// What the operators of codecs in blocks share: the bytes of scales and digits, the cost
// of an encoder (flops_each per element), samples of a sum, the option.
int64_t tt__code_body(const tt_packet_form *form, const void *params, int64_t n,
                      tt_dtype dtype);
tt_op_cost_fn tt__code_cost;
extern const tt_sample tt__code_sum_samples[];
#define TT_CODE_BLOCK_OPTION(by_default)                                       \
    {                                                                          \
        "block", by_default, "entries that share a scale", TT_OPT_I64,         \
            .offset = offsetof(tt_code_params, block), .min = 8,               \
            .max = TT_CODE_BLOCK_MOST                                          \
    }

#endif
