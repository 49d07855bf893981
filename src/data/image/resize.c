// resize - two passes of weighted sums over a few neighbours each.
//
// A bilinear filter is separable: rows first, then columns. When an image shrinks, the
// triangle of weights is widened by the factor, so that every input pixel counts
// (antialiasing). Weights of one axis are the same for all rows, so they are computed
// once.
//
//   in        o o o o o o o o
//   weights     /-----^-----/        one result pixel: a triangle over its neighbours
//
// Weights are whole numbers with PRECISION bits after the point, and the sums are whole
// too. That is what Pillow does, so the results have the same bits.
//
//   scratch    taps of both axes (about 8 bytes per pixel of a side), a row of
//              sums, and the rows between the passes: input rows x cols
//   work       per result pixel about 2 * factor taps along each axis, at least 2

#include "data/image/resize.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum {
    PRECISION = 32 - 8 - 2, // bits of a weight after the point
    HALF = 1 << (PRECISION - 1),
    ALIGN = 16,
};

// The weights of one axis: result i is a sum over n[i] inputs from first[i] on.
typedef struct axis {
    int64_t n_out, max_taps;
    int32_t *first, *n;
    int32_t *weight; // [n_out, max_taps]
} axis;

static int64_t aligned(int64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static double widening(int64_t in, int64_t out)
{
    const double scale = (double)in / (double)out;
    return scale < 1 ? 1 : scale;
}

static int64_t max_taps(int64_t in, int64_t out)
{
    return (int64_t)ceil(widening(in, out)) * 2 + 1;
}

static int64_t axis_bytes(int64_t in, int64_t out, int64_t n_out)
{
    return aligned(n_out * 4) * 2 + aligned(n_out * max_taps(in, out) * 4);
}

static void *carve(char **memory, int64_t bytes)
{
    void *block = *memory;
    *memory += aligned(bytes);
    return block;
}

static double triangle(double x)
{
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

// Results [begin, begin + n_out) of an axis that goes from `in` to `out`.
static axis make_axis(int64_t in, int64_t out, int64_t begin, int64_t n_out,
                      char **memory)
{
    axis a = {.n_out = n_out, .max_taps = max_taps(in, out)};
    a.first = carve(memory, n_out * 4);
    a.n = carve(memory, n_out * 4);
    a.weight = carve(memory, n_out * a.max_taps * 4);
    const double scale = (double)in / (double)out;
    const double support = widening(in, out);
    const double narrow = 1.0 / support;
    for (int64_t i = 0; i < n_out; i++) {
        const double centre = ((double)(begin + i) + 0.5) * scale;
        const int64_t lo = clamp((int64_t)(centre - support + 0.5), 0, in);
        const int64_t hi = clamp((int64_t)(centre + support + 0.5), 0, in);
        double sum = 0;
        for (int64_t k = lo; k < hi; k++)
            sum += triangle(((double)k - centre + 0.5) * narrow);
        int32_t *weight = a.weight + i * a.max_taps;
        for (int64_t k = lo; k < hi; k++) {
            const double w = triangle(((double)k - centre + 0.5) * narrow);
            weight[k - lo] =
                (int32_t)(0.5 + w / sum * (double)(1 << PRECISION));
        }
        a.first[i] = (int32_t)lo;
        a.n[i] = (int32_t)(hi - lo);
    }
    return a;
}

// Weights are rounded one by one, so a sum may be a little more than 255.
static uint8_t to_byte(int32_t sum)
{
    const int32_t value = sum >> PRECISION;
    return (uint8_t)(value > 255 ? 255 : value);
}

static void run_row3(const axis *a, const uint8_t *in, uint8_t *out)
{
    for (int64_t i = 0; i < a->n_out; i++) {
        const int32_t *weight = a->weight + i * a->max_taps;
        const uint8_t *p = in + (int64_t)a->first[i] * 3;
        int32_t s0 = HALF, s1 = HALF, s2 = HALF;
        for (int32_t k = 0; k < a->n[i]; k++, p += 3) {
            s0 += p[0] * weight[k];
            s1 += p[1] * weight[k];
            s2 += p[2] * weight[k];
        }
        out[i * 3] = to_byte(s0);
        out[i * 3 + 1] = to_byte(s1);
        out[i * 3 + 2] = to_byte(s2);
    }
}

static void run_row(const axis *a, int64_t channels, const uint8_t *in,
                    uint8_t *out)
{
    if (channels == 3) {
        run_row3(a, in, out);
        return;
    }
    for (int64_t i = 0; i < a->n_out; i++) {
        const int32_t *weight = a->weight + i * a->max_taps;
        const uint8_t *p = in + a->first[i] * channels;
        for (int64_t c = 0; c < channels; c++) {
            int32_t sum = HALF;
            for (int32_t k = 0; k < a->n[i]; k++)
                sum += p[k * channels + c] * weight[k];
            out[i * channels + c] = to_byte(sum);
        }
    }
}

// One result row of `n` bytes from rows of `n` bytes each.
static void run_column(const axis *a, int64_t i, const uint8_t *rows, int64_t n,
                       int32_t *sums, uint8_t *out)
{
    for (int64_t x = 0; x < n; x++)
        sums[x] = HALF;
    for (int32_t k = 0; k < a->n[i]; k++) {
        const int32_t weight = a->weight[i * a->max_taps + k];
        const uint8_t *row = rows + (a->first[i] + k) * n;
        for (int64_t x = 0; x < n; x++)
            sums[x] += row[x] * weight;
    }
    for (int64_t x = 0; x < n; x++)
        out[x] = to_byte(sums[x]);
}

int64_t tt_resize_bytes(const tt_resize *r)
{
    return axis_bytes(r->width, r->to_width, r->cols) +
           axis_bytes(r->height, r->to_height, r->rows) +
           aligned(r->cols * r->channels * 4) +
           aligned(r->height * r->cols * r->channels);
}

void tt_resize_run(const tt_resize *r, void *scratch, uint8_t *out)
{
    char *memory = scratch;
    const axis across =
        make_axis(r->width, r->to_width, r->left, r->cols, &memory);
    const axis down =
        make_axis(r->height, r->to_height, r->top, r->rows, &memory);
    const int64_t n = r->cols * r->channels;
    int32_t *sums = carve(&memory, n * 4);
    uint8_t *between = carve(&memory, r->height * n);

    // Centres grow, so the first and last results span all rows that are needed.
    const int64_t begin = down.first[0];
    const int64_t end = down.first[r->rows - 1] + down.n[r->rows - 1];
    for (int64_t y = begin; y < end; y++)
        run_row(&across, r->channels, r->pixels + y * r->stride,
                between + y * n);
    for (int64_t y = 0; y < r->rows; y++)
        run_column(&down, y, between, n, sums, out + y * n);
}
