// sample_codes - codes for samples of operators that decode: any other bytes would be
// refused.

#include "check/sample_codes.h"

#include "base/rng.h"
#include "interp/interp.h"
#include "ops/gradops.h"
#include "ops/ops.h"

#include <stdio.h>
#include <string.h>

// int8_encode for int8_sum; NULL: there is none.
static const tt_op_def *encoder_of(const tt_op_def *op)
{
    char name[64];
    const char *end = strstr(op->name, "_sum");
    if (end == NULL)
        return NULL;
    snprintf(name, sizeof name, "%.*s_encode", (int)(end - op->name), op->name);
    return tt_op_find(name);
}

static tt_status build(const tt_op_def *encoder, const void *params,
                       tt_dtype dtype, const char *shape, tt_graph **graph_out)
{
    tt_builder b;
    TT_TRY(tt_builder_init(&b, &tt_grad_ops_default));
    const tt_val in[] = {tt_input(&b, "x", dtype, shape), TT_NONE,
                         tt_scalar(&b, "seed", TT_I64),
                         tt_scalar(&b, "step", TT_I64)};
    b.origin = "law";
    tt_val out[TT_MAX_OUT];
    tt_output(&b, "code", tt_call(&b, encoder, params, in, 4, out));
    const tt_status status = tt_builder_take(&b, graph_out);
    tt_builder_fini(&b);
    return status;
}

// Runs the encoder once per replica.
static tt_status encode(const tt_graph *g, int peers, tt_arena *arena,
                        double *codes, int64_t capacity)
{
    tt_interp *it = NULL;
    const tt_val x = tt_graph_find(g, "x");
    const int64_t n = tt_shape_count(&g->value[x.id].type.shape);
    double *data = tt_arena_alloc(arena, n * (int64_t)sizeof *data);
    if (data == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a law");
    TT_TRY(tt_interp_create(g, &it));
    tt_status status = TT_OK;
    for (int p = 0; p < peers && status == TT_OK; p++) {
        for (int64_t i = 0; i < n; i++)
            data[i] = tt_rng_normal((uint64_t)p + 1, (uint64_t)i);
        tt_interp_write(it, x, data);
        tt_interp_write(it, tt_graph_find(g, "seed"), &(double){3});
        tt_interp_write(it, tt_graph_find(g, "step"), &(double){(double)p});
        status = tt_interp_run(it);
        if (status == TT_OK)
            (void)tt_interp_read(it, tt_graph_output_find(g, "code"),
                                 codes + p * capacity);
    }
    tt_interp_destroy(it);
    return status;
}

tt_status tt__sample_codes(const tt_case *c, const char *text, tt_dtype dtype,
                           const char *shape, tt__codes *out)
{
    tt_graph *g = NULL;
    const tt_op_def *encoder = encoder_of(c->op);
    int peers = 0;
    if (encoder == NULL || sscanf(text, "c%d", &peers) != 1)
        return tt_fail(TT_ERR_ARG, "%s: \"%s\" is for operators that decode",
                       c->op->name, text);
    TT_TRY(build(encoder, c->params, dtype, shape, &g));
    const tt_val code = tt_graph_output_find(g, "code");
    const int64_t capacity = tt_shape_count(&g->value[code.id].type.shape);
    double *data =
        tt_arena_alloc(c->arena, peers * capacity * (int64_t)sizeof *data);
    tt_status status = TT_ERR_NOMEM;
    if (data != NULL)
        status = encode(g, peers, c->arena, data, capacity);
    tt_graph_destroy(g);
    if (status == TT_OK)
        *out = (tt__codes){.data = data, .bytes = peers * capacity};
    return status;
}
