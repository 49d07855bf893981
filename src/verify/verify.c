// verify - runs both jobs, compares them, and names a culprit.
//
// The steps: `judge` runs the single rank and sets the limits, `compare` measures
// distances, `blame` looks for the first thing beyond its limit and `accuse` walks the
// graph back to the operator that computed it. A user then reads "the gradient of X,
// by operator Y, on rank Z", which is where a debugger would start.
//
// Only rank 0 judges. The other ranks wait in tt_peers_follow for its status, so a
// failure on rank 0 ends all of them.

#include "verify/verify.h"

#include "ops/ops.h"
#include "state/parts.h"
#include "verify/verify_parts.h"

#include <math.h>

// Limits for low precisions. The ratio over all gradients is the real test. The others
// are far above what rounding does, and catch faults that are too small to be seen in
// the sum: in a single gradient (which may be sent elsewhere at a kink), in updates,
// in the two numbers.
static const double low_all = 1.5, low_each = 4, low_kinks = 30;
static const double low_update = 0.5, low_scalar = 0.05;

static double relative(double a, double b)
{
    if (a == b)
        return 0;
    return fabs(a - b) / fmax(fabs(b), 1e-300);
}

// Whether a difference in the last bit may change where a gradient goes: ReLU at zero,
// max pooling at a tie. Such models need wider limits.
static bool has_kinks(const tt_graph *g)
{
    for (int32_t n = 0; n < g->n_nodes; n++)
        if (g->node[n].op == &tt_op_relu || g->node[n].op == &tt_op_max_pool)
            return true;
    return false;
}

static void set_limits(const tt_job *job, bool is_low, tt_verify_result *r)
{
    const bool kinks = has_kinks(job->graph);
    if (is_low) {
        r->tolerance = low_scalar;
        r->update_tolerance = kinks ? low_each : low_update;
        r->low_ratio_limit = low_all;
        r->low_each_limit = kinks ? low_kinks : low_each;
        return;
    }
    r->tolerance = kinks ? 1e-3 : 1e-5;
    if (job->options.precision == TT_PRECISION_FP64)
        r->tolerance = 1e-9;
    r->update_tolerance = r->tolerance;
}

// Differences grow from step to step, as training is chaotic. Only in fp64 are they
// still small after the second. Where updates do not wait for the pipe, a few more steps
// than stages see every version of the weights.
// There, gradients are on their way until the last.
static tt__verify_steps steps_of(const tt_verify_request *request)
{
    const bool is_fp64 = request->many->options.precision == TT_PRECISION_FP64;
    const int64_t stages = tt_job_endless_stages(request->many);
    const bool is_late = tt_job_is_late(request->many);
    const int64_t usual = stages > 0 ? stages + 3 : is_late ? 3 : 2;
    return (tt__verify_steps){.n = request->steps > 0 ? request->steps
                                   : is_fp64          ? usual
                                                      : 1,
                              .sees_last = stages > 0 || is_late};
}

// ---- who computed what is wrong ------------------------------------------

// Whether a rank's part of v contains global element `at`.
static bool holds(const tt_graph *g, tt_val v, int32_t rank, int64_t at)
{
    const tt__rank_part p = tt__rank_part_of(g, v, rank);
    for (int64_t i = 0; i < p.count; i++)
        if (tt_local_to_global(&p.local, i) == at)
            return true;
    return false;
}

// The rank that holds global element `at`, within the replica that `like` is a part
// of, or within the first.
static int32_t holder(const tt_graph *g, tt_val v, int32_t like, int64_t at)
{
    const int32_t group = like == TT_FIRST_COPY
                              ? tt__rank_part_first(g, v)
                              : tt__rank_part_group(g, v, like);
    for (int32_t r = tt_mesh_ranks(&g->mesh) - 1; r > 0; r--)
        if (tt__rank_part_group(g, v, r) == group && holds(g, v, r, at))
            return r;
    return 0;
}

// The node that computed a value. Collectives, sums over micro-batches, views and
// aliases only move a value or rename it, so the walk goes on through them.
static const tt_node *producer(const tt_graph *g, tt_val v)
{
    const tt_node *node = NULL;
    while (tt_is(v) && g->value[v.id].node >= 0) {
        node = &g->node[g->value[v.id].node];
        if ((node->op->flags & (TT_OP_COLLECTIVE | TT_OP_ACCUMULATE |
                                TT_OP_ALIAS | TT_OP_VIEW)) == 0)
            break;
        v = node->in[node->op == &tt_op_offer
                         ? 1
                         : 0]; // an offer's input 0 is the weight
    }
    return node;
}

// A state is named by the leaf that the graph reads. What a tensor holds after a step
// is the value that replaced it; that one has a producer.
static tt_val newest(const tt_graph *g, tt_val v)
{
    if (tt_role_is_state(g->value[v.id].role))
        for (int32_t i = 0; i < g->n_values; i++)
            if (g->value[i].updates.id == v.id)
                v = (tt_val){i};
    return v;
}

// Whether there is more than one replica of v.
static bool has_copies(const tt_graph *g, tt_val v)
{
    for (int32_t r = 1; r < tt_mesh_ranks(&g->mesh); r++)
        if (tt__rank_part_group(g, v, r) != TT__RANK_ABSENT &&
            tt__rank_part_group(g, v, r) != tt__rank_part_first(g, v))
            return true;
    return false;
}

// Fills in who computed the first wrong tensor, and on which rank it is furthest off.
static void accuse(const tt_job *many, const tt__taken *a, const tt__taken *b,
                   const tt__distance *d, tt_verify_result *r)
{
    const tt_tensor *t = &a->tensor[d->first];
    const tt_graph *g = many->graph;
    const tt_val v = newest(g, t->val);
    const tt_node *node = producer(g, v);
    const double *own = d->copy != NULL ? d->copy->data : a->data[d->first];
    const int64_t at = tt__verify_furthest(own, b->data[d->first], t->count);
    r->culprit = t->name;
    r->culprit_rel = d->first_rel;
    r->op = node != NULL ? node->op->name : "nothing";
    r->origin =
        node != NULL && node->origin[0] != '\0' ? node->origin : t->name;
    r->rank =
        holder(g, t->val, d->copy != NULL ? d->copy->rank : TT_FIRST_COPY, at);
    r->has_copies = d->copy == NULL && has_copies(g, t->val);
}

// ---- the comparison ------------------------------------------------------

typedef struct distances {
    tt__distance grads, states;
} distances;

// All distances but the low-precision ones. `exact` are the gradients in fp32; NULL
// where the job is not in a low precision. Bits are compared first, because
// tt__verify_level changes `many`.
static distances compare(const tt_job *job, tt__ran *many, const tt__ran *one,
                         const tt__taken *exact, tt_verify_result *r)
{
    r->bits_equal = many->loss == one->loss && many->norm == one->norm &&
                    tt__verify_equal(&many->grads, &one->grads) &&
                    tt__verify_equal(&many->states, &one->states);
    if (job->options.precision != TT_PRECISION_FP64)
        tt__verify_level(&one->grads, exact, &many->states, &one->states);
    const distances d = {
        tt__verify_compare(&many->grads, &one->grads, r->tolerance),
        tt__verify_compare(&many->states, &one->states, r->update_tolerance)};
    r->loss_rel = relative(many->loss, one->loss);
    if (!tt_job_is_late(job)) // which measures none: it would wait for all sums
        r->norm_rel = relative(many->norm, one->norm);
    r->grad_rel_max = d.grads.worst;
    r->update_rel_max = d.states.worst;
    r->worst_tensor = "";
    if (d.grads.at >= 0 && d.grads.worst >= d.states.worst)
        r->worst_tensor = many->grads.tensor[d.grads.at].name;
    else if (d.states.at >= 0)
        r->worst_tensor = many->states.tensor[d.states.at].name;
    return d;
}

// Low precisions: gradients are judged by their distance from fp32. When the sum over
// all gradients is too far off, the stricter limit finds a tensor to blame for it.
static tt__distance compare_low(const tt__ran *many, const tt__ran *one,
                                const tt__taken *exact, tt_verify_result *r)
{
    r->low_ratio = tt__verify_ratio(&many->grads, &one->grads, exact);
    const tt__distance d =
        tt__verify_low(&many->grads, &one->grads, exact,
                       r->low_ratio <= r->low_ratio_limit ? r->low_each_limit
                                                          : r->low_ratio_limit);
    r->low_each = d.worst;
    return d;
}

// Every tensor is right and yet a number is not: then the reduction of that number is
// wrong, on all ranks alike.
static void accuse_number(const tt_job *job, const char *name, double rel,
                          tt_verify_result *r)
{
    const tt_node *node =
        producer(job->graph, tt_graph_output_find(job->graph, name));
    r->culprit = name;
    r->culprit_rel = rel;
    r->op = node != NULL ? node->op->name : "nothing";
    r->origin = node != NULL ? node->origin : name;
    r->has_copies = true;
}

// In the order of cause and effect: gradients, then states, then the two numbers. The
// comparisons are negated so that NaN counts as beyond the limit.
static void blame(const tt_job *job, const tt__ran *many, const tt__ran *one,
                  const distances *d, tt_verify_result *r)
{
    const double most = r->tolerance;
    if (d->grads.first >= 0)
        accuse(job, &many->grads, &one->grads, &d->grads, r);
    else if (d->states.first >= 0)
        accuse(job, &many->states, &one->states, &d->states, r);
    else if (!(r->loss_rel <= most))
        accuse_number(job, "loss", r->loss_rel, r);
    else if (!(r->norm_rel <= most))
        accuse_number(job, "norm", r->norm_rel, r);
    r->ok = r->culprit == NULL;
}

static tt_status judge(const tt_verify_request *request, tt__ran *many,
                       tt_verify_result *r)
{
    const tt_job *job = request->many;
    const tt__verify_steps steps = steps_of(request);
    const tt__taken *exact = NULL;
    tt__ran one, fp32;
    TT_TRY(tt__verify_run(request->one, &steps, request->arena, &one));
    if (request->low != NULL) {
        TT_TRY(tt__verify_run(request->low, &steps, request->arena, &fp32));
        exact = &fp32.grads;
    }
    set_limits(job, exact != NULL, r);
    distances d = compare(job, many, &one, exact, r);
    if (exact != NULL)
        d.grads = compare_low(many, &one, exact, r);
    blame(job, many, &one, &d, r);
    return TT_OK;
}

tt_status tt_verify(const tt_verify_request *request,
                    tt_verify_result *result_out)
{
    const tt_peers *peers = &request->many->peers;
    tt__ran many;
    tt_status status = TT_OK;
    *result_out = (tt_verify_result){0};
    const tt__verify_steps steps = steps_of(request);
    TT_TRY(tt__verify_run(request->many, &steps, request->arena, &many));
    if (tt_peers_is_first(peers))
        status = judge(request, &many, result_out);
    TT_TRY(tt_peers_follow(peers, "verifying", status));
    TT_TRY(tt__verify_checkpoint(request, &result_out->checkpoint_ok));
    result_out->ok = result_out->ok && result_out->checkpoint_ok;
    result_out->bits_equal =
        result_out->bits_equal && result_out->checkpoint_ok;
    return TT_OK;
}
