// channels - batch norm on images in any blocks of channels.
//
// A unit is what one vector register walks along. Which elements its lanes hold depends
// on the layout:
//
//   blocks of 8 or 16, channels last    a lane per channel, side by side in memory
//   NCHW (blocks of 1)                  a lane per point of one channel
//
// In both cases the loop goes from vector to vector with a fixed stride. Sums are kept
// in fp32 for a few vectors, then moved to fp64; they are made per sample and added
// over samples in order. So they are the same for any number of threads.

#include "backend/cpu/simd/channels.h"

#include "backend/cpu/simd/parallel.h"
#include "backend/cpu/simd/tile.h"

#include <omp.h>

extern const tt_simd_channels TT_SYMBOL(tt_simd_channels);

typedef tt_simd_channels_args args;

enum { GROUP = 32 }; // vectors that are summed in fp32

typedef uint16_t halves
    __attribute__((vector_size(TT_LANES * 2), aligned(2), may_alias));
typedef uint32_t words
    __attribute__((vector_size(TT_LANES * 4), aligned(4), may_alias));
typedef int32_t ints
    __attribute__((vector_size(TT_LANES * 4), aligned(4), may_alias));

// ---- vectors ----

// Loads `width` lanes; the others are 0. The width is a constant TT_LANES in the loops
// where speed matters.
TT_INLINE tt__vec get(tt_simd_type type, const void *p, int64_t at, int width)
{
    tt__vec v = {0};
    if (width < TT_LANES) {
        for (int j = 0; j < width; j++)
            v[j] = load(type, p, at + j);
    } else if (type == TT_SIMD_BF16) {
        const halves h = *(const halves *)((const uint16_t *)p + at);
        const words w = __builtin_convertvector(h, words) << 16;
        v = (tt__vec)w;
    } else {
        v = *(const tt__vec *)((const float *)p + at);
    }
    return v;
}

TT_INLINE void put(tt_simd_type type, void *p, int64_t at, int width, tt__vec v)
{
    if (width < TT_LANES) {
        for (int j = 0; j < width; j++)
            store(type, p, at + j, v[j]);
    } else if (type == TT_SIMD_BF16) { // nearest even; NaN stays NaN
        const words u = (words)v;
        const words even = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
        const words quiet = (u >> 16) | 0x40u;
        const words nan = (words)((u & 0x7fffffffu) > 0x7f800000u);
        const words r = (quiet & nan) | (even & ~nan);
        *(halves *)((uint16_t *)p + at) = __builtin_convertvector(r, halves);
    } else {
        *(tt__vec *)((float *)p + at) = v;
    }
}

TT_INLINE tt__vec keep_where(ints mask, tt__vec v)
{
    return (tt__vec)((ints)v & mask);
}

// ---- units ----

typedef struct unit {
    int64_t channel; // the first
    int width;       // channels, or 1 when lanes are points
    int64_t stride;  // elements from vector to vector
} unit;

static int64_t strips(const args *a)
{
    return tt__simd_blocks(a->block, TT_LANES);
}

static int64_t n_units(const args *a)
{
    return a->channels / a->block * strips(a);
}

static unit unit_of(const args *a, int64_t u)
{
    const int64_t first = u % strips(a) * TT_LANES;
    return (unit){.channel = u / strips(a) * a->block + first,
                  .width = (int)min_i64(TT_LANES, a->block - first),
                  .stride = a->block == 1 ? TT_LANES : a->block};
}

static int64_t first_of(const args *a, const unit *u, int64_t sample)
{
    const int64_t block = u->channel / a->block;
    return (sample * (a->channels / a->block) + block) * a->points * a->block +
           u->channel % a->block;
}

TT_INLINE tt__vec spread(const args *a, const unit *u, const float *per_channel)
{
    tt__vec v = {0};
    for (int j = 0; j < TT_LANES; j++)
        v[j] = a->block == 1  ? per_channel[u->channel]
               : j < u->width ? per_channel[u->channel + j]
                              : 0.0f;
    return v;
}

// ---- vectors of a unit ----

typedef enum what { MOMENTS, SUMS, FORWARD, BACKWARD } what;

// The coefficients of a unit's channels, a value per lane.
typedef struct coefs {
    tt__vec shift, mean, rstd, scale, beta, mean_dz, mean_dz_x;
} coefs;

static void set_coefs(what kind, const args *a, const unit *u, coefs *c)
{
    *c = (coefs){{0}};
    if (kind == MOMENTS) {
        c->shift = spread(a, u, a->shift);
        return;
    }
    c->mean = spread(a, u, a->mean);
    c->rstd = spread(a, u, a->rstd);
    if (kind == SUMS)
        return;
    c->scale = c->rstd * spread(a, u, a->gamma);
    if (kind == FORWARD) {
        c->beta = spread(a, u, a->beta);
        return;
    }
    for (int j = 0; j < TT_LANES && !a->is_frozen; j++) {
        if (a->block != 1 && j >= u->width)
            break;
        const int64_t at = u->channel + (a->block == 1 ? 0 : j);
        c->mean_dz_x[j] = (float)(a->sums[at] / a->count);
        c->mean_dz[j] = (float)(a->sums[a->channels + at] / a->count);
    }
}

TT_INLINE tt__vec slope(tt_simd_type type, const args *a, int64_t at, int width)
{
    const tt__vec d = get(type, a->d_y, at, width);
    return a->mask == NULL
               ? d
               : keep_where(get(type, a->mask, at, width) > 0.0f, d);
}

TT_INLINE void write_y(tt_simd_type type, const args *a, int64_t at, int width,
                       const coefs *c)
{
    tt__vec y = (get(type, a->x, at, width) - c->mean) * c->scale + c->beta;
    if (a->residual != NULL)
        y += get(type, a->residual, at, width);
    if (a->has_relu)
        y = keep_where(~(y <= 0.0f), y);
    put(type, a->y, at, width, y);
}

TT_INLINE void write_dx(tt_simd_type type, const args *a, int64_t at, int width,
                        const coefs *c)
{
    const tt__vec dz = slope(type, a, at, width);
    const tt__vec xhat = (get(type, a->x, at, width) - c->mean) * c->rstd;
    put(type, a->d_x, at, width,
        c->scale * (dz - c->mean_dz - xhat * c->mean_dz_x));
    if (a->d_residual != NULL)
        put(type, a->d_residual, at, width, dz);
}

typedef struct run {
    int64_t first, stride, n;
} run;

typedef struct job {
    const args *a;
    unit u;
    coefs c;
    double *out; // sums of one sample
} job;

// The storage type, the kind and a width of TT_LANES are constants after inlining.
TT_INLINE void sum_run(what kind, tt_simd_type type, const job *b, const run *r,
                       int width)
{
    const args *a = b->a;
    const coefs c = b->c;
    for (int64_t g = 0; g < r->n; g += GROUP) {
        tt__vec s = {0}, t = {0};
        for (int64_t i = g; i < min_i64(r->n, g + GROUP); i++) {
            const int64_t at = r->first + i * r->stride;
            const tt__vec x = get(type, a->x, at, width);
            if (kind == MOMENTS) {
                const tt__vec d = x - c.shift;
                s += d;
                t += d * d;
            } else {
                const tt__vec dz = slope(type, a, at, width);
                s += dz * ((x - c.mean) * c.rstd);
                t += dz;
            }
        }
        for (int j = 0; j < width; j++) {
            b->out[j] += (double)s[j];
            b->out[TT_LANES + j] += (double)t[j];
        }
    }
}

TT_INLINE void do_run(what kind, tt_simd_type type, const job *b, const run *r,
                      int width)
{
    if (kind == MOMENTS || kind == SUMS) {
        sum_run(kind, type, b, r, width);
        return;
    }
    const args a = *b->a;
    const coefs c = b->c;
    for (int64_t i = 0; i < r->n; i++) {
        const int64_t at = r->first + i * r->stride;
        if (kind == FORWARD)
            write_y(type, &a, at, width, &c);
        else
            write_dx(type, &a, at, width, &c);
    }
}

// One unit of one sample.
TT_INLINE void do_sample(what kind, tt_simd_type type, const job *b,
                         int64_t sample)
{
    const args *a = b->a;
    run r = {first_of(a, &b->u, sample), b->u.stride, a->points};
    if (a->block == 1)
        r.n = a->points / TT_LANES;
    if (a->block != 1 && b->u.width < TT_LANES)
        do_run(kind, type, b, &r, b->u.width);
    else
        do_run(kind, type, b, &r, TT_LANES);
    const int rest = (int)(a->points % TT_LANES);
    if (a->block == 1 && rest > 0) {
        r = (run){r.first + r.n * TT_LANES, 0, 1};
        do_run(kind, type, b, &r, rest);
    }
}

static void do_task(what kind, const job *b, int64_t sample)
{
    const bool is_bf16 = b->a->type == TT_SIMD_BF16;
    if (kind == MOMENTS)
        is_bf16 ? do_sample(MOMENTS, TT_SIMD_BF16, b, sample)
                : do_sample(MOMENTS, TT_SIMD_F32, b, sample);
    else if (kind == SUMS)
        is_bf16 ? do_sample(SUMS, TT_SIMD_BF16, b, sample)
                : do_sample(SUMS, TT_SIMD_F32, b, sample);
    else if (kind == FORWARD)
        is_bf16 ? do_sample(FORWARD, TT_SIMD_BF16, b, sample)
                : do_sample(FORWARD, TT_SIMD_F32, b, sample);
    else
        is_bf16 ? do_sample(BACKWARD, TT_SIMD_BF16, b, sample)
                : do_sample(BACKWARD, TT_SIMD_F32, b, sample);
}

// ---- sums of all samples ----

static double *part(const args *a, int64_t u, int64_t sample)
{
    return (double *)a->scratch + (u * a->samples + sample) * 2 * TT_LANES;
}

static int64_t scratch_bytes(const args *a)
{
    return n_units(a) * a->samples * 2 * TT_LANES * (int64_t)sizeof(double);
}

static void set_statistics(const args *a, int64_t channel)
{
    const double shift = a->sums[channel] / a->count;
    const double square = a->sums[a->channels + channel] / a->count;
    const double variance = square - shift * shift;
    a->mean[channel] = (float)((double)a->shift[channel] + shift);
    a->rstd[channel] =
        (float)(1.0 / sqrt((variance < 0.0 ? 0.0 : variance) + a->epsilon));
}

static void finish(const args *a, int64_t index, bool sets)
{
    const unit u = unit_of(a, index);
    double sums[2 * TT_LANES] = {0};
    for (int64_t n = 0; n < a->samples; n++) {
        const double *from = part(a, index, n);
        for (int j = 0; j < 2 * TT_LANES; j++)
            sums[j] += from[j];
    }
    for (int j = 1; j < TT_LANES && a->block == 1; j++) {
        sums[0] += sums[j];
        sums[TT_LANES] += sums[TT_LANES + j];
    }
    for (int j = 0; j < u.width; j++) {
        a->sums[u.channel + j] = sums[j];
        a->sums[a->channels + u.channel + j] = sums[TT_LANES + j];
        if (sets)
            set_statistics(a, u.channel + j);
    }
}

// ---- loops ----

static bool forks(const args *a)
{
    return a->samples * a->channels * a->points >= TT_FORK_ELEMENTS;
}

static void do_unit(what kind, const args *a, int64_t index, int64_t from,
                    int64_t to)
{
    job b = {.a = a, .u = unit_of(a, index)};
    set_coefs(kind, a, &b.u, &b.c);
    for (int64_t n = from; n < to; n++) {
        if (kind == MOMENTS || kind == SUMS) {
            b.out = part(a, index, n);
            memset(b.out, 0, sizeof(double[2 * TT_LANES]));
        }
        do_task(kind, &b, n);
    }
}

static void do_all(what kind, const args *a)
{
    const int64_t tasks = n_units(a) * a->samples;
#pragma omp parallel for schedule(static) if (forks(a))
    for (int64_t t = 0; t < tasks; t++)
        do_unit(kind, a, t / a->samples, t % a->samples, t % a->samples + 1);
}

static void sum_all(what kind, const args *a, bool sets)
{
    do_all(kind, a);
    for (int64_t u = 0; u < n_units(a); u++)
        finish(a, u, sets);
}

// Sums, then results. Where there are enough units for all threads, a thread does both
// for its unit, so that the second pass finds the image in cache.
static void do_both(what sums, what results, const args *a)
{
    const bool sets = sums == MOMENTS;
    const int64_t units = n_units(a);
    const int64_t threads = omp_get_max_threads();
    if (units < 2 * threads) {
        sum_all(sums, a, sets);
        do_all(results, a);
        return;
    }
#pragma omp parallel for schedule(static) if (forks(a))
    for (int64_t u = 0; u < units; u++) {
        do_unit(sums, a, u, 0, a->samples);
        finish(a, u, sets);
        do_unit(results, a, u, 0, a->samples);
    }
}

static void moments(const args *a)
{
    sum_all(MOMENTS, a, false);
}

static void apply(const args *a)
{
    do_all(FORWARD, a);
}

static void train(const args *a)
{
    do_both(MOMENTS, FORWARD, a);
}

static void grad_sums(const args *a)
{
    sum_all(SUMS, a, false);
}

static void grad_apply(const args *a)
{
    do_all(BACKWARD, a);
}

static void grad(const args *a)
{
    do_both(SUMS, BACKWARD, a);
}

const tt_simd_channels TT_SYMBOL(tt_simd_channels) = {
    .scratch_bytes = scratch_bytes,
    .moments = moments,
    .apply = apply,
    .train = train,
    .grad_sums = grad_sums,
    .grad_apply = grad_apply,
    .grad = grad,
};
