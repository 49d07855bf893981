// tensors - weights, statistics, optimiser states and gradients by name.
//
// The list has all states first, then the gradients under the names "WEIGHT.grad".

#include "api/session.h"
#include "base/alloc.h"

#include <string.h>

static tutti_role public_role(tt_tensor_role role)
{
    static const tutti_role of[] = {[TT_TENSOR_PARAM] = TUTTI_PARAMETER,
                                    [TT_TENSOR_BUFFER] = TUTTI_BUFFER,
                                    [TT_TENSOR_OPTIM] = TUTTI_OPTIMISER,
                                    [TT_TENSOR_EMA] = TUTTI_OPTIMISER};
    return of[role];
}

static tt_status add(tutti_session *session, const tt_tensor *of,
                     tutti_role role, const char *name)
{
    const tt_type *type = &session->job->graph->value[of->val.id].type;
    tt__api_tensor *tensor = &session->tensor[session->n_tensors];
    if (name == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt__api_type(type->dtype, &type->shape, session->arena,
                        &tensor->info.type));
    tensor->info.name = name;
    tensor->info.role = role;
    tensor->of = *of;
    session->n_tensors++;
    return TT_OK;
}

tt_status tt__api_list_tensors(tutti_session *session)
{
    const tt_tensors *all = &session->job->tensors;
    session->n_tensors = 0;
    // Room for all states and, at most, a gradient of each.
    session->tensor = tt_arena_alloc(
        session->arena, (2 * all->n + 1) * (int64_t)sizeof *session->tensor);
    if (session->tensor == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < all->n; i++)
        TT_TRY(add(session, &all->v[i], public_role(all->v[i].role),
                   all->v[i].name));
    for (int64_t i = 0; i < all->n; i++) {
        tt_tensor grad;
        if (tt_tensor_grad(session->job->graph, &all->v[i], &grad))
            TT_TRY(add(
                session, &grad, TUTTI_GRADIENT,
                tt_arena_printf(session->arena, "%s.grad", all->v[i].name)));
    }
    return TT_OK;
}

int64_t tutti_tensor_count(const tutti_session *session)
{
    if (session == NULL)
        (void)tt__api_is_null(__func__, "session");
    return session != NULL ? session->n_tensors : 0;
}

tutti_status tutti_tensor_at(const tutti_session *session, int64_t index,
                             tutti_tensor *tensor_out)
{
    TT_API_NEED(session);
    TT_API_NEED(tensor_out);
    if (index < 0 || index >= session->n_tensors)
        return tt__api_result(
            tt_fail(TT_ERR_ARG, "there is no tensor %lld: the session has %lld",
                    (long long)index, (long long)session->n_tensors));
    *tensor_out = session->tensor[index].info;
    return TUTTI_OK;
}

static tt_status unknown(const tutti_session *session, const char *name)
{
    tt_near near = {.word = name};
    for (int64_t i = 0; i < session->n_tensors; i++)
        tt_near_try(&near, session->tensor[i].info.name);
    return tt_fail(TT_ERR_ARG, "there is no tensor \"%s\"%s%s%s", name,
                   near.best ? "; did you mean " : "",
                   near.best ? near.best : "", near.best ? "?" : "");
}

static tt_status find(const tutti_session *session, const char *name,
                      const tt__api_tensor **tensor_out)
{
    for (int64_t i = 0; i < session->n_tensors; i++)
        if (strcmp(session->tensor[i].info.name, name) == 0) {
            *tensor_out = &session->tensor[i];
            return TT_OK;
        }
    return unknown(session, name);
}

tutti_status tutti_tensor_find(const tutti_session *session, const char *name,
                               tutti_tensor *tensor_out)
{
    TT_API_NEED(session);
    TT_API_NEED(name);
    TT_API_NEED(tensor_out);
    const tt__api_tensor *tensor = NULL;
    const tt_status status = find(session, name, &tensor);
    if (status == TT_OK)
        *tensor_out = tensor->info;
    return tt__api_result(status);
}

// The loss is a sum while it is differentiated (graph/grad.h). Users expect the
// gradient of the mean, so a gradient is divided by the number of targets when it is
// read.
static void divide(const tutti_type *type, double count, void *data)
{
    for (int64_t i = 0; i < type->count; i++)
        tt_dtype_store((tt_dtype)type->dtype, data, i,
                       tt_dtype_load((tt_dtype)type->dtype, data, i) / count);
}

static tt_status read(tutti_session *session, const tt__api_tensor *tensor,
                      void *data)
{
    const bool is_grad = tensor->info.role == TUTTI_GRADIENT;
    if (is_grad && session->job->step == 0)
        return tt_fail(TT_ERR_STATE, "%s is known after a step",
                       tensor->info.name);
    TT_TRY(tt_tensor_read(session->job->exec, &tensor->of, data));
    if (is_grad && session->count > 0)
        divide(&tensor->info.type, session->count, data);
    return TT_OK;
}

static tt_status write(tutti_session *session, const tt__api_tensor *tensor,
                       const void *data)
{
    if (tensor->info.role == TUTTI_GRADIENT)
        return tt_fail(TT_ERR_ARG, "%s cannot be written: it is a result",
                       tensor->info.name);
    tt__api_touch(session);
    return tt_tensor_write(session->job->exec, &tensor->of, data);
}

static tt_status find_sized(const tutti_session *session, const char *name,
                            int64_t bytes, const tt__api_tensor **tensor_out)
{
    TT_TRY(tt__api_need_build(session));
    TT_TRY(find(session, name, tensor_out));
    const tutti_type *type = &(*tensor_out)->info.type;
    const int64_t need = type->count * tutti_dtype_bytes(type->dtype);
    if (bytes != need)
        return tt_fail(TT_ERR_ARG, "%s has %lld bytes, not %lld", name,
                       (long long)need, (long long)bytes);
    return TT_OK;
}

tutti_status tutti_read(tutti_session *session, const char *name, void *data,
                        int64_t bytes)
{
    TT_API_NEED(session);
    TT_API_NEED(name);
    TT_API_NEED(data);
    const tt__api_tensor *tensor = NULL;
    tt_status status = find_sized(session, name, bytes, &tensor);
    if (status == TT_OK)
        status = read(session, tensor, data);
    return tt__api_result(status);
}

tutti_status tutti_write(tutti_session *session, const char *name,
                         const void *data, int64_t bytes)
{
    TT_API_NEED(session);
    TT_API_NEED(name);
    TT_API_NEED(data);
    const tt__api_tensor *tensor = NULL;
    tt_status status = find_sized(session, name, bytes, &tensor);
    if (status == TT_OK)
        status = write(session, tensor, data);
    return tt__api_result(status);
}
