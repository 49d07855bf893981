// finite - looks for the first NaN or infinity that a step wrote.
//
// A NaN in the loss says nothing about its cause, because it spreads through all later
// steps. With the search on, each step's outputs are read right after it ran, so the
// first step that made one is named, with the element's index. This is slow and only
// for debugging.

#include "base/alloc.h"
#include "exec/state.h"

#include <math.h>

static int64_t scan_f32(const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return i;
    return -1;
}

static int64_t scan_any(tt_dtype dtype, const void *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(tt_dtype_load(dtype, x, i)))
            return i;
    return -1;
}

// Where element i (row-major) of a plain operand lies.
static int64_t position(const tt_operand *o, int64_t i)
{
    int64_t at = 0;
    for (int d = o->local.shape.ndim - 1; d >= 0; d--) {
        const int64_t n = tt_operand_dim(o, d);
        at += i % n * o->stride[d];
        i /= n;
    }
    return at;
}

static int64_t scan_strided(const tt_operand *o, const void *x)
{
    const int64_t n = tt_operand_count(o);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(tt_dtype_load(o->dtype, x, position(o, i))))
            return i;
    return -1;
}

// The index counts in memory order where the layout is not plain.
static int64_t scan(const tt_exec *exec, const tt_operand *o, const void *x,
                    bool *is_nan_out)
{
    const bool is_strided = o->layout == 0 && !tt_operand_is_dense(o);
    const int64_t n =
        tt_target_bytes(&exec->backend->target, o) / tt_dtype_bytes(o->dtype);
    int64_t i;
    if (is_strided)
        i = scan_strided(o, x);
    else if (o->dtype == TT_F32)
        i = scan_f32(x, n);
    else
        i = scan_any(o->dtype, x, n);
    if (i >= 0)
        *is_nan_out =
            isnan(tt_dtype_load(o->dtype, x, is_strided ? position(o, i) : i));
    return i;
}

// The same on a copy, where the host cannot read in place.
static tt_status scan_copy(const tt_exec *exec, const tt_operand *o,
                           const void *x, tt__culprit *culprit)
{
    const int64_t bytes = tt_target_bytes(&exec->backend->target, o);
    void *copy = tt_alloc(bytes);
    if (copy == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to look for NaN");
    const tt_status status = tt_memory_read(exec->backend, copy, x, bytes);
    if (status == TT_OK)
        culprit->index = scan(exec, o, copy, &culprit->is_nan);
    tt_free(copy);
    return status;
}

tt_status tt__find_not_finite(const tt_exec *exec, const tt_step *step,
                              tt__culprit *culprit_out)
{
    *culprit_out = (tt__culprit){.index = -1};
    for (int k = 0; k < step->n_out && culprit_out->index < 0; k++) {
        const tt_ref *out = &step->out[k];
        if (out->buffer < 0 || !tt_dtype_is_float(out->operand.dtype) ||
            exec->plan->buffer[out->buffer].on_host) // that is a copy
            continue;
        const void *x = tt__address(exec, out);
        culprit_out->output = k;
        if (exec->backend->def->memory != NULL)
            TT_TRY(scan_copy(exec, &out->operand, x, culprit_out));
        else
            culprit_out->index =
                scan(exec, &out->operand, x, &culprit_out->is_nan);
    }
    return TT_OK;
}
