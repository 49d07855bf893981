// stage - runs a kernel of the host on operands that lie in a device's memory.
//
// One block of host memory, allocated when the kernel is chosen, has room for a copy of
// every operand and for the kernel's scratch:
//
//   | in 0 | in 1 | ... | out 0 | ... | scratch |      each from a new cache line

#include "backend/stage.h"

#include "base/alloc.h"

struct tt_stage {
    tt_backend *backend;
    char *memory;  // all copies
    void *scratch; // the kernel's
    int64_t *bytes;
    const void **in;
    void **out;
};

static int64_t round_up(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static int64_t operand_bytes(tt_backend *backend, const tt_operand *o)
{
    return o->dtype == TT_N_DTYPES ? 0 : tt_target_bytes(&backend->target, o);
}

static tt_status fill(tt_stage *s, const tt_site *site, int64_t scratch_bytes)
{
    const int n = site->n_in + site->n_out;
    s->bytes = tt_alloc((n + 1) * (int64_t)sizeof(*s->bytes));
    s->in = tt_alloc((site->n_in + 1) * (int64_t)sizeof(*s->in));
    s->out = tt_alloc((site->n_out + 1) * (int64_t)sizeof(*s->out));
    if (s->bytes == NULL || s->in == NULL || s->out == NULL)
        return TT_ERR_NOMEM;
    int64_t total = round_up(scratch_bytes);
    for (int i = 0; i < n; i++) {
        s->bytes[i] = operand_bytes(
            s->backend,
            i < site->n_in ? &site->in[i] : &site->out[i - site->n_in]);
        total += round_up(s->bytes[i]);
    }
    s->memory = tt_alloc_aligned(total + 64, 64);
    if (s->memory == NULL)
        return TT_ERR_NOMEM;
    char *at = s->memory;
    for (int i = 0; i < n; at += round_up(s->bytes[i]), i++) {
        if (i < site->n_in)
            s->in[i] = at;
        else
            s->out[i - site->n_in] = at;
    }
    s->scratch = at;
    return TT_OK;
}

tt_status tt__stage_create(tt_backend *backend, const tt_site *site,
                           int64_t scratch_bytes, tt_stage **stage_out)
{
    tt_stage *s = tt_alloc(sizeof(*s));
    tt_status status = TT_ERR_NOMEM;
    if (s != NULL) {
        s->backend = backend;
        status = fill(s, site, scratch_bytes);
    }
    if (status != TT_OK) {
        tt__stage_destroy(s);
        return tt_fail(status, "%s: no memory for copies of its operands",
                       site->op->name);
    }
    *stage_out = s;
    return TT_OK;
}

void tt__stage_destroy(tt_stage *stage)
{
    if (stage == NULL)
        return;
    tt_free_aligned(stage->memory);
    tt_free(stage->bytes);
    tt_free(stage->in);
    tt_free(stage->out);
    tt_free(stage);
}

tt_status tt__stage_in(tt_stage *stage, const tt_site *site,
                       const tt_args *args, tt_args *staged_out)
{
    char *at = stage->memory;
    for (int i = 0; i < site->n_in; at += round_up(stage->bytes[i]), i++) {
        stage->in[i] = args->in[i] == NULL ? NULL : at;
        if (args->in[i] != NULL)
            TT_TRY(tt_memory_read(stage->backend, at, args->in[i],
                                  stage->bytes[i]));
    }
    for (int i = 0; i < site->n_out; i++) {
        // The whole block is written back. So where the kernel adds to its output, or
        // leaves gaps in it, the old contents must be in the copy too.
        const bool is_partial = !tt_operand_is_dense(&site->out[i]);
        if (is_partial || (args->accumulate && i == 0))
            TT_TRY(tt_memory_read(stage->backend, stage->out[i], args->out[i],
                                  stage->bytes[site->n_in + i]));
    }
    *staged_out = (tt_args){.in = stage->in,
                            .out = stage->out,
                            .scratch = stage->scratch,
                            .accumulate = args->accumulate};
    return TT_OK;
}

tt_status tt__stage_out(tt_stage *stage, const tt_site *site,
                        const tt_args *args)
{
    for (int i = 0; i < site->n_out; i++)
        TT_TRY(tt_memory_write(stage->backend, args->out[i], stage->out[i],
                               stage->bytes[site->n_in + i]));
    return TT_OK;
}
