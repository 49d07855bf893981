// code_pick - the largest entries of a vector.
//
// Sorting is far too slow, and a histogram of all entries costs a nanosecond each. A
// sample of some thousand entries gives a bound that is almost surely below the k-th
// largest; one pass over all entries keeps those above it, which are few, and the exact
// k-th largest is found among them. Where the sample misled, all entries are kept.

#include "backend/cpu/simd/code/code.h"
#include "backend/cpu/simd/scalar.h"
#include "ops/codec/codes.h"

extern const tt_simd_code_pick TT_SYMBOL(tt_simd_code_pick);

enum { SAMPLE = 8192, GROUP = 32, CHUNK = 4096, CHAINS = TT_CODE_CHAINS };

TT_INLINE uint32_t size_of(float x)
{
    return bits_of(x) & 0x7fffffffu;
}

TT_INLINE bool is_finite(float x)
{
    return (bits_of(x) & 0x7f800000u) != 0x7f800000u;
}

// The r-th largest of n sizes (r from 1): 11, 10 and 10 bits at a time. *above_out: how
// many are larger.
static uint32_t rth_largest(const float *x, int64_t n, int64_t r,
                            int64_t *above_out)
{
    static const int shift[3] = {20, 10, 0}, bits[3] = {11, 10, 10};
    uint32_t found = 0;
    int64_t above = 0;
    for (int level = 0; level < 3; level++) {
        uint32_t count[2048] = {0};
        const uint32_t mask = (1U << bits[level]) - 1;
        const int high = shift[level] + bits[level];
        for (int64_t i = 0; i < n; i++) {
            const uint64_t size = size_of(x[i]);
            if (size >> high == (uint64_t)found >> high)
                count[size >> shift[level] & mask]++;
        }
        uint32_t bin = mask;
        while (above + count[bin] < r)
            above += count[bin--];
        found |= bin << shift[level];
    }
    *above_out = above;
    return found;
}

// A bound that about k entries reach, or a little more.
static uint32_t guess(const tt_simd_pick *p)
{
    float e[SAMPLE];
    int64_t above = 0;
    const int64_t m = min_i64(SAMPLE, p->n), step = p->n / m;
    const double expected = (double)p->k * (double)m / (double)p->n;
    const int64_t r = (int64_t)(expected + 4 * sqrt(expected)) + 8;
    if (r >= m)
        return p->least;
    // Not at equal distances: columns of a matrix would be met again and again.
    for (int64_t i = 0; i < m; i++) {
        const uint64_t jitter = tt_packet_random(0, (uint32_t)i);
        const int64_t at = i * step + (int64_t)(jitter * (uint64_t)step >> 32);
        e[i] = p->residual ? p->x[at] + p->residual[at] : p->x[at];
    }
    const uint32_t bound = rth_largest(e, m, r, &above);
    return bound > p->least ? bound : p->least;
}

// Places and values of all entries of at least `bound`; e goes to `left`.
static int64_t collect(const tt_simd_pick *p, uint32_t bound)
{
    int64_t found = 0, i = 0;
    for (; i < p->n; i += GROUP) {
        float e[GROUP];
        int32_t any = 0;
        const int64_t n = min_i64(GROUP, p->n - i);
        if (n == GROUP) {
#pragma omp simd reduction(| : any)
            for (int j = 0; j < GROUP; j++) {
                e[j] = p->residual ? p->x[i + j] + p->residual[i + j]
                                   : p->x[i + j];
                any |= (int32_t)size_of(e[j]) >= (int32_t)bound;
            }
        } else {
            any = 1;
            for (int64_t j = 0; j < n; j++)
                e[j] = p->residual ? p->x[i + j] + p->residual[i + j]
                                   : p->x[i + j];
        }
        for (int64_t j = 0; j < n && any; j++) {
            p->place[found] = (uint32_t)(i + j);
            p->value[found] = e[j];
            found += size_of(e[j]) >= bound;
        }
        if (p->left != NULL)
            for (int64_t j = 0; j < n; j++)
                p->left[i + j] = e[j];
    }
    return found;
}

// Of `found` entries the k largest; of equal ones the first.
static int64_t keep_largest(const tt_simd_pick *p, int64_t found)
{
    int64_t above = 0, out = 0;
    if (found <= p->k)
        return found;
    const uint32_t kth = rth_largest(p->value, found, p->k, &above);
    int64_t equal = p->k - above;
    for (int64_t i = 0; i < found; i++) {
        const uint32_t size = size_of(p->value[i]);
        if (size < kth || (size == kth && equal-- <= 0))
            continue;
        p->place[out] = p->place[i];
        p->value[out++] = p->value[i];
    }
    return out;
}

// Where e is not finite, nothing is left. Such entries are above all others, so one of
// them is among those that were found.
static void clean(const tt_simd_pick *p, int64_t found)
{
    bool is_clean = p->left == NULL;
    for (int64_t i = 0; i < found && !is_clean; i++)
        if (!is_finite(p->value[i]))
            break;
        else
            is_clean = i + 1 == found;
    for (int64_t i = 0; i < p->n && !is_clean && found > 0; i++)
        p->left[i] = is_finite(p->left[i]) ? p->left[i] : 0;
}

// When e is written over the residual, a second pass finds it there.
static int64_t pick(const tt_simd_pick *p)
{
    const uint32_t bound = guess(p);
    int64_t found = collect(p, bound);
    if (found < p->k && bound > p->least) {
        tt_simd_pick again = *p;
        if (p->left != NULL) {
            again.x = p->left;
            again.residual = NULL;
        }
        found = collect(&again, p->least);
    }
    clean(p, found);
    return keep_largest(p, found);
}

static double squares(const float *x, const float *residual, float *left,
                      int64_t n)
{
    double sum = 0;
    for (int64_t from = 0; from < n; from += CHUNK) {
        double chain[CHAINS] = {0};
        const int64_t end = min_i64(n, from + CHUNK);
        int64_t i = from;
        for (; i + CHAINS <= end; i += CHAINS) {
#pragma omp simd
            for (int c = 0; c < CHAINS; c++) {
                const float e =
                    residual ? x[i + c] + residual[i + c] : x[i + c];
                if (left != NULL)
                    left[i + c] = e;
                chain[c] += (double)e * (double)e;
            }
        }
        for (int c = 0; i < end; i++, c++) {
            const float e = residual ? x[i] + residual[i] : x[i];
            if (left != NULL)
                left[i] = e;
            chain[c] += (double)e * (double)e;
        }
        for (int half = CHAINS / 2; half > 0; half /= 2)
            for (int c = 0; c < half; c++)
                chain[c] += chain[c + half];
        sum += chain[0];
    }
    return sum;
}

static void gather(const float *x, const float *const in[2],
                   float *const out[2], int64_t n, const float by[2])
{
    const float *u = in[0], *v = in[1];
    float *u_out = out[0], *v_out = out[1];
    const float momentum = by[0], factor = by[1];
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float next = momentum * u[i] + x[i] * factor;
        v_out[i] = v[i] + next;
        u_out[i] = is_finite(next) ? next : 0;
    }
}

const tt_simd_code_pick TT_SYMBOL(tt_simd_code_pick) = {
    .pick = pick,
    .squares = squares,
    .gather = gather,
};
