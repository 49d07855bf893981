// residual - how much codes of gradients have not said yet: the norm of all residuals.

#include "base/alloc.h"
#include "job/job.h"

#include <string.h>

static const char residual_of_codec[] = ".codec.residual";

static bool is_residual(const tt_tensor *t)
{
    const size_t n = strlen(t->name), end = sizeof residual_of_codec - 1;
    return n > end && strcmp(t->name + n - end, residual_of_codec) == 0;
}

// Ranks along an axis that does not cut it hold the same.
static double copies_of(const tt_graph *g, tt_val v)
{
    double n = 1;
    for (int a = 0; a < g->mesh.n_axes; a++)
        if (g->value[v.id].type.place[a].kind != TT_SPLIT)
            n *= g->mesh.axis[a].size;
    return n;
}

static tt_status add_squares(const tt_job *job, const tt_tensor *t, double *sum)
{
    const tt_operand *o = &job->plan->home[t->val.id].operand;
    const int64_t n = tt_operand_count(o);
    double squares = 0;
    void *data = tt_alloc(n * tt_dtype_bytes(o->dtype) + 1);
    if (data == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a copy of %s", t->name);
    const tt_status status = tt_exec_read(job->exec, t->val, data);
    for (int64_t i = 0; i < n && status == TT_OK; i++) {
        const double x = tt_dtype_load(o->dtype, data, i);
        squares += x * x;
    }
    *sum += squares / copies_of(job->graph, t->val);
    tt_free(data);
    return status;
}

tt_status tt_job_residual(const tt_job *job, double *squares_out)
{
    *squares_out = 0;
    for (int64_t i = 0; i < job->tensors.n; i++) {
        const tt_tensor *t = &job->tensors.v[i];
        if (is_residual(t) && tt_tensor_is_here(job->exec, t))
            TT_TRY(add_squares(job, t, squares_out));
    }
    return TT_OK;
}
