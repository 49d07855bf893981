// kernel - runs the callback of a user's operator on dense operands.
//
// The callback is written for float or for double. Operands of that type are handed
// over as they are. Other floats (bf16 in a bf16 model) are converted through the
// plan's scratch memory, so a user's operator works in every precision.
//
//   stored bf16 --convert--> scratch fp32 --callback--> scratch fp32 --convert--> bf16
//
// What can be decided once is decided in prepare. run only sets pointers and converts.

#include "api/op.h"
#include "base/alloc.h"

#include <string.h>

typedef struct operand {
    tt_dtype stored, shown; // in memory; to the callback
    int64_t count;
    int64_t scratch; // offset in scratch; -1: handed over as it is
} operand;

typedef struct prepared {
    tt_arena *arena;
    tutti_kernel_fn *forward;
    tutti_op_data data;
    operand *in, *out;
    const void **in_data;
    void **out_data;
} prepared;

// The double version where an operand is double, or where there is no other.
static tutti_kernel_fn *pick(const tutti_operator *outside, const tt_site *site,
                             tt_dtype *dtype_out)
{
    bool wants_f64 = outside->forward_f32 == NULL;
    for (int i = 0; i < site->n_in; i++)
        wants_f64 |= site->in[i].dtype == TT_F64;
    for (int i = 0; i < site->n_out; i++)
        wants_f64 |= site->out[i].dtype == TT_F64;
    wants_f64 = wants_f64 && outside->forward_f64 != NULL;
    *dtype_out = wants_f64 ? TT_F64 : TT_F32;
    return wants_f64 ? outside->forward_f64 : outside->forward_f32;
}

static tt_status show(const tt_operand *from, tt_dtype dtype, prepared *p,
                      operand *to, tutti_type *type, int64_t *scratch_bytes)
{
    *to = (operand){.stored = from->dtype, .scratch = -1};
    *type = (tutti_type){.ndim = -1};
    if (from->dtype == TT_N_DTYPES)
        return TT_OK;
    to->shown = tt_dtype_is_float(from->dtype) ? dtype : from->dtype;
    to->count = tt_operand_count(from);
    if (to->shown != to->stored) {
        to->scratch = *scratch_bytes;
        *scratch_bytes +=
            (to->count * tt_dtype_bytes(to->shown) + 63) / 64 * 64;
    }
    return tt__api_type(to->shown, &from->local.shape, p->arena, type);
}

static tt_status prepare_in(const tt_site *site, prepared *p,
                            int64_t *scratch_bytes)
{
    const tutti_operator *outside = &tt__api_op_of(site->op)->outside;
    const int64_t n = site->n_in + site->n_out + 1;
    tt_dtype dtype;
    tutti_type *type = tt_arena_alloc(p->arena, n * (int64_t)sizeof *type);
    p->in = tt_arena_alloc(p->arena, n * (int64_t)sizeof *p->in);
    p->in_data = tt_arena_alloc(p->arena, n * (int64_t)sizeof *p->in_data);
    p->out_data = tt_arena_alloc(p->arena, n * (int64_t)sizeof *p->out_data);
    if (type == NULL || p->in == NULL || p->in_data == NULL ||
        p->out_data == NULL)
        return TT_ERR_NOMEM;
    p->out = p->in + site->n_in;
    p->forward = pick(outside, site, &dtype);
    for (int i = 0; i < site->n_in; i++)
        TT_TRY(
            show(&site->in[i], dtype, p, &p->in[i], &type[i], scratch_bytes));
    for (int i = 0; i < site->n_out; i++)
        TT_TRY(show(&site->out[i], dtype, p, &p->out[i], &type[site->n_in + i],
                    scratch_bytes));
    p->data = (tutti_op_data){.user = outside->user,
                              .options = site->params,
                              .n_in = site->n_in,
                              .n_out = site->n_out,
                              .in_type = type,
                              .out_type = type + site->n_in,
                              .in = p->in_data,
                              .out = p->out_data};
    return TT_OK;
}

void tt__api_kernel_release(void *state)
{
    prepared *p = state;
    if (p == NULL)
        return;
    tt_arena_destroy(p->arena);
    tt_free(p);
}

tt_status tt__api_kernel_prepare(tt_backend *backend, tt_site *site,
                                 tt_prepared *prepared_out)
{
    (void)backend;
    int64_t scratch_bytes = 0;
    prepared *p = tt_alloc(sizeof *p);
    if (p != NULL)
        p->arena = tt_arena_create();
    if (p == NULL || p->arena == NULL) {
        tt__api_kernel_release(p);
        return tt_fail(TT_ERR_NOMEM, "no memory for %s", site->op->name);
    }
    const tt_status status = prepare_in(site, p, &scratch_bytes);
    if (status != TT_OK) {
        tt__api_kernel_release(p);
        return status;
    }
    prepared_out->state = p;
    prepared_out->scratch_bytes = scratch_bytes;
    return TT_OK;
}

static void convert(int64_t n, tt_dtype from_dtype, const void *from,
                    tt_dtype to_dtype, void *to)
{
    for (int64_t i = 0; i < n; i++)
        tt_dtype_store(to_dtype, to, i, tt_dtype_load(from_dtype, from, i));
}

tt_status tt__api_kernel_run(void *state, const tt_site *site,
                             const tt_args *args)
{
    prepared *p = state;
    char *scratch = args->scratch;
    for (int i = 0; i < site->n_in; i++) {
        const operand *o = &p->in[i];
        p->in_data[i] = args->in[i];
        if (o->scratch >= 0) {
            convert(o->count, o->stored, args->in[i], o->shown,
                    scratch + o->scratch);
            p->in_data[i] = scratch + o->scratch;
        }
    }
    for (int i = 0; i < site->n_out; i++)
        p->out_data[i] =
            p->out[i].scratch >= 0 ? scratch + p->out[i].scratch : args->out[i];
    (void)tt_fail(TT_ERR_STATE, "%s: its kernel failed", site->op->name);
    TT_TRY(tt__api_status(p->forward(&p->data)));
    for (int i = 0; i < site->n_out; i++) {
        const operand *o = &p->out[i];
        if (o->scratch >= 0)
            convert(o->count, o->shown, scratch + o->scratch, o->stored,
                    args->out[i]);
    }
    return TT_OK;
}
