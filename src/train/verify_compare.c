// verify_compare - the measure of "equal".

#include "train/verify_parts.h"

#include <math.h>
#include <string.h>

static const double small = 0.01; // of the root mean square of everything

static double square(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = b == NULL ? a[i] : a[i] - b[i];
        sum += d * d;
    }
    return sum;
}

double tt__verify_norm(const tt__taken *a, const tt__taken *b)
{
    double sum = 0;
    for (int64_t i = 0; i < a->n; i++)
        sum += square(a->data[i], b->data[i], a->tensor[i].count);
    return sqrt(sum);
}

bool tt__verify_equal(const tt__taken *a, const tt__taken *b)
{
    for (int64_t i = 0; i < b->n; i++)
        if (memcmp(a->data[i], b->data[i],
                   sizeof(double) * (size_t)b->tensor[i].count) != 0)
            return false;
    return a->n == b->n;
}

// NaN on one side only is as far off as can be.
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

// The weight itself, or something that the optimiser keeps for it.
static bool belongs_to(const char *name, const char *weight)
{
    const size_t n = strlen(weight);
    return strncmp(name, weight, n) == 0 && (name[n] == '\0' || name[n] == '.');
}

void tt__verify_level(const tt__taken *grads, tt__taken *a, const tt__taken *b)
{
    const double least = small * root_mean_square(grads);
    for (int64_t i = 0; i < a->n; i++)
        for (int64_t g = 0; g < grads->n; g++) {
            if (!belongs_to(a->tensor[i].name, grads->tensor[g].name) ||
                a->tensor[i].count != grads->tensor[g].count)
                continue;
            for (int64_t k = 0; k < a->tensor[i].count; k++)
                if (fabs(grads->data[g][k]) < least)
                    a->data[i][k] = b->data[i][k];
        }
}

tt__distance tt__verify_compare(const tt__taken *a, const tt__taken *b,
                                double tolerance)
{
    tt__distance d = {.at = -1, .first = -1};
    const double least_of_one = small * root_mean_square(b);
    for (int64_t i = 0; i < b->n; i++) {
        const int64_t n = b->tensor[i].count;
        const double least = least_of_one * sqrt((double)n);
        const double rel =
            relative(sqrt(square(a->data[i], b->data[i], n)),
                     fmax(sqrt(square(b->data[i], NULL, n)), least));
        if (rel > d.worst) {
            d.worst = rel;
            d.at = i;
        }
        if (rel > tolerance && d.first < 0) {
            d.first = i;
            d.first_rel = rel;
        }
    }
    return d;
}

int64_t tt__verify_furthest(const tt__taken *a, const tt__taken *b, int64_t i)
{
    int64_t at = 0;
    double most = -1;
    for (int64_t k = 0; k < b->tensor[i].count; k++) {
        const double d = relative(fabs(a->data[i][k] - b->data[i][k]), 1);
        if (d > most) {
            most = d;
            at = k;
        }
    }
    return at;
}
