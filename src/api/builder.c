// builder - a graph written by a user's program.
//
// A tutti_builder is a tt_builder under another name, so most functions only check
// their arguments and convert. Errors are sticky, as in the library: a model is
// written without a check after every line, and the first mistake is reported when the
// build ends.

#include "api/convert.h"
#include "base/settings/opt.h"
#include "ops/ops.h"

#include <stdarg.h>
#include <stdio.h>

enum { TEXT_BYTES = 512, MAX_IN = 64 };

static tt_builder *own(tutti_builder *b)
{
    return (tt_builder *)b;
}

static const tt_builder *own_const(const tutti_builder *b)
{
    return (const tt_builder *)b;
}

// Whether an argument is NULL. With a NULL builder only this call can fail; otherwise
// the build fails.
static bool is_bad(tutti_builder *b, const void *argument, const char *function,
                   const char *name)
{
    if (b == NULL)
        (void)tt__api_is_null(function, "b");
    else if (argument == NULL && tt_builder_status(own(b)) == TT_OK)
        (void)tt_builder_fail(own(b), tt__api_is_null(function, name));
    return b == NULL || argument == NULL;
}

tutti_dtype tutti_compute_dtype(const tutti_builder *b)
{
    if (b == NULL) {
        (void)tt__api_is_null(__func__, "b");
        return TUTTI_F32;
    }
    return (tutti_dtype)own_const(b)->dtype;
}

tutti_value tutti_input(tutti_builder *b, const char *name, tutti_dtype dtype,
                        const char *shape, ...)
{
    char text[TEXT_BYTES];
    va_list list;
    if (is_bad(b, name, __func__, "name") ||
        is_bad(b, shape, __func__, "shape"))
        return TUTTI_NONE;
    va_start(list, shape);
    vsnprintf(text, sizeof text, shape, list);
    va_end(list);
    return tt__api_out(tt_input(own(b), name, (tt_dtype)dtype, text));
}

static tt_init own_init(tutti_init init)
{
    return (tt_init){
        .kind = (tt_init_kind)init.kind, .a = init.a, .of = TT_NONE};
}

tutti_value tutti_param(tutti_builder *b, const char *name, tutti_init init,
                        const char *shape, ...)
{
    char text[TEXT_BYTES];
    va_list list;
    if (is_bad(b, name, __func__, "name") ||
        is_bad(b, shape, __func__, "shape"))
        return TUTTI_NONE;
    va_start(list, shape);
    vsnprintf(text, sizeof text, shape, list);
    va_end(list);
    return tt__api_out(tt_param(own(b), name, own_init(init), "%s", text));
}

tutti_value tutti_buffer(tutti_builder *b, const char *name, tutti_init init,
                         const char *shape, ...)
{
    char text[TEXT_BYTES];
    tt_shape parsed;
    va_list list;
    if (is_bad(b, name, __func__, "name") ||
        is_bad(b, shape, __func__, "shape"))
        return TUTTI_NONE;
    va_start(list, shape);
    vsnprintf(text, sizeof text, shape, list);
    va_end(list);
    if (tt_builder_status(own(b)) != TT_OK)
        return TUTTI_NONE;
    const tt_status status = tt_shape_parse(text, &parsed);
    if (status != TT_OK)
        return tt__api_out(tt_builder_fail(
            own(b), tt_fail_context(status, "buffer %s", name)));
    return tt__api_out(tt_state(own(b), TT_ROLE_BUFFER, name, own(b)->master,
                                &parsed, own_init(init)));
}

void tutti_update(tutti_builder *b, tutti_value buffer, tutti_value value)
{
    if (b == NULL) {
        (void)tt__api_is_null(__func__, "b");
        return;
    }
    tt_update(own(b), tt__api_in(buffer), tt__api_in(value));
}

// An operator that does not exist, with the nearest name that does.
static tt_val unknown_op(tt_builder *b, const char *name)
{
    int n = 0;
    tt_near near = {.word = name};
    const tt_op_def *const *all = tt_op_all(&n);
    for (int i = 0; i < n; i++)
        tt_near_try(&near, all[i]->name);
    return tt_builder_fail(b, tt_near_unknown(&near, "operator", NULL));
}

static tt_val call(tt_builder *b, const char *name, const char *options,
                   const tt_val *in, int n_in)
{
    const tt_op_def *op = tt_op_find(name);
    if (op == NULL)
        return unknown_op(b, name);
    for (int i = 0; i < n_in; i++)
        if (in[i].id >= b->graph->n_values)
            return tt_builder_fail(b, tt_fail(TT_ERR_ARG,
                                              "%s: input %d is no value of "
                                              "this graph",
                                              name, i));
    if (options != NULL && options[0] != '\0' && op->options == NULL)
        return tt_builder_fail(b, tt_fail(TT_ERR_ARG,
                                          "%s has no options, so not \"%s\"",
                                          name, options));
    return tt_callf(b, op, in, n_in, "%s", options ? options : "");
}

tutti_value tutti_op(tutti_builder *b, const char *name, const char *options,
                     const tutti_value *in, int n_in, tutti_value *out)
{
    tt_val own_in[MAX_IN], own_out[TT_MAX_OUT];
    for (int i = 0; i < TT_MAX_OUT && out != NULL; i++)
        out[i] = TUTTI_NONE;
    if (is_bad(b, name, __func__, "name") ||
        (n_in > 0 && is_bad(b, in, __func__, "in")))
        return TUTTI_NONE;
    if (tt_builder_status(own(b)) != TT_OK)
        return TUTTI_NONE;
    if (n_in < 0 || n_in > MAX_IN)
        return tt__api_out(tt_builder_fail(
            own(b), tt_fail(TT_ERR_ARG, "%s: %d inputs are not 0 to %d", name,
                            n_in, MAX_IN)));
    for (int i = 0; i < n_in; i++)
        own_in[i] = tt__api_in(in[i]);
    const tt_val first = call(own(b), name, options, own_in, n_in);
    tt_outputs_of(own(b), first, own_out);
    for (int i = 0; i < TT_MAX_OUT && out != NULL; i++)
        out[i] = tt__api_out(own_out[i]);
    return tt__api_out(first);
}

int64_t tutti_dim(const tutti_builder *b, tutti_value v, int d)
{
    if (b == NULL) {
        (void)tt__api_is_null(__func__, "b");
        return 1;
    }
    const tt_type *type = tt_type_of(own_const(b), tt__api_in(v));
    return d >= 0 && d < type->shape.ndim ? tt_shape_dim(&type->shape, d) : 1;
}

int tutti_scope_push(tutti_builder *b, const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list list;
    if (is_bad(b, format, __func__, "format"))
        return 0;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return tt_scope_push(own(b), "%s", text);
}

void tutti_scope_pop(tutti_builder *b, int scope)
{
    if (b == NULL) {
        (void)tt__api_is_null(__func__, "b");
        return;
    }
    tt_scope_pop(own(b), scope);
}
