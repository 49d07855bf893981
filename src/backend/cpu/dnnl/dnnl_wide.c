// dnnl_wide - see the header.

#include "backend/cpu/dnnl/dnnl_wide.h"

#include "backend/cpu/simd.h"

enum { FORK = 1 << 15 }; // elements that are worth several threads

bool tt__is_widened(tt_dtype dtype)
{
    return dtype == TT_BF16 && !tt__dnnl_has_bf16();
}

tt__wide tt__wide_flat(int64_t count)
{
    return (tt__wide){.count = count};
}

// Dimensions of more than one entry, the largest stride first.
static int sort_dims(const tt__dnnl_tensor *t, int order[TT__MAX_NDIM])
{
    int n = 0;
    for (int d = 0; d < t->ndim; d++) {
        if (t->dims[d] == 1)
            continue;
        int at = n++;
        for (; at > 0 && t->stride[order[at - 1]] < t->stride[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    return n;
}

tt__wide tt__wide_strided(const tt__dnnl_tensor *t, tt__dnnl_tensor *floats_out)
{
    int order[TT__MAX_NDIM];
    const int n = sort_dims(t, order);
    tt__wide w = {.count = 1, .ndim = n};
    tt__dnnl_tensor floats = *t;
    floats.dtype = TT_F32;
    bool is_run = true;
    for (int i = n - 1; i >= 0; i--) {
        const int d = order[i];
        is_run = is_run && t->stride[d] == w.count;
        w.dims[i] = t->dims[d];
        w.stride[i] = t->stride[d];
        floats.stride[d] = w.count;
        w.count *= t->dims[d];
    }
    if (is_run)
        w.ndim = 0;
    // Along an extent of 1: as if it were dense.
    for (int d = t->ndim - 1; d >= 0; d--)
        if (t->dims[d] == 1)
            floats.stride[d] = d == t->ndim - 1 ? 1
                               : d < t->ndim - 2
                                   ? w.count
                                   : floats.stride[d + 1] * t->dims[d + 1];
    *floats_out = floats;
    return w;
}

int64_t tt__wide_bytes(const tt__wide *w)
{
    return (w->count * (int64_t)sizeof(float) + 63) / 64 * 64;
}

// Where row `row` begins: a run of the last dimension.
static int64_t row_start(const tt__wide *w, int64_t row)
{
    int64_t at = 0;
    for (int d = w->ndim - 2; d >= 0; d--) {
        at += row % w->dims[d] * w->stride[d];
        row /= w->dims[d];
    }
    return at;
}

void tt__wide_read(const tt__wide *w, const void *bf16, float *floats)
{
    const tt_simd_elementwise *simd = tt_simd_get()->elementwise;
    if (w->ndim == 0) {
        simd->cast(TT_SIMD_BF16, bf16, TT_SIMD_F32, floats, w->count);
        return;
    }
    const int64_t n = w->dims[w->ndim - 1], step = w->stride[w->ndim - 1];
    const uint16_t *from = bf16;
#pragma omp parallel for schedule(static) if (w->count >= FORK)
    for (int64_t row = 0; row < w->count / n; row++) {
        const int64_t at = row_start(w, row);
        for (int64_t i = 0; i < n; i += step == 1 ? n : 1)
            simd->cast(TT_SIMD_BF16, from + at + i * step, TT_SIMD_F32,
                       floats + row * n + i, step == 1 ? n : 1);
    }
}

void tt__wide_write(const tt__wide *w, const float *floats, void *bf16)
{
    const tt_simd_elementwise *simd = tt_simd_get()->elementwise;
    if (w->ndim == 0) {
        simd->cast(TT_SIMD_F32, floats, TT_SIMD_BF16, bf16, w->count);
        return;
    }
    const int64_t n = w->dims[w->ndim - 1], step = w->stride[w->ndim - 1];
    uint16_t *to = bf16;
#pragma omp parallel for schedule(static) if (w->count >= FORK)
    for (int64_t row = 0; row < w->count / n; row++) {
        const int64_t at = row_start(w, row);
        for (int64_t i = 0; i < n; i += step == 1 ? n : 1)
            simd->cast(TT_SIMD_F32, floats + row * n + i, TT_SIMD_BF16,
                       to + at + i * step, step == 1 ? n : 1);
    }
}
