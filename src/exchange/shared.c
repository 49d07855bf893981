#include "exchange/shared.h"

#include <string.h>

enum { BLOCK = 128 }; // elements that are in a worker's own memory at once

// ---- words ---------------------------------------------------------------

static int64_t word_bytes(const tt_shared *s)
{
    return s->is_narrow ? 2 : s->span.is_wide ? 8 : 4;
}

// Whole pieces of 8 bytes.
int64_t tt_shared_bytes(const tt_shared *shared)
{
    return (shared->span.n * word_bytes(shared) + 7) / 8 * 8;
}

static int64_t pieces_of(const tt_shared *s, int64_t elements)
{
    return (elements * word_bytes(s) + 7) / 8;
}

static void fetch(const tt_shared *s, int64_t at, int64_t n, uint64_t *to)
{
    const uint64_t *from = (const uint64_t *)s->words + at * word_bytes(s) / 8;
    const int64_t pieces = pieces_of(s, n);
    for (int64_t i = 0; i < pieces; i++)
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

static void store(const tt_shared *s, int64_t at, int64_t n,
                  const uint64_t *from)
{
    uint64_t *to = (uint64_t *)s->words + at * word_bytes(s) / 8;
    const int64_t pieces = pieces_of(s, n);
    for (int64_t i = 0; i < pieces; i++)
        __atomic_store_n(&to[i], from[i], __ATOMIC_RELAXED);
}

// ---- 16 bits -------------------------------------------------------------

// 32 random bits, a pure function of both.
static uint32_t draw(uint64_t key, int64_t i)
{
    uint32_t x = (uint32_t)key + (uint32_t)i * 0x9e3779b9u;
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15) ^ (uint32_t)(key >> 32)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

static float widen(uint16_t word)
{
    const uint32_t bits = (uint32_t)word << 16;
    float x = 0;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// Up or down by what is added before the low half is cut off.
static uint16_t narrow(float x, uint32_t add)
{
    uint32_t bits = 0;
    memcpy(&bits, &x, sizeof bits);
    const bool is_finite = (bits & 0x7f800000u) != 0x7f800000u;
    return (uint16_t)((is_finite ? bits + add : bits | (bits << 16)) >> 16);
}

static void widen_all(const uint16_t *from, int64_t n, float *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = widen(from[i]);
}

// What is stored is then what `x` has.
static void narrow_all(float *x, int64_t n, uint64_t key, int64_t at,
                       uint16_t *to)
{
    for (int64_t i = 0; i < n; i++) {
        to[i] = narrow(x[i], draw(key, at + i) >> 16);
        x[i] = widen(to[i]);
    }
}

// ---- blocks --------------------------------------------------------------

typedef union block {
    uint64_t piece[BLOCK]; // of the widest words
    float f[BLOCK];
    double d[BLOCK];
} block;

typedef union narrow_block {
    uint64_t piece[BLOCK / 4];
    uint16_t narrow[BLOCK];
} narrow_block;

static int64_t block_at(const tt_shared *s, int64_t at)
{
    return s->span.n - at < BLOCK ? s->span.n - at : BLOCK;
}

static void *element(const tt_shared *s, void *x, int64_t at)
{
    return (char *)x + at * (s->span.is_wide ? 8 : 4);
}

static void read_block(const tt_shared *s, int64_t at, int64_t n, block *to)
{
    if (!s->is_narrow) {
        fetch(s, at, n, to->piece);
        return;
    }
    narrow_block words = {0};
    fetch(s, at, n, words.piece);
    widen_all(words.narrow, n, to->f);
}

// Words of a last piece that belong to nobody have any value.
static void write_block(const tt_shared *s, int64_t at, int64_t n, block *from,
                        uint64_t key)
{
    if (!s->is_narrow) {
        store(s, at, n, from->piece);
        return;
    }
    narrow_block words = {0};
    narrow_all(from->f, n, key, at, words.narrow);
    store(s, at, n, words.piece);
}

// ---- all -----------------------------------------------------------------

void tt_shared_read(const tt_shared *shared, void *to)
{
    for (int64_t at = 0; at < shared->span.n; at += BLOCK) {
        const int64_t n = block_at(shared, at);
        block now;
        read_block(shared, at, n, &now);
        memcpy(element(shared, to, at), &now,
               (size_t)(n * (shared->span.is_wide ? 8 : 4)));
    }
}

void tt_shared_write(const tt_shared *shared, const void *from)
{
    const int64_t size = shared->span.is_wide ? 8 : 4;
    for (int64_t at = 0; at < shared->span.n; at += BLOCK) {
        const int64_t n = block_at(shared, at);
        block x = {0};
        narrow_block words = {0};
        memcpy(&x, (const char *)from + at * size, (size_t)(n * size));
        for (int64_t i = 0; shared->is_narrow && i < n; i++)
            words.narrow[i] = narrow(x.f[i], 1 << 15);
        store(shared, at, n, shared->is_narrow ? words.piece : x.piece);
    }
}

// By masks: loops with a branch are not vectorised.
static void move_floats(const float *seen, const float *next, int64_t n,
                        float *now)
{
    for (int64_t i = 0; i < n; i++) {
        const float sum = now[i] + (next[i] - seen[i]);
        uint32_t is, was, to, other;
        memcpy(&is, &now[i], sizeof is);
        memcpy(&was, &seen[i], sizeof was);
        memcpy(&to, &next[i], sizeof to);
        memcpy(&other, &sum, sizeof other);
        const uint32_t same = is == was ? ~(uint32_t)0 : 0;
        is = (to & same) | (other & ~same);
        memcpy(&now[i], &is, sizeof is);
    }
}

static void move_doubles(const double *seen, const double *next, int64_t n,
                         double *now)
{
    for (int64_t i = 0; i < n; i++) {
        const double sum = now[i] + (next[i] - seen[i]);
        uint64_t is, was, to, other;
        memcpy(&is, &now[i], sizeof is);
        memcpy(&was, &seen[i], sizeof was);
        memcpy(&to, &next[i], sizeof to);
        memcpy(&other, &sum, sizeof other);
        const uint64_t same = is == was ? ~(uint64_t)0 : 0;
        is = (to & same) | (other & ~same);
        memcpy(&now[i], &is, sizeof is);
    }
}

void tt_shared_add(const tt_shared *shared, const void *seen, void *next,
                   uint64_t key)
{
    const int64_t size = shared->span.is_wide ? 8 : 4;
    for (int64_t at = 0; at < shared->span.n; at += BLOCK) {
        const int64_t n = block_at(shared, at);
        const char *was = (const char *)seen + at * size;
        char *to = element(shared, next, at);
        block now;
        read_block(shared, at, n, &now);
        if (shared->span.is_wide)
            move_doubles((const void *)was, (const void *)to, n, now.d);
        else
            move_floats((const void *)was, (const void *)to, n, now.f);
        write_block(shared, at, n, &now, key);
        memcpy(to, &now, (size_t)(n * size));
    }
}

static void halve(const tt_shared *s, int64_t n, block *x, block *y)
{
    for (int64_t i = 0; i < n; i++)
        if (s->span.is_wide)
            x->d[i] = y->d[i] = (x->d[i] + y->d[i]) / 2;
        else
            x->f[i] = y->f[i] = (x->f[i] + y->f[i]) / 2;
}

void tt_shared_join(const tt_shared *x, const tt_shared *y, uint64_t key)
{
    for (int64_t at = 0; at < x->span.n; at += BLOCK) {
        const int64_t n = block_at(x, at);
        block a = {0}, b = {0};
        read_block(x, at, n, &a);
        read_block(y, at, n, &b);
        halve(x, n, &a, &b);
        write_block(x, at, n, &a, key);
        write_block(y, at, n, &b, key);
    }
}

// ---- 8 bits --------------------------------------------------------------

static double moved(const tt_vector_span *s, const void *seen, const void *next,
                    int64_t i)
{
    return s->is_wide
               ? ((const double *)next)[i] - ((const double *)seen)[i]
               : (double)(((const float *)next)[i] - ((const float *)seen)[i]);
}

void tt_shared_coarsen(const tt_vector_span *span, const void *seen, void *next,
                       uint64_t key)
{
    const double step = tt_vector_farthest(span, seen, next) / 127;
    for (int64_t i = 0; step > 0 && i < span->n; i++) {
        const double part = draw(key, i) * 0x1p-32;
        const double steps = moved(span, seen, next, i) / step;
        const double by = ((int32_t)(steps + part + 128) - 128) * step;
        if (span->is_wide)
            ((double *)next)[i] = ((const double *)seen)[i] + by;
        else
            ((float *)next)[i] = ((const float *)seen)[i] + (float)by;
    }
}
