#include "exchange/vector.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char tt_gather_names[] = "mean|median|trimmed|krum";

// Writes a loop twice, for float and for double: T is the element's type.
#define EACH(s, ...)                                                           \
    do {                                                                       \
        if ((s)->is_wide) {                                                    \
            typedef double T;                                                  \
            for (int64_t i = 0; i < (s)->n; i++) {                             \
                __VA_ARGS__;                                                   \
            }                                                                  \
        } else {                                                               \
            typedef float T;                                                   \
            for (int64_t i = 0; i < (s)->n; i++) {                             \
                __VA_ARGS__;                                                   \
            }                                                                  \
        }                                                                      \
    } while (0)

void tt_vector_add(const tt_vector_span *s, double a, const void *x, void *y)
{
    EACH(s, ((T *)y)[i] += (T)a * ((const T *)x)[i]);
}

void tt_vector_scale(const tt_vector_span *s, double a, void *y)
{
    EACH(s, ((T *)y)[i] *= (T)a);
}

void tt_vector_mix(const tt_vector_span *s, double a, const void *x, double b,
                   void *y)
{
    EACH(s, ((T *)y)[i] = (T)a * ((const T *)x)[i] + (T)b * ((T *)y)[i]);
}

static void add_two(const tt_vector_span *s, const void *x, const void *y,
                    void *z)
{
    EACH(s, ((T *)z)[i] = ((const T *)x)[i] + ((const T *)y)[i]);
}

// A piece of all vectors after another: what is summed so far stays in the nearest memory, and
// z, which may be any of them, is written last.
void tt_vector_sum(const tt_vector_span *s, int32_t m, const void *const *x,
                   void *z)
{
    enum { PIECE = 8192 }; // bytes
    _Alignas(64) char so_far[PIECE];
    const int64_t bytes = tt_vector_bytes(s);
    if (m == 1 && x[0] != z)
        memcpy(z, x[0], (size_t)bytes);
    for (int64_t at = 0; m > 1 && at < bytes; at += PIECE) {
        const int64_t n = bytes - at < PIECE ? bytes - at : PIECE;
        const tt_vector_span piece = {s->is_wide, n / (s->is_wide ? 8 : 4)};
        const char *sum = (const char *)x[0] + at;
        for (int32_t k = 1; k < m; k++) {
            char *to = k + 1 < m ? so_far : (char *)z + at;
            add_two(&piece, sum, (const char *)x[k] + at, to);
            sum = to;
        }
    }
}

// Zeros that are added up: a NaN where a number is none or has no end.
bool tt_vector_is_finite(const tt_vector_span *s, const void *x)
{
    float zero[16] = {0};
    double wide[16] = {0}, sum = 0;
    const int64_t even = s->n / 16 * 16;
    for (int64_t i = 0; !s->is_wide && i < even; i += 16)
        for (int k = 0; k < 16; k++)
            zero[k] += ((const float *)x)[i + k] * 0;
    for (int64_t i = 0; s->is_wide && i < even; i += 16)
        for (int k = 0; k < 16; k++)
            wide[k] += ((const double *)x)[i + k] * 0;
    for (int k = 0; k < 16; k++)
        sum += (double)zero[k] + wide[k];
    for (int64_t i = even; i < s->n; i++)
        sum += 0 * (s->is_wide ? ((const double *)x)[i]
                               : (double)((const float *)x)[i]);
    return sum == 0;
}

// Eight sums side by side, of every eighth element each: one sum would wait for itself.
enum { LANES = TT_VECTOR_LANES };

static void square_floats(const float *x, int64_t n, double sums[LANES])
{
    double lane[LANES];
    memcpy(lane, sums, sizeof lane);
    for (int64_t i = 0; i < n; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += (double)x[i + k] * (double)x[i + k];
    memcpy(sums, lane, sizeof lane);
}

static void square_doubles(const double *x, int64_t n, double sums[LANES])
{
    double lane[LANES];
    memcpy(lane, sums, sizeof lane);
    for (int64_t i = 0; i < n; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += x[i + k] * x[i + k];
    memcpy(sums, lane, sizeof lane);
}

static void square_some(const tt_vector_span *s, const void *x, int64_t from,
                        int64_t to, tt_vector_lanes *sums)
{
    for (int64_t i = from; i < to; i++) {
        const double v =
            s->is_wide ? ((const double *)x)[i] : (double)((const float *)x)[i];
        sums->lane[sums->n++ % LANES] += v * v;
    }
}

void tt_vector_lanes_add(const tt_vector_span *s, const void *x,
                         tt_vector_lanes *sums)
{
    const int64_t missing = (LANES - sums->n % LANES) % LANES;
    const int64_t first = missing < s->n ? missing : s->n;
    const int64_t even = (s->n - first) / LANES * LANES;
    square_some(s, x, 0, first, sums);
    if (s->is_wide)
        square_doubles((const double *)x + first, even, sums->lane);
    else
        square_floats((const float *)x + first, even, sums->lane);
    sums->n += even;
    square_some(s, x, first + even, s->n, sums);
}

double tt_vector_lanes_sum(const tt_vector_lanes *sums)
{
    double sum = 0;
    for (int k = 0; k < LANES; k++)
        sum += sums->lane[k];
    return sum;
}

double tt_vector_squares(const tt_vector_span *s, const void *x)
{
    tt_vector_lanes sums = {0};
    tt_vector_lanes_add(s, x, &sums);
    return tt_vector_lanes_sum(&sums);
}

double tt_vector_distance(const tt_vector_span *s, const void *x, const void *y)
{
    double sum = 0;
    EACH(s,
         const double v = (double)((const T *)x)[i] - (double)((const T *)y)[i];
         sum += v * v);
    return sum;
}

double tt_vector_farthest(const tt_vector_span *s, const void *x, const void *y)
{
    double most = 0;
    EACH(s, const double v =
                fabs((double)((const T *)x)[i] - (double)((const T *)y)[i]);
         most = v > most ? v : most);
    return most;
}

void tt_vector_compensate(const tt_vector_span *s, double a, const void *now,
                          const void *then, void *g)
{
    EACH(s, T *e = &((T *)g)[i];
         *e += (T)a * *e * *e * (((const T *)now)[i] - ((const T *)then)[i]));
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The mean of what is left between `trim` at either end; all but one or two: the median.
static double middle(double *v, int32_t m, int32_t trim)
{
    double sum = 0;
    qsort(v, (size_t)m, sizeof *v, compare);
    for (int32_t i = trim; i < m - trim; i++)
        sum += v[i];
    return sum / (m - 2 * trim);
}

void tt_vector_middle(const tt_vector_span *s, int32_t m, const void *const *x,
                      const double *a, int32_t trim, void *out)
{
    double v[TT_GATHER_MOST];
    EACH(s, for (int32_t k = 0; k < m; k++) v[k] =
                a[k] * (double)((const T *)x[k])[i];
         ((T *)out)[i] = (T)(middle(v, m, trim) * m));
}

int32_t tt_krum(int32_t m, int32_t bad, const double *distance)
{
    const int32_t near = m - bad - 2 > 1 ? m - bad - 2 : 1;
    int32_t best = 0;
    double least = HUGE_VAL;
    double v[TT_GATHER_MOST];
    for (int32_t i = 0; i < m; i++) {
        int32_t n = 0;
        double sum = 0;
        for (int32_t k = 0; k < m; k++)
            if (k != i)
                v[n++] = distance[i * m + k];
        qsort(v, (size_t)n, sizeof *v, compare);
        for (int32_t k = 0; k < near && k < n; k++)
            sum += v[k];
        if (sum < least) {
            least = sum;
            best = i;
        }
    }
    return best;
}
