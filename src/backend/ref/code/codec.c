// codec - reference kernels of the codecs.
//
// A code must be the same on every device: ranks with different devices exchange codes,
// and a rounding that falls the other way would be a whole level off. So everything
// that decides about a code is computed in the type of the scale, with the same
// operations in the same order as the other backends use. Here that is f32 for f32 and
// for 16-bit numbers, although this folder computes in double elsewhere.

#include "ops/codec/codec.h"

#include "backend/kernel.h"
#include "backend/sites.h"
#include "base/rng.h"
#include "ops/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// ---- quantize ------------------------------------------------------------

// The largest absolute value; NaN if there is one.
static double largest(const tt_operand *x, const void *data, int64_t from,
                      int64_t to)
{
    double most = 0;
    for (int64_t i = from; i < to; i++) {
        const double a = fabs(tt_dtype_load(x->dtype, data, i));
        most = a > most || isnan(a) ? a : most;
    }
    return most;
}

// The level of x, from -levels to levels. `up` is added before rounding down: 1/2
// rounds to nearest, a random number rounds to the right value on average.
static int64_t level_of(bool is_wide, double x, double scale, int64_t levels,
                        double up)
{
    double level;
    if (!(scale > 0) || isinf(scale))
        return 0;
    if (is_wide) {
        level = floor(x * ((double)levels / scale) + up);
    } else {
        const float scaled = (float)x * ((float)levels / (float)scale);
        level = (double)floorf(scaled + (float)up);
    }
    return (int64_t)fmin(fmax(level, (double)-levels), (double)levels);
}

static void put_code(unsigned char *codes, int64_t bits, int64_t i,
                     int64_t code)
{
    if (bits == 8)
        codes[i] = (unsigned char)code;
    else if (i % 2 == 0)
        codes[i / 2] = (unsigned char)code;
    else
        codes[i / 2] = (unsigned char)(codes[i / 2] | code << 4);
}

static tt_status run_quantize(void *state, const tt_site *site,
                              const tt_args *args)
{
    (void)state;
    const tt_quantize_params *p = site->params;
    const tt_operand *x = &site->in[0];
    const int64_t n = tt_operand_count(x), levels = tt_quantize_levels(p->bits);
    const bool is_random = site->n_in > 1;
    const uint64_t key =
        is_random ? tt_rng_key((uint64_t) * (const int64_t *)args->in[1],
                               site->origin,
                               (uint64_t) * (const int64_t *)args->in[2])
                  : 0;
    for (int64_t b = 0; b * p->block < n; b++) {
        const int64_t end = min_i64(n, (b + 1) * p->block);
        double scale = largest(x, args->in[0], b * p->block, end);
        tt_dtype_store(site->out[0].dtype, args->out[0], b, scale);
        scale = tt_dtype_load(site->out[0].dtype, args->out[0], b);
        for (int64_t i = b * p->block; i < end; i++) {
            const uint64_t at = (uint64_t)tt_local_to_global(&x->local, i);
            const double up =
                is_random ? (tt_rng_u32(key, at) >> 8) * 0x1p-24 : 0.5;
            const int64_t level = level_of(
                x->dtype == TT_F64, tt_dtype_load(x->dtype, args->in[0], i),
                scale, levels, up);
            put_code(args->out[1], p->bits, i, level + levels + 1);
        }
    }
    return TT_OK;
}

static tt_status run_dequantize(void *state, const tt_site *site,
                                const tt_args *args)
{
    (void)state;
    const tt_quantize_params *p = site->params;
    const tt_operand *y = &site->out[0], *s = &site->in[0];
    const int64_t n = tt_operand_count(y), levels = tt_quantize_levels(p->bits);
    const unsigned char *codes = args->in[1];
    for (int64_t i = 0; i < n; i++) {
        const int64_t code =
            p->bits == 8 ? codes[i] : codes[i / 2] >> (i % 2 * 4) & 15;
        const double scale = tt_dtype_load(s->dtype, args->in[0], i / p->block);
        tt_dtype_store(y->dtype, args->out[0], i,
                       (double)(code - levels - 1) * scale / (double)levels);
    }
    return TT_OK;
}

// ---- onebit --------------------------------------------------------------

static tt_status run_onebit(void *state, const tt_site *site,
                            const tt_args *args)
{
    (void)state;
    const tt_onebit_params *p = site->params;
    const tt_operand *x = &site->in[0];
    const int64_t n = tt_operand_count(x);
    unsigned char *signs = args->out[1];
    memset(signs, 0, (size_t)((n + 7) / 8));
    for (int64_t b = 0; b * p->block < n; b++) {
        double sum[2] = {0}, count[2] = {0};
        for (int64_t i = b * p->block; i < min_i64(n, (b + 1) * p->block);
             i++) {
            const double v = tt_dtype_load(x->dtype, args->in[0], i);
            const int side = v >= 0;
            sum[side] += v;
            count[side]++;
            signs[i / 8] = (unsigned char)(signs[i / 8] | side << i % 8);
        }
        for (int side = 0; side < 2; side++)
            tt_dtype_store(site->out[0].dtype, args->out[0], 2 * b + side,
                           count[side] > 0 ? sum[side] / count[side] : 0);
    }
    return TT_OK;
}

static tt_status run_onebit_decode(void *state, const tt_site *site,
                                   const tt_args *args)
{
    (void)state;
    const tt_onebit_params *p = site->params;
    const tt_operand *y = &site->out[0];
    const unsigned char *signs = args->in[1];
    const int64_t n = tt_operand_count(y);
    for (int64_t i = 0; i < n; i++)
        tt_dtype_store(
            y->dtype, args->out[0], i,
            tt_dtype_load(site->in[0].dtype, args->in[0],
                          2 * (i / p->block) + (signs[i / 8] >> i % 8 & 1)));
    return TT_OK;
}

// ---- topk ----------------------------------------------------------------

typedef struct entry {
    double size;
    int64_t at;
} entry;

// Sorts by absolute value, the largest first. NaN comes before all numbers; of equal
// entries the first one comes first.
static int by_size(const void *pa, const void *pb)
{
    const entry *a = pa, *b = pb;
    if (isnan(a->size) != isnan(b->size))
        return isnan(a->size) ? -1 : 1;
    if (a->size != b->size && !isnan(a->size))
        return a->size > b->size ? -1 : 1;
    return a->at < b->at ? -1 : 1;
}

static int by_place(const void *pa, const void *pb)
{
    const entry *a = pa, *b = pb;
    return a->at < b->at ? -1 : 1;
}

// Scratch with room for an entry per element.
static tt_status prepare_entries(tt_backend *backend, tt_site *site,
                                 tt_prepared *prepared_out)
{
    (void)backend;
    prepared_out->scratch_bytes =
        (int64_t)sizeof(entry) * tt__site_rows(site) * tt__site_cols(site);
    return TT_OK;
}

static tt_status run_topk(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const tt_operand *x = &site->in[0];
    const int64_t n = tt_operand_count(x), k = tt_operand_count(&site->out[0]);
    entry *all = args->scratch;
    for (int64_t i = 0; i < n; i++)
        all[i] = (entry){fabs(tt_dtype_load(x->dtype, args->in[0], i)), i};
    qsort(all, (size_t)n, sizeof *all, by_size);
    qsort(all, (size_t)k, sizeof *all, by_place);
    for (int64_t i = 0; i < k; i++) {
        tt_dtype_store(x->dtype, args->out[0], i,
                       tt_dtype_load(x->dtype, args->in[0], all[i].at));
        ((int32_t *)args->out[1])[i] = (int32_t)all[i].at;
    }
    return TT_OK;
}

static tt_status run_topk_decode(void *state, const tt_site *site,
                                 const tt_args *args)
{
    (void)state;
    const tt_operand *y = &site->out[0];
    const int64_t n = tt_operand_count(y), k = tt_operand_count(&site->in[0]);
    const int32_t *place = args->in[1];
    memset(args->out[0], 0, (size_t)(n * tt_dtype_bytes(y->dtype)));
    for (int64_t i = 0; i < k; i++) {
        if (place[i] < 0 || place[i] >= n)
            return tt_fail(TT_ERR_ARG, "topk_decode: there is no place %d",
                           place[i]);
        tt_dtype_store(y->dtype, args->out[0], place[i],
                       tt_dtype_load(y->dtype, args->in[0], i));
    }
    return TT_OK;
}

// ---- orthogonalize -------------------------------------------------------

// Makes column j orthogonal to the columns before it (modified Gram-Schmidt) and gives
// it length 1, or 0 where nothing is left of it.
static void make_column(double *a, int64_t rows, int64_t cols, int64_t j)
{
    double before = 0, after = 0;
    for (int64_t i = 0; i < rows; i++)
        before += a[i * cols + j] * a[i * cols + j];
    for (int64_t k = 0; k < j; k++) {
        double dot = 0;
        for (int64_t i = 0; i < rows; i++)
            dot += a[i * cols + k] * a[i * cols + j];
        for (int64_t i = 0; i < rows; i++)
            a[i * cols + j] -= dot * a[i * cols + k];
    }
    for (int64_t i = 0; i < rows; i++)
        after += a[i * cols + j] * a[i * cols + j];
    const double by = after > 1e-12 * before ? 1 / sqrt(after) : 0;
    for (int64_t i = 0; i < rows; i++)
        a[i * cols + j] *= by;
}

static tt_status run_orthogonalize(void *state, const tt_site *site,
                                   const tt_args *args)
{
    (void)state;
    const tt_operand *x = &site->in[0];
    const int64_t rows = tt_operand_dim(x, 0), cols = tt_operand_dim(x, 1);
    double *a = args->scratch;
    for (int64_t i = 0; i < rows * cols; i++)
        a[i] = tt_dtype_load(x->dtype, args->in[0], i);
    for (int64_t j = 0; j < cols; j++)
        make_column(a, rows, cols, j);
    for (int64_t i = 0; i < rows * cols; i++)
        tt_dtype_store(x->dtype, args->out[0], i, a[i]);
    return TT_OK;
}

const tt_kernel_def tt__ref_codec_kernels[] = {
    {TT_KERNEL(ref, quantize), .run = run_quantize},
    {TT_KERNEL(ref, dequantize), .run = run_dequantize},
    {TT_KERNEL(ref, onebit), .run = run_onebit},
    {TT_KERNEL(ref, onebit_decode), .run = run_onebit_decode},
    {TT_KERNEL(ref, topk), .prepare = prepare_entries, .run = run_topk},
    {TT_KERNEL(ref, topk_decode), .run = run_topk_decode},
    {TT_KERNEL(ref, orthogonalize), .prepare = prepare_entries,
     .run = run_orthogonalize},
    {0},
};
