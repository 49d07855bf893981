// tensors_copy - from one executor's states to another's.

#include "base/alloc.h"
#include "train/tensors.h"

static const tt_tensor *source_of(const tt_tensors *all, const char *name,
                                  bool use_ema)
{
    const tt_tensor *t = tt_tensors_find(all, name);
    if (t == NULL || !use_ema || t->role != TT_TENSOR_PARAM)
        return t;
    for (int64_t i = 0; i < all->n; i++)
        if (all->v[i].of.id == t->val.id && all->v[i].role == TT_TENSOR_EMA)
            return &all->v[i];
    return t;
}

// `dense` has room for both forms.
static tt_status copy_one(tt_exec *from, const tt_tensor *source, tt_exec *to,
                          const tt_tensor *target, char *dense)
{
    char *converted = dense + (source->bytes + 63) / 64 * 64;
    TT_TRY(tt_tensor_read(from, source, dense));
    if (source->dtype == target->dtype)
        return tt_tensor_write(to, target, dense);
    tt_tensor_convert(source->dtype, dense, target->dtype, converted,
                      target->count);
    return tt_tensor_write(to, target, converted);
}

tt_status tt_tensors_copy(tt_exec *from, const tt_tensors *sources, tt_exec *to,
                          const tt_tensors *targets, bool use_ema)
{
    int64_t largest = 0;
    for (int64_t i = 0; i < targets->n; i++)
        if (targets->v[i].count > largest)
            largest = targets->v[i].count;
    char *dense = tt_alloc_aligned(16 * largest + 128, 64); // twice, 8 bytes
    if (dense == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to copy weights");
    tt_status status = TT_OK;
    for (int64_t i = 0; i < targets->n && status == TT_OK; i++) {
        const tt_tensor *target = &targets->v[i];
        const tt_tensor *source = source_of(sources, target->name, use_ema);
        if (source == NULL || source->count != target->count)
            status = tt_fail(TT_ERR_STATE,
                             "%s of the copy is not that of the trained model",
                             target->name);
        else
            status = copy_one(from, source, to, target, dense);
    }
    tt_free_aligned(dense);
    return status;
}
