// packet - the header of packets, their check, and what their operators share.

#include "ops/codec/packet.h"

#include "ops/infer_common.h"

#include <string.h>

enum { VERSION = 2, LANES = TT_PACKET_LANES };

static const int64_t stripe = 4 * (int64_t)LANES; // bytes

typedef struct header {
    uint32_t magic, check;
    int64_t n, bytes;
} header;

_Static_assert(sizeof(header) == TT_PACKET_HEADER, "the format says 24");

// Each step of a lane is a bijection of the lane for a given word, and of the word for a
// given lane. So one changed word changes the lane for good, and the segment's sum.
static uint32_t step(uint32_t lane, uint32_t word)
{
    lane ^= word;
    return (lane << 13 | lane >> 19) + 0x9e3779b1u;
}

static uint32_t hash_segment(const unsigned char *p, int64_t bytes)
{
    uint32_t lane[LANES], word[LANES], sum = 0;
    for (int l = 0; l < LANES; l++)
        lane[l] = (uint32_t)l;
    for (int64_t i = 0; i < bytes; i += stripe) {
        const int64_t left = bytes - i;
        if (left < stripe)
            memset(word, 0, sizeof word);
        memcpy(word, p + i, (size_t)(left < stripe ? left : stripe));
        for (int l = 0; l < LANES; l++)
            lane[l] = step(lane[l], word[l]);
    }
    for (uint32_t l = 0; l < LANES; l++)
        sum += tt_packet_mix(lane[l] ^ l * 0x9e3779b1u);
    return sum;
}

uint32_t tt_packet_hash(const void *data, int64_t bytes)
{
    uint32_t hash = tt_packet_mix((uint32_t)bytes);
    for (int64_t i = 0, s = 0; i < bytes; i += TT_PACKET_SEGMENT, s++) {
        const int64_t left = bytes - i;
        hash += tt_packet_term(
            hash_segment((const unsigned char *)data + i,
                         left < TT_PACKET_SEGMENT ? left : TT_PACKET_SEGMENT),
            s);
    }
    return hash;
}

uint32_t tt_packet_magic(tt_packet_kind kind)
{
    return (uint32_t)'T' | (uint32_t)'C' << 8 | (uint32_t)kind << 16 |
           (uint32_t)VERSION << 24;
}

static uint32_t check_of(const tt_packet *packet, const header *h,
                         uint32_t hash)
{
    const uint32_t words[] = {h->magic,
                              (uint32_t)h->n,
                              (uint32_t)((uint64_t)h->n >> 32),
                              (uint32_t)h->bytes,
                              (uint32_t)((uint64_t)h->bytes >> 32),
                              packet->options};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        hash = tt_packet_mix(hash ^ words[i]);
    return hash;
}

void tt_packet_close(const tt_packet *packet, void *data, int64_t bytes,
                     uint32_t hash)
{
    header h = {
        .magic = tt_packet_magic(packet->kind), .n = packet->n, .bytes = bytes};
    h.check = check_of(packet, &h, hash);
    memcpy(data, &h, sizeof h);
}

tt_status tt_packet_open(const tt_packet *packet, const char *op, int64_t peer,
                         const void *data, int64_t *bytes_out)
{
    header h;
    memcpy(&h, data, sizeof h);
    if (h.magic != tt_packet_magic(packet->kind))
        return tt_fail(TT_ERR_PEER,
                       "%s: what came from replica %lld is no code of this "
                       "codec",
                       op, (long long)peer);
    if (h.n != packet->n)
        return tt_fail(TT_ERR_PEER,
                       "%s: the code of replica %lld is for %lld numbers, not "
                       "for %lld",
                       op, (long long)peer, (long long)h.n,
                       (long long)packet->n);
    if (h.bytes < TT_PACKET_HEADER || h.bytes > packet->capacity)
        return tt_fail(TT_ERR_PEER,
                       "%s: the code of replica %lld says that it has %lld "
                       "bytes; at most %lld fit",
                       op, (long long)peer, (long long)h.bytes,
                       (long long)packet->capacity);
    *bytes_out = h.bytes;
    return TT_OK;
}

int64_t tt_packet_used(const void *data)
{
    header h;
    memcpy(&h, data, sizeof h);
    return h.bytes;
}

tt_status tt_packet_check(const tt_packet *packet, const char *op, int64_t peer,
                          const void *data, uint32_t hash)
{
    header h;
    memcpy(&h, data, sizeof h);
    if (check_of(packet, &h, hash) != h.check)
        return tt_fail(TT_ERR_PEER,
                       "%s: the code of replica %lld is damaged: its check "
                       "does not match",
                       op, (long long)peer);
    return TT_OK;
}

tt_status tt_packet_refuse(const char *op, int64_t peer)
{
    return tt_fail(TT_ERR_PEER,
                   "%s: the code of replica %lld is damaged: no encoder "
                   "writes this",
                   op, (long long)peer);
}

static tt_status check_count(const char *op, int64_t n)
{
    if (n > (int64_t)1 << 31)
        return tt_fail(TT_ERR_ARG,
                       "%s: %lld numbers are more than 2^31; split the tensor "
                       "over ranks",
                       op, (long long)n);
    return TT_OK;
}

tt_status tt__packet_infer(tt_op_io *io)
{
    const char *op = io->op->name;
    const tt_packet_form *form = io->op->family;
    tt_shape code = {0};
    TT_TRY(tt_infer_inputs(io, op, 1, TT_P_N));
    TT_TRY(tt_infer_float(io, op, TT_PX));
    const tt_type *x = &io->in[TT_PX];
    const int64_t n = tt_shape_count(&x->shape);
    TT_TRY(check_count(op, n));
    if (form->is_random &&
        (!tt_io_has(io, TT_PSEED) || !tt_io_has(io, TT_PSTEP)))
        return tt_fail(TT_ERR_ARG, "%s: there must be a seed and a step", op);
    for (int i = TT_PSEED; i < io->n_in; i++)
        if (tt_io_has(io, i))
            TT_TRY(tt_infer_scalar(io, op, i, TT_I64));
    TT_TRY(tt_shape_push(
        &code, "bytes",
        tt_packet_capacity(tt_packet_body(form, io->params, n, x->dtype))));
    tt_infer_add(io, TT_U8, &code);
    if (!tt_io_has(io, TT_PRESIDUAL))
        return TT_OK;
    const tt_dtype wide = tt_dtype_master(x->dtype);
    if (io->in[TT_PRESIDUAL].dtype != wide)
        return tt_fail(TT_ERR_ARG, "%s: the residual is %s, not %s", op,
                       tt_dtype_name(io->in[TT_PRESIDUAL].dtype),
                       tt_dtype_name(wide));
    TT_TRY(tt_infer_same_dims(io, op, TT_PX, TT_PRESIDUAL));
    tt_infer_add(io, wide, &io->in[TT_PRESIDUAL].shape);
    return TT_OK;
}

tt_status tt__packet_infer_sum(tt_op_io *io)
{
    const char *op = io->op->name;
    TT_TRY(tt_infer_inputs(io, op, TT_PSUM_N, TT_PSUM_N));
    TT_TRY(tt_infer_float(io, op, TT_PSUM_LIKE));
    const int64_t n = tt_shape_count(&io->in[TT_PSUM_LIKE].shape);
    TT_TRY(check_count(op, n));
    const int64_t capacity = tt_packet_capacity(tt_packet_body(
        io->op->family, io->params, n, io->in[TT_PSUM_LIKE].dtype));
    const tt_type *codes = &io->in[TT_PSUM_PACKETS];
    if (codes->dtype != TT_U8 || tt_shape_count(&codes->shape) % capacity != 0)
        return tt_fail(TT_ERR_ARG,
                       "%s: these are not codes of %lld numbers: %lld bytes "
                       "each",
                       op, (long long)n, (long long)capacity);
    tt_infer_add(io, io->in[TT_PSUM_LIKE].dtype, &io->in[TT_PSUM_LIKE].shape);
    return TT_OK;
}
