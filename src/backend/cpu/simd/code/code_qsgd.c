// code_qsgd - few levels at random, with Elias codes (ops/codec/entropy.h).
//
// Norms and levels are plain loops over a block. Most levels are 0, so they are looked at
// 64 at a time, and only the others are written, each with one shift into a word of 64
// bits. The reader works likewise: it never looks at a bit alone.

#include "backend/cpu/simd/code/code.h"
#include "backend/cpu/simd/code/code_tools.h"
#include "ops/codec/entropy.h"

extern const tt_simd_code_qsgd TT_SYMBOL(tt_simd_code_qsgd);

enum {
    MOST = 4096, // numbers of a block, as the option says
    PAD = 16,    // bytes that words reach beyond the end
    GROUP = 8,   // levels in a word
    SPAN = 64,   // levels that are looked at together
    FEW = 4,     // levels
    GAP_BITS = 12,
    LEVEL_BITS = 6, // bits after the first of a gap, of a level
};

// ---- levels --------------------------------------------------------------

TT_INLINE double squares(const float *x, int64_t n)
{
    double chain[CHAINS] = {0};
    int64_t i = 0;
    for (; i + CHAINS <= n; i += CHAINS) {
#pragma omp simd
        for (int c = 0; c < CHAINS; c++)
            chain[c] += (double)x[i + c] * (double)x[i + c];
    }
    for (int c = 0; i < n; i++, c++)
        chain[c] += (double)x[i] * (double)x[i];
    for (int half = CHAINS / 2; half > 0; half /= 2)
        for (int c = 0; c < half; c++)
            chain[c] += chain[c + half];
    return chain[0];
}

// The levels of a block and what is left of it; returns the norm to be sent.
TT_INLINE float levels_of(const tt_simd_code_args *a, int64_t from, int64_t n,
                          int8_t *level)
{
    const float *e = a->x + from;
    float *left = a->residual != NULL ? a->left + from : NULL;
    if (left != NULL) {
        const float *r = a->residual + from;
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            left[i] = e[i] + r[i];
        e = left;
    }
    const float most = (float)a->levels;
    const float norm = (float)sqrt(squares(e, n)), by = inverse(most, norm);
    const uint32_t first = (uint32_t)from;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const uint32_t random = tt_packet_random(a->key, first + (uint32_t)i);
        const float u = (float)(int32_t)(random >> 8) * 0x1p-24f;
        const float size = float_of(bits_of(e[i]) & 0x7fffffffu) * by + u;
        const int32_t l = (int32_t)(size < most ? size : most);
        level[i] = (int8_t)(e[i] < 0 ? -l : l);
    }
    if (left == NULL)
        return norm;
    const float sent = norm * a->shrink, unit = sent / most;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float rest = left[i] - (float)level[i] * unit;
        left[i] = is_finite(rest) ? rest : 0;
    }
    return sent;
}

// ---- bits ----------------------------------------------------------------

// Both halves of a word, each with its bits in the opposite order.
TT_INLINE uint32_t reverse_halves(uint32_t v)
{
    v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
    v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
    v = (v >> 4 & 0x0f0f0f0fu) | (v & 0x0f0f0f0fu) << 4;
    return (v >> 8 & 0x00ff00ffu) | (v & 0x00ff00ffu) << 8;
}

TT_INLINE int bits_after_first(uint32_t x)
{
    return 31 - __builtin_clz(x);
}

// Fewer bits than an Elias code can have: every gap takes one at least.
TT_INLINE int64_t least_bits(const int8_t *level, int64_t n)
{
    int32_t bits = 0;
#pragma omp simd reduction(+ : bits)
    for (int64_t i = 0; i < n; i++) {
        const uint32_t size = bits_of((float)level[i]) & 0x7fffffffu;
        const int32_t more = (int32_t)(size >> 23) - 127;
        bits += size == 0 ? 0 : 3 + 2 * more;
    }
    return bits;
}

typedef struct writer {
    unsigned char *to;
    uint64_t word; // bits that are not written yet, from the lowest
    int bits;      // of them; fewer than 8 between two entries
} writer;

// A gap, a sign and a level.
TT_INLINE void put_entry(writer *w, uint32_t gap, int32_t level)
{
    const uint32_t size = (uint32_t)(level < 0 ? -level : level);
    const int g = bits_after_first(gap), s = bits_after_first(size);
    const uint32_t back = reverse_halves(gap | size << 16);
    const uint64_t of_gap = (uint64_t)((back & 0xffffu) >> (15 - g)) << g;
    const uint64_t of_size = (uint64_t)(back >> 16 >> (15 - s)) << s;
    const uint64_t entry =
        of_gap | (uint64_t)(level < 0) << (2 * g + 1) | of_size << (2 * g + 2);
    w->word |= entry << w->bits;
    w->bits += 2 * (g + s) + 3;
    memcpy(w->to, &w->word, sizeof w->word);
    w->to += w->bits / 8;
    w->word >>= w->bits & ~7;
    w->bits &= 7;
}

// A bit for each of 64 levels that is not 0. The highest bits of eight bytes are moved
// into one by a product. One loop over the bits of 64 levels costs far fewer mispredicted
// branches than one over the levels of each word.
TT_INLINE uint64_t which_are_set(const int8_t *level)
{
    uint64_t set = 0;
    for (int i = 0; i < SPAN; i += GROUP) {
        uint64_t word;
        memcpy(&word, level + i, sizeof word);
        word |= (word & 0x7f7f7f7f7f7f7f7fu) + 0x7f7f7f7f7f7f7f7fu;
        word = word >> 7 & 0x0101010101010101u;
        set |= (word * 0x0102040810204080u >> 56) << i;
    }
    return set;
}

// Bytes; -1: they are not fewer than `most`. Zeros follow the last level.
static int64_t write_elias(const int8_t *level, int64_t n, unsigned char *to,
                           int64_t most)
{
    writer w = {.to = to};
    int64_t before = -1;
    for (int64_t i = 0; i < n && w.to - to < most; i += SPAN) {
        for (uint64_t set = which_are_set(level + i); set != 0;
             set &= set - 1) {
            const int64_t at = i + __builtin_ctzll(set);
            put_entry(&w, (uint32_t)(at - before), level[at]);
            before = at;
        }
    }
    const int64_t bytes = w.to - to + (w.bits > 0);
    return bytes < most ? bytes : -1;
}

// Eight levels are as many bytes as one has bits.
static void write_dense(const int8_t *level, int64_t n, int levels, int bits,
                        unsigned char *to)
{
    for (int64_t i = 0; i < n; i += GROUP, to += bits) {
        uint64_t word = 0;
        for (int k = 0; k < GROUP; k++)
            word |= (uint64_t)(i + k < n ? level[i + k] + levels : 0)
                    << (k * bits);
        memcpy(to, &word, sizeof word);
    }
}

// The bytes of a block; returns its size as it is sent.
static uint16_t write_block(const tt_code_params *p, const int8_t *level,
                            int64_t n, unsigned char *to)
{
    unsigned char room[MOST + SPAN * 5 + PAD];
    const int64_t dense = tt_qsgd_dense_bytes(p, n);
    // Of few levels most are 0, and the Elias code is shorter.
    const int64_t least = p->levels < FEW ? 0 : least_bits(level, n);
    int64_t bytes = least / 8 < dense ? write_elias(level, n, room, dense) : -1;
    const bool is_dense = bytes < 0;
    if (is_dense) {
        bytes = dense;
        write_dense(level, n, (int)p->levels, tt_qsgd_bits(p), room);
    }
    memcpy(to, room, (size_t)bytes);
    return (uint16_t)(bytes | (is_dense ? TT_QSGD_DENSE : 0));
}

static int64_t encode(const tt_simd_code_args *a)
{
    int8_t level[MOST + SPAN];
    const tt_code_params p = {.block = a->block, .levels = a->levels};
    const int64_t blocks = tt_code_blocks(&p, a->n);
    unsigned char *sizes = a->body + 4 * blocks, *to = a->body + 6 * blocks;
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t n = min_i64(a->block, a->n - b * a->block);
        const float norm = levels_of(a, b * a->block, n, level);
        memset(level + n, 0, SPAN);
        const uint16_t size = write_block(&p, level, n, to);
        memcpy(a->body + 4 * b, &norm, sizeof norm);
        memcpy(sizes + 2 * b, &size, sizeof size);
        to += size & ~TT_QSGD_DENSE;
    }
    return to - a->body;
}

// ---- reading -------------------------------------------------------------

// At least 57 bits, from bit `at` on.
TT_INLINE uint64_t peek(const unsigned char *from, int64_t at)
{
    uint64_t word;
    memcpy(&word, from + at / 8, sizeof word);
    return word >> at % 8;
}

// The number of bits after the first that a gamma code says it has; 64: too many.
TT_INLINE int zeros_of(uint64_t word)
{
    return word == 0 ? 64 : __builtin_ctzll(word);
}

TT_INLINE uint32_t gamma_of(uint64_t word, int zeros)
{
    const uint32_t bits = (uint32_t)(word >> zeros) & ((1U << (zeros + 1)) - 1);
    return reverse_halves(bits) >> (15 - zeros);
}

// Where the values of a block go: y itself, or levels.
typedef struct target {
    float *y;
    int8_t *level; // NULL: y
    float unit;
    bool is_first;
} target;

TT_INLINE void put_level(const target *t, int64_t at, int32_t level)
{
    if (t->level != NULL)
        t->level[at] = (int8_t)level;
    else if (t->is_first)
        t->y[at] = (float)level * t->unit;
    else
        t->y[at] += (float)level * t->unit;
}

// `from` has PAD bytes of zeros after its end.
static bool read_elias(const unsigned char *from, int64_t bytes, int64_t n,
                       int levels, const target *t)
{
    const int64_t end = 8 * bytes;
    int64_t bit = 0, at = -1;
    for (;;) {
        const uint64_t word = peek(from, bit);
        if (end - bit < 8 && word == 0)
            return true;
        const int g = zeros_of(word);
        if (g > GAP_BITS)
            return false;
        const uint64_t rest = word >> (2 * g + 1);
        const int s = zeros_of(rest >> 1);
        if (s > LEVEL_BITS)
            return false;
        const int32_t size = (int32_t)gamma_of(rest >> 1, s);
        at += gamma_of(word, g);
        bit += 2 * (g + s) + 3;
        if (bit > end || size > levels || at >= n)
            return false;
        put_level(t, at, (rest & 1) != 0 ? -size : size);
    }
}

static bool read_dense(const unsigned char *from, int64_t n, int levels,
                       int bits, int8_t *level)
{
    const uint32_t mask = (1U << bits) - 1;
    uint32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t word = (uint32_t)peek(from, i * bits) & mask;
        most = word > most ? word : most;
        level[i] = (int8_t)((int32_t)word - levels);
    }
    return most <= 2 * (uint32_t)levels;
}

TT_INLINE void add_levels(const int8_t *level, int64_t n, const target *t)
{
    float *y = t->y;
    const float unit = t->unit;
    const bool is_first = t->is_first;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float v = (float)level[i] * unit;
        y[i] = is_first ? v : y[i] + v;
    }
}

// Levels go to y one by one where those that are 0 change nothing.
static bool add_block(const tt_code_params *p, const unsigned char *from,
                      uint16_t size, int64_t n, target t)
{
    unsigned char room[MOST + PAD];
    int8_t level[MOST];
    const int64_t bytes = size & ~TT_QSGD_DENSE;
    const int levels = (int)p->levels;
    const bool is_dense = (size & TT_QSGD_DENSE) != 0;
    if (is_dense != (bytes == tt_qsgd_dense_bytes(p, n)) ||
        bytes > tt_qsgd_dense_bytes(p, n))
        return false;
    memcpy(room, from, (size_t)bytes);
    memset(room + bytes, 0, PAD);
    if (is_dense) {
        if (!read_dense(room, n, levels, tt_qsgd_bits(p), level))
            return false;
        add_levels(level, n, &t);
        return true;
    }
    if (is_finite(t.unit) && t.unit >= 0) {
        if (t.is_first)
            memset(t.y, 0, (size_t)n * sizeof *t.y);
        return read_elias(room, bytes, n, levels, &t);
    }
    memset(level, 0, (size_t)n);
    t.level = level;
    if (!read_elias(room, bytes, n, levels, &t))
        return false;
    add_levels(level, n, &t);
    return true;
}

static bool add(const tt_simd_code_add *a)
{
    const tt_code_params p = {.block = a->block, .levels = a->levels};
    const int64_t blocks = tt_code_blocks(&p, a->n);
    int64_t at = 6 * blocks;
    if (a->bytes < at)
        return false;
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t n = min_i64(a->block, a->n - b * a->block);
        float norm;
        uint16_t size;
        memcpy(&norm, a->body + 4 * b, sizeof norm);
        memcpy(&size, a->body + 4 * blocks + 2 * b, sizeof size);
        const int64_t bytes = size & ~TT_QSGD_DENSE;
        const target t = {.y = a->y + b * a->block,
                          .unit = norm / (float)a->levels,
                          .is_first = a->is_first};
        if (at + bytes > a->bytes || !add_block(&p, a->body + at, size, n, t))
            return false;
        at += bytes;
    }
    return at == a->bytes;
}

const tt_simd_code_qsgd TT_SYMBOL(tt_simd_code_qsgd) = {
    .encode = encode,
    .add = add,
};
