// small_train - steps of a small model on simulated ranks, with the interpreter.

#include "base/alloc.h"
#include "check/small.h"

#include <math.h>

// Optimiser states include sums of squares, which must not be negative.
static tt_status write_leaf(tt_interp *it, const tt_graph *g, tt_val v,
                            int64_t first)
{
    const int64_t n = tt_small_elements(g, v);
    double *data = tt_alloc(8 * n);
    if (data == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a law");
    tt_small_fill(g, v, first, data);
    for (int64_t i = 0; i < n && tt_role_is_update(g->value[v.id].role); i++)
        data[i] = fabs(data[i]);
    tt_interp_write(it, v, data);
    tt_free(data);
    return TT_OK;
}

typedef struct feeder {
    const tt_graph *g;
    int64_t first; // index of the step's first sample
} feeder;

static tt_status feed(void *user, tt_interp *it, int micro)
{
    const feeder *f = user;
    for (int32_t v = 0; v < f->g->n_values; v++) {
        const tt_shape *shape = &f->g->value[v].type.shape;
        if (f->g->value[v].role == TT_ROLE_INPUT)
            TT_TRY(write_leaf(it, f->g, (tt_val){v},
                              f->first + micro * tt_shape_dim(shape, 0)));
    }
    return TT_OK;
}

static void set_scalar(tt_interp *it, const tt_graph *g, const char *name,
                       double value)
{
    const tt_val v = tt_graph_find(g, name);
    if (tt_is(v))
        tt_interp_write(it, v, &value);
}

tt_status tt_small_train(const tt_graph *g, const tt_small_steps *s,
                         tt_interp **interp_out)
{
    const int64_t samples = s->batch * s->n_micro;
    tt_interp *it = NULL;
    TT_TRY(tt_small_open(g, &it));
    tt_status status = TT_OK;
    for (int32_t v = 0; v < g->n_values && status == TT_OK; v++)
        if (tt_role_is_update(g->value[v].role))
            status = write_leaf(it, g, (tt_val){v}, 0);
    set_scalar(it, g, "limit", 1e9);
    set_scalar(it, g, "samples", (double)samples);
    for (int step = 0; step < s->n_steps && status == TT_OK; step++) {
        feeder f = {g, step * samples};
        set_scalar(it, g, "step", step + 1);
        status = tt_interp_step(it, s->n_micro, feed, &f);
    }
    if (status == TT_OK)
        *interp_out = it;
    else
        tt_interp_destroy(it);
    return status;
}
