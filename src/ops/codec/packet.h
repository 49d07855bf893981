// packet - a tensor as bytes for the wire: a short header and what a codec made of the
// numbers.
//
//   0   magic   4 bytes: "TC", the codec's kind, the version
//   4   check   of all that follows, and of the codec's options
//   8   n       elements of the tensor
//  16   bytes   used, with this header; the rest up to the capacity is not sent
//  24   body    what the codec wrote
//
// A packet has a capacity that follows from the tensor's shape, so memory is assigned
// before the first step. How many bytes are used is known only when it is written.
//
// The check finds every damage that is within one word of 4 bytes, and others but for one
// in 2^32. It is not a signature: a body that passes it may still be nonsense from a
// malicious peer. So every decoder checks each number that it uses as a size or a place.
//
// The operators that write and read packets are called X_encode and X_sum:
//
//   X_encode (x, residual, seed, step) -> (packet [capacity], residual)
//            encodes e = x + residual; the new residual is e minus what the packet
//            stands for: error feedback. Without a residual there is one output
//   X_sum    (packets of all peers, one after another, like) -> the sum of what they
//            stand for, with the shape and the type of `like`
//
// Numbers are float in a packet, and decided about in float, for tensors of every type;
// only the values that sparse codecs pick are double for a tensor of doubles. Everything
// that decides about a code is defined to the bit, so that all kernels write the same.

#ifndef TT_OPS_CODEC_PACKET_H
#define TT_OPS_CODEC_PACKET_H

#include "graph/op.h"

enum { TT_PACKET_HEADER = 24, TT_PACKET_LANES = 32, TT_PACKET_SEGMENT = 4096 };

// What the body is. The numbers are part of the format.
typedef enum tt_packet_kind {
    TT_PACKET_INT8 = 1,
    TT_PACKET_ONEBIT,
    TT_PACKET_SIGN,
    TT_PACKET_TWOBIT,
    TT_PACKET_TERNARY,
    TT_PACKET_NATURAL,
    TT_PACKET_QSGD,
    TT_PACKET_THREELC,
    TT_PACKET_SPARSE,    // values and their places
    TT_PACKET_THRESHOLD, // places and signs of one value
    TT_PACKET_NONZERO,   // as sparse
} tt_packet_kind;

// What identifies a packet besides its body.
typedef struct tt_packet {
    tt_packet_kind kind;
    uint32_t options; // a digest of the options that the body depends on
    int64_t n;
    int64_t capacity; // of the whole packet
} tt_packet;

// Inputs of X_encode and of X_sum.
enum { TT_PX, TT_PRESIDUAL, TT_PSEED, TT_PSTEP, TT_P_N };
enum { TT_PSUM_PACKETS, TT_PSUM_LIKE, TT_PSUM_N };

static inline int64_t tt_packet_capacity(int64_t body_bytes)
{
    return (TT_PACKET_HEADER + body_bytes + 7) / 8 * 8;
}

// The check of `bytes` bytes. Each segment of TT_PACKET_SEGMENT bytes has TT_PACKET_LANES
// chains of words and is a term of a sum, so that vectors can follow many chains and a GPU
// many segments at a time.
uint32_t tt_packet_hash(const void *data, int64_t bytes);

static inline uint32_t tt_packet_mix(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

// What segment number s adds; `lanes`: the sum of its mixed chains.
static inline uint32_t tt_packet_term(uint32_t lanes, int64_t s)
{
    return tt_packet_mix(lanes ^ tt_packet_mix((uint32_t)s + 1));
}

// The first four bytes of a packet.
uint32_t tt_packet_magic(tt_packet_kind kind);

// Writes the header of a packet of which `bytes` are used (with the header) and `hash`
// is tt_packet_hash of the body.
void tt_packet_close(const tt_packet *packet, void *data, int64_t bytes,
                     uint32_t hash);

// Reads the header, without looking at the body. `peer` and `op` are for the sentence.
tt_status tt_packet_open(const tt_packet *packet, const char *op, int64_t peer,
                         const void *data, int64_t *bytes_out);
// Bytes that are used, as the header says; of a packet that was just written.
int64_t tt_packet_used(const void *data);
// Whether the header's check is that of a body with this hash.
tt_status tt_packet_check(const tt_packet *packet, const char *op, int64_t peer,
                          const void *data, uint32_t hash);
// The failure of a decoder that met a body that no encoder writes.
tt_status tt_packet_refuse(const char *op, int64_t peer);

// Random bits of element i. Cheaper than Philox: decisions about rounding need many,
// and no more than that they are independent of the data and of each other.
static inline uint32_t tt_packet_random(uint64_t key, uint32_t i)
{
    uint32_t h = i * 0x9e3779b1u + (uint32_t)key;
    h = (h ^ h >> 16) * 0x7feb352du;
    h = (h ^ h >> 15) * 0x846ca68bu;
    h = (h ^ h >> 16) + (uint32_t)(key >> 32);
    h = (h ^ h >> 15) * 0x9e3779b1u;
    return h ^ h >> 16;
}

// What codecs differ in outside their kernels: the `family` of X_encode and X_sum.
typedef struct tt_packet_form tt_packet_form;
struct tt_packet_form {
    tt_packet_kind kind;
    tt_packet_kind (*kind_of)(const void *params); // NULL: always `kind`
    bool is_random; // there must be a seed and a step
    // The most bytes that the body needs for n numbers of this type.
    int64_t (*body)(const tt_packet_form *form, const void *params, int64_t n,
                    tt_dtype dtype);
    int scales, per_byte; // of a block (codes.h)
};

extern const tt_packet_form tt_form_int8, tt_form_onebit, tt_form_sign,
    tt_form_twobit, tt_form_ternary, tt_form_natural, tt_form_qsgd,
    tt_form_threelc, tt_form_topk, tt_form_threshold, tt_form_nonzero;

static inline int64_t tt_packet_body(const tt_packet_form *form,
                                     const void *params, int64_t n,
                                     tt_dtype dtype)
{
    return form->body(form, params, n, dtype);
}

static inline tt_packet_kind tt_packet_kind_of(const tt_packet_form *form,
                                               const void *params)
{
    return form->kind_of == NULL ? form->kind : form->kind_of(params);
}

// Whether the bytes that are used depend on the numbers.
static inline bool tt_packet_varies(const tt_packet_form *form)
{
    return form->kind == TT_PACKET_QSGD || form->kind == TT_PACKET_THREELC ||
           form->kind == TT_PACKET_THRESHOLD || form->kind == TT_PACKET_NONZERO;
}

// The infer functions of X_encode and X_sum.
tt_op_infer_fn tt__packet_infer, tt__packet_infer_sum;

// Bytes of the values that a sparse codec picks.
static inline int64_t tt_packet_value_bytes(tt_dtype dtype)
{
    return dtype == TT_F64 ? 8 : 4;
}

static inline int64_t tt_ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

#endif
