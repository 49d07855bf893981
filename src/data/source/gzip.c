// gzip - unpacking with zlib.
//
// The last four bytes of a file usually say how much it holds, so memory is allocated
// once. They can be wrong: they count modulo 4 GiB, a file may have several members,
// or they may lie. If more comes out than was promised, it is unpacked again with as
// much room as there may be at most, and then the memory is trimmed. A limit keeps
// small files that unpack to very much ("zip bombs") from taking all memory.

#include "data/source/gzip.h"

#include "base/alloc.h"
#include "data/number.h"

#include <limits.h>
#include <zlib.h>

enum {
    OVERHEAD = 18,        // header and trailer of the smallest file
    MOST_FROM_ONE = 1032, // bytes that one packed byte can become
};

typedef struct unpacking {
    z_stream z;
    uint8_t *out;
    int64_t room, n;
    bool is_full; // there was more than room for it
} unpacking;

static unsigned piece(int64_t n)
{
    return n < INT_MAX ? (unsigned)n : INT_MAX;
}

static tt_status damaged(const unpacking *u, int result)
{
    return tt_fail(TT_ERR_ARG, "damaged after %lld unpacked bytes: %s",
                   (long long)u->n,
                   u->z.msg != NULL           ? u->z.msg
                   : result == Z_BUF_ERROR    ? "it ends too early"
                   : result == Z_STREAM_ERROR ? "it is no gzip file"
                                              : zError(result));
}

// Everything up to the end of the input.
static tt_status inflate_all(unpacking *u, const uint8_t *from, int64_t n)
{
    int result = Z_OK;
    for (int64_t at = 0; at < n && !u->is_full;) {
        uint8_t beyond = 0;
        const bool is_beyond = u->n == u->room;
        const unsigned in = piece(n - at);
        const unsigned out = is_beyond ? 1 : piece(u->room - u->n);
        u->z.next_in = (z_const Bytef *)(uintptr_t)(from + at);
        u->z.avail_in = in;
        u->z.next_out = is_beyond ? &beyond : u->out + u->n;
        u->z.avail_out = out;
        result = inflate(&u->z, Z_NO_FLUSH);
        const bool made = u->z.avail_out < out;
        u->is_full = is_beyond && made;
        u->n += is_beyond ? 0 : out - u->z.avail_out;
        at += in - u->z.avail_in;
        if (result == Z_STREAM_END && at < n)
            result = inflateReset(&u->z); // another member
        if (result == Z_OK && in == u->z.avail_in && !made)
            result = Z_BUF_ERROR;
        if (result != Z_OK && result != Z_STREAM_END)
            return damaged(u, result);
    }
    return result == Z_STREAM_END || u->is_full ? TT_OK
                                                : damaged(u, Z_BUF_ERROR);
}

static tt_status unpack_into(unpacking *u, const uint8_t *from, int64_t n)
{
    enum { GZIP_ONLY = 16 + MAX_WBITS };
    u->out = tt_alloc(u->room > 0 ? u->room : 1);
    if (u->out == NULL || inflateInit2(&u->z, GZIP_ONLY) != Z_OK)
        return tt_fail(TT_ERR_NOMEM, "no memory to unpack %lld bytes",
                       (long long)u->room);
    const tt_status status = inflate_all(u, from, n);
    (void)inflateEnd(&u->z);
    return status;
}

static tt_status unpack(const uint8_t *from, int64_t n, int64_t room,
                        unpacking *u)
{
    *u = (unpacking){.room = room};
    const tt_status status = unpack_into(u, from, n);
    if (status != TT_OK || u->is_full) {
        tt_free(u->out);
        u->out = NULL;
    }
    return status;
}

tt_status tt_gzip_unpack(const uint8_t *from, int64_t n, uint8_t **bytes_out,
                         int64_t *n_out)
{
    if (n < OVERHEAD || from[0] != 0x1f || from[1] != 0x8b)
        return tt_fail(TT_ERR_ARG, "not a gzip file");
    int64_t most = n + TT_GZIP_EXTRA;
    if (most < n * TT_GZIP_RATIO)
        most = n * TT_GZIP_RATIO;
    if (most / MOST_FROM_ONE > n)
        most = n * MOST_FROM_ONE;
    const int64_t promised = tt_u32_at(from + n - 4);
    unpacking u = {.is_full = true};
    if (promised <= most)
        TT_TRY(unpack(from, n, promised, &u));
    if (u.is_full)
        TT_TRY(unpack(from, n, most, &u));
    if (u.is_full)
        return tt_fail(TT_ERR_ARG,
                       "unpacks to more than %lld bytes; unpack it with gunzip "
                       "and use the result, which needs no memory",
                       (long long)most);
    if (u.room > u.n + 1) { // it was a guess
        uint8_t *fitted = tt_realloc(u.out, u.room, u.n + 1);
        if (fitted == NULL) {
            tt_free(u.out);
            return tt_fail(TT_ERR_NOMEM, "no memory to unpack %lld bytes",
                           (long long)u.n);
        }
        u.out = fitted;
    }
    *bytes_out = u.out;
    *n_out = u.n;
    return TT_OK;
}

int64_t tt_inflate_most(int64_t n)
{
    return n < INT64_MAX / MOST_FROM_ONE - 1 ? (n + 1) * MOST_FROM_ONE
                                             : INT64_MAX;
}

static bool has_crc(const uint8_t *bytes, int64_t n, uint32_t want)
{
    uLong crc = crc32(0, NULL, 0);
    for (int64_t at = 0; at < n; at += piece(n - at))
        crc = crc32(crc, bytes + at, piece(n - at));
    return crc == want;
}

tt_status tt_inflate(const uint8_t *from, int64_t n, uint32_t crc, uint8_t *to,
                     int64_t bytes)
{
    unpacking u = {.out = to, .room = bytes};
    if (inflateInit2(&u.z, -MAX_WBITS) != Z_OK)
        return tt_fail(TT_ERR_NOMEM, "no memory to unpack %lld bytes",
                       (long long)bytes);
    const tt_status status = inflate_all(&u, from, n);
    (void)inflateEnd(&u.z);
    TT_TRY(status);
    if (u.is_full || u.n != bytes || !has_crc(to, bytes, crc))
        return tt_fail(TT_ERR_ARG, "it does not unpack to what was packed; it "
                                   "is damaged");
    return TT_OK;
}
