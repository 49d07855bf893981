// restore - all states of a job from the two files of a checkpoint.
//
// Rank 0 opens the files and compares names, types and shapes with the graph. All
// ranks hear the verdict before any state is touched, so a checkpoint that does not
// fit changes nothing. Then slices.c reads the data.
//
// Resuming is strict: every state must be there and no other. A fork under other
// settings (with notes) is not: another optimiser has other states, and these begin
// anew. Weights must fit in both cases.

#include "state/restore.h"

#include "base/alloc.h"

#include <string.h>

enum { MAX_NAMED = 3 };

typedef struct restoring {
    const tt_tensors *all;
    const tt_safetensors *model, *optim;
    const char *name;
    tt_str *notes;
} restoring;

static const tt_safetensor *stored(const restoring *r, const tt_tensor *t)
{
    const tt_safetensors *file = tt_tensor_is_model(t) ? r->model : r->optim;
    return file == NULL ? NULL : tt_safetensors_find(file, t->name);
}

// Whether a state of a fork begins anew although the file has one of its name: other
// settings gave it another shape. Weights must fit.
static bool begins_anew(const restoring *r, const tt_tensor *t,
                        const tt_safetensor *from)
{
    return r->notes != NULL && t->role == TT_TENSOR_OPTIM &&
           (!tt_tensor_has_shape(t, from) ||
            strcmp(from->dtype, tt_tensor_file_dtype(t->dtype)) != 0);
}

static tt_status check_form(const restoring *r, const tt_tensor *t,
                            const tt_safetensor *from)
{
    const char *dtype = tt_tensor_file_dtype(t->dtype);
    if (tt_tensor_has_shape(t, from) && strcmp(from->dtype, dtype) == 0)
        return TT_OK;
    tt_str here = {0}, there = {0};
    tt_tensor_print_shape(t->dim, t->ndim, &here);
    tt_tensor_print_shape(from->shape, from->ndim, &there);
    const tt_status status = tt_fail(
        TT_ERR_ARG, "%s: %s is %s %s, but the model wants %s %s", r->name,
        t->name, from->dtype, tt_str_text(&there), dtype, tt_str_text(&here));
    tt_str_fini(&here);
    tt_str_fini(&there);
    return status;
}

static tt_status check_known(const restoring *r, const tt_safetensors *file,
                             bool is_model)
{
    const int64_t n = file == NULL ? 0 : tt_safetensors_count(file);
    for (int64_t i = 0; i < n; i++) {
        const char *name = tt_safetensors_at(file, i)->name;
        const tt_tensor *t = tt_tensors_find(r->all, name);
        if (t == NULL || tt_tensor_is_model(t) != is_model)
            return tt_fail(TT_ERR_ARG, "%s has %s, which this model has not",
                           r->name, name);
    }
    return TT_OK;
}

static tt_status check_all(const restoring *r)
{
    int64_t n_missing = 0;
    for (int64_t i = 0; i < r->all->n; i++) {
        const tt_tensor *t = &r->all->v[i];
        const tt_safetensor *from = stored(r, t);
        if (from != NULL && !begins_anew(r, t, from))
            TT_TRY(check_form(r, t, from));
        else if (tt_tensor_is_model(t) || r->notes == NULL)
            return tt_fail(TT_ERR_ARG, "%s lacks %s", r->name, t->name);
        else if (n_missing++ < MAX_NAMED)
            tt_str_addf(r->notes, "%s %s %s, which starts anew.\n", r->name,
                        from == NULL ? "lacks" : "has another form of",
                        t->name);
    }
    if (n_missing > MAX_NAMED)
        tt_str_addf(r->notes, "%s: %lld more states start anew.\n", r->name,
                    (long long)(n_missing - MAX_NAMED));
    TT_TRY(check_known(r, r->model, true));
    return r->notes == NULL ? check_known(r, r->optim, false) : TT_OK;
}

// The tensor in the file that a state is read from. An average (EMA) that is new in
// a fork begins as its weight.
static const tt_safetensor *source_of(const restoring *r, const tt_tensor *t)
{
    const tt_safetensor *from = stored(r, t);
    if (from != NULL && begins_anew(r, t, from))
        return NULL;
    if (from != NULL || t->role != TT_TENSOR_EMA)
        return from;
    for (int64_t i = 0; i < r->all->n; i++)
        if (r->all->v[i].val.id == t->of.id)
            return stored(r, &r->all->v[i]);
    return NULL;
}

// Rank 0 alone: checks that all fits and finds the source of each state.
static tt_status find_all(const restoring *r, const tt_safetensor **from)
{
    TT_TRY(check_all(r));
    for (int64_t i = 0; i < r->all->n; i++)
        from[i] = source_of(r, &r->all->v[i]);
    return TT_OK;
}

tt_status tt_tensors_check(const tt_tensors *all, const tt_restore *restore)
{
    const restoring r = {all, restore->model, restore->optim, restore->name,
                         restore->notes};
    return check_all(&r);
}

// Whether a state of replicas is not in the file, or there for another number of them.
// Rank 0 knows.
static tt_status find_lack(const tt_tensors *all,
                           const tt_safetensor *const *from, bool *lacks_out)
{
    static const char suffix[] = ".replica";
    int32_t lacks = 0;
    const int64_t n_here =
        from != NULL && tt_tensors_are_first(all) ? all->n : 0;
    for (int64_t i = 0; i < n_here; i++) {
        const char *name = all->v[i].name;
        const size_t n = strlen(name), end = sizeof suffix - 1;
        lacks |=
            from[i] == NULL && n > end && strcmp(name + n - end, suffix) == 0;
    }
    if (all->n > 0 && all->v[0].peers != NULL)
        TT_TRY(tt_peers_broadcast(all->v[0].peers, "checkpoint", &lacks,
                                  sizeof lacks));
    *lacks_out = lacks != 0;
    return TT_OK;
}

tt_status tt_tensors_restore(tt_exec *exec, const tt_tensors *all,
                             const tt_restore *restore,
                             tt_slices_result *result_out)
{
    const restoring r = {all, restore->model, restore->optim, restore->name,
                         restore->notes};
    const tt_safetensor **from = tt_alloc((all->n + 1) * (int64_t)sizeof *from);
    tt_status status = TT_OK;
    *result_out = (tt_slices_result){0};
    if (from == NULL)
        status = tt_fail(TT_ERR_NOMEM, "no memory to restore %s", r.name);
    else if (tt_tensors_are_first(all))
        status = find_all(&r, from);
    if (all->n > 0 && all->v[0].peers != NULL)
        status = tt_peers_agree(all->v[0].peers, "checkpoint", status);
    const tt_slices slices = {exec, all, from, r.name};
    const bool fits = status == TT_OK; // else the message already has r.name
    if (fits)
        status = tt_slices_load(&slices, result_out);
    if (fits && status == TT_OK && restore->notes != NULL)
        status = find_lack(all, from, &result_out->lacks_replicas);
    tt_free(from);
    return status == TT_OK || !fits || result_out->is_damaged
               ? status
               : tt_fail_context(status, "%s", r.name);
}
