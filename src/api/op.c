// op - types, gradient and cost of a user's operator.
//
// The def that the registry gets has functions of this file. They copy the library's
// structs into public ones, call the user's callback and copy the answer back. Before
// a callback runs a message is set, so that one which just returns an error code still
// explains itself.
//
// A gradient may be given in two ways: as a callback that emits operators, or as the
// name of another operator that takes (inputs, gradients of outputs) and returns the
// gradients of the float inputs in order.

#include "api/op.h"

#include "ops/cost.h"
#include "ops/ops.h"

#include <string.h>

// What an infer callback adds its outputs to. The first failure sticks.
struct tutti_op_result {
    tt_op_io *io;
    tt_status status;
};

// ---- types ---------------------------------------------------------------

// Types of the inputs; ndim is -1 where an optional input is absent.
static tt_status public_types(const tt_op_io *io, tt_arena *arena,
                              tutti_op_types *types)
{
    tutti_type *in =
        tt_arena_alloc(arena, (int64_t)sizeof *in * (io->n_in + 1));
    if (in == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < io->n_in; i++) {
        in[i].ndim = -1;
        if (tt_io_has(io, i))
            TT_TRY(
                tt__api_type(io->in[i].dtype, &io->in[i].shape, arena, &in[i]));
    }
    *types = (tutti_op_types){.user = tt__api_op_of(io->op)->outside.user,
                              .options = io->params,
                              .n_in = io->n_in,
                              .in = in};
    return TT_OK;
}

// Where the next output's type goes; NULL when there is an error already.
static tt_type *next_out(const char *function, tutti_op_result *result)
{
    if (result == NULL) {
        (void)tt__api_is_null(function, "result");
        return NULL;
    }
    tt_op_io *io = result->io;
    if (io->n_out == TT_MAX_OUT && result->status == TT_OK)
        result->status = tt_fail(TT_ERR_ARG, "%s: more than %d outputs",
                                 io->op->name, TT_MAX_OUT);
    return result->status == TT_OK ? &io->out[io->n_out] : NULL;
}

void tutti_result_add(tutti_op_result *result, tutti_dtype dtype,
                      const char *shape)
{
    tt_type *out = next_out(__func__, result);
    if (out == NULL)
        return;
    if (shape == NULL) {
        result->status = tt__api_is_null(__func__, "shape");
        return;
    }
    result->status = tt_shape_parse(shape, &out->shape);
    if (result->status == TT_OK && (unsigned)dtype >= TT_N_DTYPES)
        result->status = tt_fail(TT_ERR_ARG, "%d is no element type", dtype);
    if (result->status != TT_OK) {
        tt_fail_context(result->status, "%s", result->io->op->name);
        return;
    }
    out->dtype = (tt_dtype)dtype;
    result->io->n_out++;
}

void tutti_result_add_like(tutti_op_result *result, int input)
{
    tt_type *out = next_out(__func__, result);
    if (out == NULL)
        return;
    if (input < 0 || !tt_io_has(result->io, input)) {
        result->status = tt_fail(TT_ERR_ARG, "%s: there is no input %d",
                                 result->io->op->name, input);
        return;
    }
    out->dtype = result->io->in[input].dtype;
    out->shape = result->io->in[input].shape;
    result->io->n_out++;
}

static tt_status infer_in(tt_op_io *io, tt_arena *arena)
{
    tutti_op_types types;
    tutti_op_result result = {.io = io};
    TT_TRY(public_types(io, arena, &types));
    io->n_out = 0;
    (void)tt_fail(TT_ERR_ARG, "%s does not take these inputs", io->op->name);
    const tt_status status =
        tt__api_status(tt__api_op_of(io->op)->outside.infer(&types, &result));
    TT_TRY(result.status);
    TT_TRY(status);
    return io->n_out > 0
               ? TT_OK
               : tt_fail(TT_ERR_ARG, "%s: no output was added", io->op->name);
}

static tt_status infer(tt_op_io *io)
{
    tt_arena *arena = tt_arena_create();
    if (arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %s", io->op->name);
    const tt_status status = infer_in(io, arena);
    tt_arena_destroy(arena);
    return status;
}

// ---- gradient ------------------------------------------------------------

enum { MAX_IN = 64 };

// Calls the gradient operator with the options of the forward one, where both have
// some.
static tt_status grad_by_name(tt_builder *b, const tt_node *node,
                              const tt_val *dout, tt_val *din)
{
    const char *name = tt__api_op_of(node->op)->outside.gradient_op;
    const tt_op_def *op = tt_op_find(name);
    tt_val in[MAX_IN], out[TT_MAX_OUT];
    int n = 0, k = 0;
    if (op == NULL)
        return tt_fail(TT_ERR_ARG, "%s: its gradient \"%s\" is no operator",
                       node->op->name, name);
    for (int i = 0; i < node->n_in; i++)
        in[n++] = node->in[i];
    for (int i = 0; i < node->n_out; i++)
        in[n++] = dout[i];
    tt_str options = {0};
    if (node->op->options != NULL && op->options != NULL)
        tt_opt_print(node->op->options, node->params, true, &options);
    tt_outputs_of(b, tt_callf(b, op, in, n, "%s", tt_str_text(&options)), out);
    tt_str_fini(&options);
    TT_TRY(tt_builder_status(b));
    for (int i = 0; i < node->n_in; i++)
        if (tt_is(node->in[i]) &&
            tt_dtype_is_float(tt_type_of(b, node->in[i])->dtype))
            din[i] = k < TT_MAX_OUT ? out[k++] : TT_NONE;
    return TT_OK;
}

static void copy_out(const tt_val *from, int n, tutti_value *to)
{
    for (int i = 0; i < n; i++)
        to[i] = tt__api_out(from[i]);
}

static tt_status grad_by_callback(tt_builder *b, const tt_node *node,
                                  const tt_val *dout, const bool *need,
                                  tt_val *din)
{
    const tutti_operator *outside = &tt__api_op_of(node->op)->outside;
    tutti_value in[MAX_IN], out[TT_MAX_OUT], flow[TT_MAX_OUT], made[MAX_IN];
    copy_out(node->in, node->n_in, in);
    copy_out(node->out, node->n_out, out);
    copy_out(dout, node->n_out, flow);
    for (int i = 0; i < node->n_in; i++)
        made[i] = TUTTI_NONE;
    const tutti_op_gradient gradient = {.user = outside->user,
                                        .options = node->params,
                                        .n_in = node->n_in,
                                        .n_out = node->n_out,
                                        .in = in,
                                        .out = out,
                                        .dout = flow,
                                        .need = need,
                                        .din = made};
    (void)tt_fail(TT_ERR_ARG, "the gradient of %s failed", node->op->name);
    const tt_status status =
        tt__api_status(outside->gradient((tutti_builder *)b, &gradient));
    TT_TRY(tt_builder_status(b));
    TT_TRY(status);
    for (int i = 0; i < node->n_in; i++)
        din[i] = tt__api_in(made[i]);
    return TT_OK;
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    if (node->n_in + node->n_out > MAX_IN)
        return tt_fail(TT_ERR_ARG, "%s has too many operands", node->op->name);
    return tt__api_op_of(node->op)->outside.gradient != NULL
               ? grad_by_callback(b, node, dout, need, din)
               : grad_by_name(b, node, dout, din);
}

// ---- cost ----------------------------------------------------------------

static double count_flops(const tt_op_io *io)
{
    const tutti_operator *outside = &tt__api_op_of(io->op)->outside;
    tutti_op_types types;
    double flops = 0;
    if (outside->flops == NULL)
        return 0;
    tt_arena *arena = tt_arena_create();
    if (arena != NULL && public_types(io, arena, &types) == TT_OK)
        flops = outside->flops(&types);
    tt_arena_destroy(arena);
    return flops;
}

// Bytes are what must be read and written. FLOPs are the user's to say.
static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_move(io, 0, cost_out);
    cost_out->flops = count_flops(io);
    if (cost_out->work < cost_out->flops)
        cost_out->work = cost_out->flops;
}

// ---- registration --------------------------------------------------------

static tt_status copy_samples(const tutti_sample *from, tt_arena *arena,
                              const tt_sample **samples_out)
{
    int64_t n = 0;
    while (from != NULL && from[n].in[0] != NULL)
        n++;
    tt_sample *list = tt_arena_alloc(arena, (n + 1) * (int64_t)sizeof *list);
    if (list == NULL)
        return TT_ERR_NOMEM;
    for (int64_t s = 0; s < n; s++) {
        list[s].flops = from[s].flops;
        list[s].params =
            tt_arena_strdup(arena, from[s].options ? from[s].options : "");
        if (list[s].params == NULL)
            return TT_ERR_NOMEM;
        for (int i = 0; i < 8 && from[s].in[i] != NULL; i++) {
            list[s].in[i] = tt_arena_strdup(arena, from[s].in[i]);
            if (list[s].in[i] == NULL)
                return TT_ERR_NOMEM;
        }
    }
    *samples_out = list;
    return TT_OK;
}

static tt_status check_operator(const tutti_operator *op)
{
    if (op->name == NULL || op->name[0] == '\0' || op->infer == NULL)
        return tt_fail(TT_ERR_ARG,
                       "an operator needs a name and an infer function");
    if (op->forward_f32 == NULL && op->forward_f64 == NULL)
        return tt_fail(TT_ERR_ARG, "operator %s has no forward kernel",
                       op->name);
    if (op->gradient != NULL && op->gradient_op != NULL)
        return tt_fail(TT_ERR_ARG, "operator %s has two gradients", op->name);
    return TT_OK;
}

static tt_status fill(const tutti_operator *from, tt_arena *arena,
                      tt__api_op *op)
{
    TT_TRY(check_operator(from));
    op->arena = arena;
    op->outside = *from;
    const bool has_grad = from->gradient != NULL || from->gradient_op != NULL;
    op->def =
        (tt_op_def){.name = tt_arena_strdup(arena, from->name),
                    .doc = tt_arena_strdup(arena, from->doc ? from->doc : ""),
                    .params_bytes = from->options_bytes,
                    .infer = infer,
                    .grad = has_grad ? grad : NULL,
                    .cost = cost,
                    .is_single = from->forward_f64 == NULL,
                    .kernel = &op->kernel};
    op->kernel =
        (tt_kernel_def){.name = tt_arena_printf(arena, "own.%s", from->name),
                        .op = &op->def,
                        .prepare = tt__api_kernel_prepare,
                        .run = tt__api_kernel_run,
                        .release = tt__api_kernel_release};
    if (from->gradient_op != NULL)
        op->outside.gradient_op = tt_arena_strdup(arena, from->gradient_op);
    if (op->def.name == NULL || op->def.doc == NULL ||
        op->kernel.name == NULL ||
        (from->gradient_op != NULL && op->outside.gradient_op == NULL))
        return TT_ERR_NOMEM;
    TT_TRY(tt__api_options(from->options, from->options_bytes, arena,
                           &op->def.options));
    return copy_samples(from->samples, arena, &op->def.samples);
}

tutti_status tutti_op_register(const tutti_operator *op)
{
    TT_API_NEED(op);
    tt_arena *arena = tt_arena_create();
    tt_status status = TT_ERR_NOMEM;
    if (arena == NULL)
        return tt__api_result(tt_fail(status, "no memory for an operator"));
    tt__api_op *own = tt_arena_alloc(arena, sizeof *own);
    if (own != NULL)
        status = fill(op, arena, own);
    if (status == TT_OK)
        status = tt_op_register(&own->def);
    if (status != TT_OK)
        tt_arena_destroy(arena);
    return tt__api_result(status);
}
