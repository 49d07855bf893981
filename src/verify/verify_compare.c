// verify_compare - how "equal" is measured: see the formula in verify.h.
//
// Everything here is arithmetic on whole tensors of doubles. Each function takes all
// replicas of a tensor and reports the worst, because one rank with a wrong replica is
// enough to be wrong.

#include "verify/verify_parts.h"

#include <math.h>
#include <string.h>

static const double small = 0.01; // times the root mean square of all elements
static const double few = 4;      // times the usual error

// |a - b|^2, or |a|^2 when b is NULL.
static double square(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = b == NULL ? a[i] : a[i] - b[i];
        sum += d * d;
    }
    return sum;
}

bool tt__verify_equal(const tt__taken *a, const tt__taken *b)
{
    for (int64_t i = 0; i < b->n; i++)
        if (memcmp(a->data[i], b->data[i],
                   sizeof(double) * (size_t)b->tensor[i].count) != 0)
            return false;
    return a->n == b->n && a->n_copies == 0 && b->n_copies == 0;
}

// NaN on one side is the largest difference there is. Zero over zero is no difference.
static double relative(double difference, double size)
{
    if (isnan(difference))
        return (double)INFINITY;
    return difference == 0 ? 0 : difference / size;
}

static double root_mean_square(const tt__taken *t)
{
    double all = 0, elements = 0;
    for (int64_t i = 0; i < t->n; i++) {
        all += square(t->data[i], NULL, t->tensor[i].count);
        elements += (double)t->tensor[i].count;
    }
    return elements > 0 ? sqrt(all / elements) : 0;
}

// Whether a state is the weight itself ("w") or the optimiser's state for it ("w.m").
static bool belongs_to(const char *name, const char *weight)
{
    const size_t n = strlen(weight);
    return strncmp(name, weight, n) == 0 && (name[n] == '\0' || name[n] == '.');
}

// Where the gradient is below `least`, x becomes y.
static void level(const double *grad, double least, const double *y, double *x,
                  int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        if (fabs(grad[k]) < least)
            x[k] = y[k];
}

// An element of gradient g that is smaller than this may have either sign, so an
// optimiser that divides by its size may step either way.
static double least_of(const tt__taken *grads, const tt__taken *exact,
                       int64_t g)
{
    const int64_t n = grads->tensor[g].count;
    const double least = small * root_mean_square(grads);
    if (exact == NULL)
        return least;
    const double error =
        sqrt(square(grads->data[g], exact->data[g], n) / (double)n);
    return fmax(least, few * error);
}

void tt__verify_level(const tt__taken *grads, const tt__taken *exact,
                      tt__taken *a, const tt__taken *b)
{
    for (int64_t i = 0; i < a->n; i++)
        for (int64_t g = 0; g < grads->n; g++) {
            const int64_t n = a->tensor[i].count;
            if (!belongs_to(a->tensor[i].name, grads->tensor[g].name) ||
                n != grads->tensor[g].count)
                continue;
            const double least = least_of(grads, exact, g);
            level(grads->data[g], least, b->data[i], a->data[i], n);
            for (int64_t c = 0; c < a->n_copies; c++)
                if (a->copy[c].of == i)
                    level(grads->data[g], least, b->data[i], a->copy[c].data,
                          n);
        }
}

// ---- distances -----------------------------------------------------------

// What every replica of one tensor is compared with, and the size that a difference is
// divided by.
typedef struct scale {
    const double *exact;
    double size;
    int64_t n;
} scale;

static double measure(const double *a, const scale *s)
{
    return relative(sqrt(square(a, s->exact, s->n)), s->size);
}

static void look(const double *a, const scale *s, int64_t i,
                 const tt__copy *copy, double most, tt__distance *d)
{
    const double rel = measure(a, s);
    if (rel > d->worst) {
        d->worst = rel;
        d->at = i;
    }
    if (rel > most && d->first < 0) {
        d->first = i;
        d->first_rel = rel;
        d->copy = copy;
    }
}

static void look_at_all(const tt__taken *a, int64_t i, const scale *s,
                        double most, tt__distance *d)
{
    look(a->data[i], s, i, NULL, most, d);
    for (int64_t c = 0; c < a->n_copies; c++)
        if (a->copy[c].of == i)
            look(a->copy[c].data, s, i, &a->copy[c], most, d);
}

tt__distance tt__verify_compare(const tt__taken *a, const tt__taken *b,
                                double tolerance)
{
    tt__distance d = {.at = -1, .first = -1};
    const double least_of_one = small * root_mean_square(b);
    for (int64_t i = 0; i < b->n; i++) {
        const int64_t n = b->tensor[i].count;
        const scale s = {b->data[i],
                         fmax(sqrt(square(b->data[i], NULL, n)),
                              least_of_one * sqrt((double)n)),
                         n};
        look_at_all(a, i, &s, tolerance, &d);
    }
    return d;
}

int64_t tt__verify_furthest(const double *a, const double *b, int64_t n)
{
    int64_t at = 0;
    double most = -1;
    for (int64_t k = 0; k < n; k++) {
        const double d = relative(fabs(a[k] - b[k]), 1);
        if (d > most) {
            most = d;
            at = k;
        }
    }
    return at;
}

// ---- low precisions ------------------------------------------------------

// |b - exact| over all tensors.
static double error_of(const tt__taken *b, const tt__taken *exact)
{
    double sum = 0;
    for (int64_t i = 0; i < b->n; i++)
        sum += square(b->data[i], exact->data[i], b->tensor[i].count);
    return sqrt(sum);
}

// The same for `a`, with the worst replica of each tensor.
static double worst_error_of(const tt__taken *a, const tt__taken *exact)
{
    double sum = 0;
    for (int64_t i = 0; i < a->n; i++) {
        tt__distance d = {.at = -1, .first = -1};
        const scale s = {exact->data[i], 1, a->tensor[i].count};
        look_at_all(a, i, &s, 0, &d);
        sum += d.worst * d.worst;
    }
    return sqrt(sum);
}

double tt__verify_ratio(const tt__taken *a, const tt__taken *b,
                        const tt__taken *exact)
{
    const double far = worst_error_of(a, exact), own = error_of(b, exact);
    return far == own ? 1 : far / own;
}

// `each` is the root mean square of the error per element. A tensor's own error counts
// as at least that, or the ratio would blow up where one rank is right by chance.
tt__distance tt__verify_low(const tt__taken *a, const tt__taken *b,
                            const tt__taken *exact, double most)
{
    tt__distance d = {.at = -1, .first = -1};
    double elements = 0;
    for (int64_t i = 0; i < b->n; i++)
        elements += (double)b->tensor[i].count;
    const double each = elements > 0 ? error_of(b, exact) / sqrt(elements) : 0;
    for (int64_t i = 0; i < b->n; i++) {
        const int64_t n = b->tensor[i].count;
        const double own = sqrt(square(b->data[i], exact->data[i], n));
        const scale s = {exact->data[i], fmax(own, each * sqrt((double)n)), n};
        look_at_all(a, i, &s, most, &d);
    }
    return d;
}
