// vector - arithmetic on dense vectors of the host, as 32 or 64 bits: what servers and
// workers do with gradients and weights outside of plans.
//
// One thread, elements in one order, sums in 64 bits: the same bits on every rank.

#ifndef TT_EXCHANGE_VECTOR_H
#define TT_EXCHANGE_VECTOR_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

// The kind and number of elements of all operands.
typedef struct tt_vector_span {
    bool is_wide; // 64 bits
    int64_t n;
} tt_vector_span;

static inline int64_t tt_vector_bytes(const tt_vector_span *s)
{
    return s->n * (s->is_wide ? 8 : 4);
}

void tt_vector_add(const tt_vector_span *s, double a, const void *x,
                   void *y); // y += a x
void tt_vector_scale(const tt_vector_span *s, double a, void *y);
// y = a x + b y
void tt_vector_mix(const tt_vector_span *s, double a, const void *x, double b,
                   void *y);
// z = x[0] + x[1] + ... of `m` vectors, in this order; z may be one of them.
void tt_vector_sum(const tt_vector_span *s, int32_t m, const void *const *x,
                   void *z);
bool tt_vector_is_finite(const tt_vector_span *s, const void *x);
double tt_vector_squares(const tt_vector_span *s, const void *x);
// The same of a vector that comes in parts, in every bit. Begins with zeros.
enum { TT_VECTOR_LANES = 8 };
typedef struct tt_vector_lanes {
    double lane[TT_VECTOR_LANES];
    int64_t n; // elements so far
} tt_vector_lanes;
void tt_vector_lanes_add(const tt_vector_span *s, const void *x,
                         tt_vector_lanes *sums);
double tt_vector_lanes_sum(const tt_vector_lanes *sums);
double tt_vector_distance(const tt_vector_span *s, const void *x,
                          const void *y); // squared
double tt_vector_farthest(const tt_vector_span *s, const void *x,
                          const void *y); // largest |x - y|

// g += a g g (now - then): delay compensation, where the square of a gradient stands for
// the curvature.
void tt_vector_compensate(const tt_vector_span *s, double a, const void *now,
                          const void *then, void *g);

// How many gradients become one.
typedef enum tt_gather {
    TT_GATHER_MEAN,
    TT_GATHER_MEDIAN, // of each element
    TT_GATHER_TRIMMED, // mean of each element without the `trim` lowest and highest
    TT_GATHER_KRUM, // the one that is nearest to its neighbours
} tt_gather;
extern const char tt_gather_names[]; // "mean|median|..."

enum { TT_GATHER_MOST = 1024 };

// Each of `m` vectors x[i] times a[i]; the result times `m`, as sums go on being divided by
// a count. Of the middle ways; `out` may be no operand.
void tt_vector_middle(const tt_vector_span *s, int32_t m, const void *const *x,
                      const double *a, int32_t trim, void *out);

// Krum: of m vectors with these squared distances (m x m), the one with the smallest sum of
// those to its m - bad - 2 nearest.
int32_t tt_krum(int32_t m, int32_t bad, const double *distance);

#endif
