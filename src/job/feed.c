// feed - from a loader's batch to the inputs of a graph: the element types that the
// graph reads, this rank's piece of each sample, and a check of every id.
//
// Ids are checked here because nobody after this point does. A kernel that looks up
// an embedding uses the id as an index; one id beyond the vocabulary would read
// memory that is not its own.

#include "job/feed.h"

#include "ops/comm/replicas.h"
#include "state/tensors.h"

#include <string.h>

static tt_status check_ids(const int32_t *ids, int64_t n, int64_t classes,
                           const char *what)
{
    for (int64_t i = 0; i < n; i++)
        if (ids[i] >= classes)
            return tt_fail(TT_ERR_ARG,
                           "the data has %s %d at %lld of a batch, but the "
                           "model's last one is %lld",
                           what, ids[i], (long long)i, (long long)classes - 1);
    return TT_OK;
}

static tt_status check_tokens(const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0)
            return tt_fail(TT_ERR_ARG,
                           "the data has token %d at %lld of a "
                           "batch: tokens begin at 0",
                           ids[i], (long long)i);
    return TT_OK;
}

static const tt_type *input_type(const tt_plan *plan, const char *name)
{
    const tt_graph *g = plan->graph;
    return &g->value[tt_graph_find(g, name).id].type;
}

int64_t tt_feed_count(const tt_plan *plan, const char *name)
{
    tt_local local;
    tt_local_of(input_type(plan, name), &plan->graph->mesh, plan->rank, &local);
    return tt_shape_count(&local.shape);
}

enum { LEFT_OUT = -100 }; // the default `ignore` of cross_entropy

void tt_feed_leave_out(const tt_plan *plan, void *y)
{
    const int64_t n = tt_feed_count(plan, "y");
    int32_t *label = y;
    if (input_type(plan, "y")->dtype != TT_I32)
        return;
    for (int64_t i = 0; i < n; i++)
        if (label[i] < 0)
            label[i] = LEFT_OUT;
}

tt_status tt_feed_stop(tt_exec *exec, void *room, double wish)
{
    const tt_plan *plan = tt_exec_plan(exec);
    const int64_t n = tt_feed_count(plan, "stop");
    float *stop = room;
    for (int64_t i = 0; i < n; i++)
        stop[i] = (float)wish;
    return tt_exec_write(exec, tt_graph_find(plan->graph, "stop"), room);
}

// A loader delivers whole sequences and images. A rank whose sequences or images
// are split as well needs a piece of each. `local` describes that piece within the
// samples of this rank.
typedef struct piece {
    tt_local local;
    int64_t count;   // elements of the piece
    int64_t samples; // elements of the samples
} piece;

static piece piece_of(const tt_plan *plan, const char *name)
{
    piece p;
    tt_local_of(input_type(plan, name), &plan->graph->mesh, plan->rank,
                &p.local);
    p.count = tt_shape_count(&p.local.shape);
    // The loader has delivered this rank's samples only, so along the batch (and along
    // replicas, each with samples of its own) the piece begins at 0.
    bool is_samples = true;
    for (int f = 0; f < p.local.shape.n_factors && is_samples; f++) {
        is_samples = strcmp(p.local.shape.factor[f].name, TT_GROUP) == 0 ||
                     strcmp(p.local.shape.factor[f].name, TT_REPLICA) == 0;
        p.local.origin[f] = 0;
        p.local.global[f] = p.local.shape.factor[f].size;
    }
    p.samples = 1;
    for (int f = 0; f < p.local.shape.n_factors; f++)
        p.samples *= p.local.global[f];
    return p;
}

static void cut(const piece *p, tt_dtype from, const void *in, tt_dtype to,
                void *out)
{
    if (p->count == p->samples) {
        tt_tensor_convert(from, in, to, out, p->count);
        return;
    }
    for (int64_t i = 0; i < p->count; i++)
        tt_dtype_store(
            to, out, i,
            tt_dtype_load(from, in, tt_local_to_global(&p->local, i)));
}

void tt_feed_cut(const tt_plan *plan, const char *name, const void *samples,
                 void *piece_out)
{
    const piece p = piece_of(plan, name);
    const tt_dtype dtype = input_type(plan, name)->dtype;
    cut(&p, dtype, samples, dtype, piece_out);
}

tt_status tt_feed_batch(const tt_plan *plan, int64_t classes,
                        const tt_batch *batch, void *x, void *y)
{
    const tt_type *x_type = input_type(plan, "x");
    const tt_type *y_type = input_type(plan, "y");
    const piece px = piece_of(plan, "x"), py = piece_of(plan, "y");
    if (tt_dtype_is_float(x_type->dtype)) {
        cut(&px, TT_F32, batch->x, x_type->dtype, x);
    } else {
        TT_TRY(check_tokens(batch->x, px.samples));
        TT_TRY(check_ids(batch->x, px.samples, classes, "token"));
        cut(&px, TT_I32, batch->x, x_type->dtype, x);
    }
    if (y == NULL)
        return TT_OK;
    TT_TRY(check_ids(batch->y, py.samples, classes,
                     tt_dtype_is_float(x_type->dtype) ? "label" : "token"));
    cut(&py, TT_I32, batch->y, y_type->dtype, y);
    tt_feed_leave_out(plan, y);
    return TT_OK;
}
