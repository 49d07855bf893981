// coder_rows - exchange.codec=factors: what a worker pushes for a fully connected layer are
// the activations and errors of which the gradient of its weight is the product.
//
// The problem. A gradient is a sum over micro-batches by the time that it is pushed, and a
// sum has no two factors.
//
// The idea. Rows of all micro-batches one after another are factors of the sum. The pass
// `rows` lets them be read until their micro-batch ends; then they are copied behind those of
// the one before. The shard that has the weight computes the product.
//
//   micro-batch     0      1      2
//   x            [ rows | rows | rows ]   sent
//   dy           [ rows | rows | rows ]   sent   -> x' dy, which is the gradient
//
// The pass has chosen gradients whose rows are fewer bytes; the others are sent as they are.
// Of micro-batches that were not finished no rows are sent.
//
// The cost: memory for the rows of one gradient, a copy of them, and the product at the
// server, whose flops are those of the gradient at the worker once more.

#include "base/alloc.h"
#include "job/dynamic/coder_state.h"

#include <string.h>

bool tt__coder_has_rows(const tt_dynamic *d)
{
    return strcmp(tt_exchange_codec(&d->job->exchange)->name, "factors") == 0;
}

static bool find_factors(const tt_dynamic *d, int32_t part)
{
    const tt_graph *g = d->job->graph;
    for (int k = 0; k < TT_ROWS_FACTORS; k++) {
        tt__coder_rows *f = &d->coder->part[part].factor[k];
        f->val = tt_rows_find(g, d->part[part].tensor.name, k);
        if (!tt_is(f->val))
            return false;
        const tt_type *type = &g->value[f->val.id].type;
        const int64_t count = tt_shape_count(&type->shape);
        f->width = tt_shape_dim(&type->shape, type->shape.ndim - 1);
        f->n = count / f->width;
        f->bytes = count * tt_dtype_bytes(type->dtype);
    }
    return true;
}

bool tt__coder_find_rows(tt_dynamic *d)
{
    bool has_any = false;
    for (int32_t i = 0; i < d->n_parts; i++) {
        tt__coder_part *p = &d->coder->part[i];
        p->is_coded = p->is_product =
            !d->part[i].is_buffer && find_factors(d, i);
        has_any = has_any || p->is_product;
    }
    return has_any;
}

tt_status tt__coder_make_rows(tt_dynamic *d)
{
    int64_t bytes = 0;
    if (!tt__coder_has_rows(d))
        return TT_OK;
    for (int32_t i = 0; i < d->n_parts; i++)
        for (int k = 0; tt__coder_has(d, i) && k < TT_ROWS_FACTORS; k++) {
            d->coder->part[i].factor[k].at = bytes;
            bytes +=
                d->job->options.accumulate * d->coder->part[i].factor[k].bytes;
        }
    d->coder->rows = tt_alloc(bytes + 8);
    return d->coder->rows != NULL ? TT_OK : tt__coder_no_memory();
}

tt_status tt__coder_keep(tt_dynamic *d, int32_t micro)
{
    const tt__coder *c = d->coder;
    if (c == NULL || c->rows == NULL)
        return TT_OK;
    for (int32_t i = 0; i < d->n_parts; i++)
        for (int k = 0; tt__coder_has(d, i) && k < TT_ROWS_FACTORS; k++) {
            const tt__coder_rows *f = &c->part[i].factor[k];
            TT_TRY(tt_exec_read(d->exec, f->val,
                                c->rows + f->at + micro * f->bytes));
        }
    return TT_OK;
}
