// verify - both runs, and what they say about each other.

#include "train/verify.h"

#include "ops/ops.h"
#include "train/parts.h"
#include "train/verify_parts.h"

#include <math.h>

static const double low_all = 1.5, low_each = 4, low_scalar = 0.01;

static double relative(double a, double b)
{
    if (a == b)
        return 0;
    return fabs(a - b) / fmax(fabs(b), 1e-300);
}

// Whether a difference in the last bit may send a gradient elsewhere.
static bool has_kinks(const tt_graph *g)
{
    for (int32_t n = 0; n < g->n_nodes; n++)
        if (g->node[n].op == &tt_op_relu || g->node[n].op == &tt_op_max_pool)
            return true;
    return false;
}

static double tolerance_of(const tt_job *job)
{
    if (job->options.precision == TT_PRECISION_FP64)
        return 1e-9;
    return has_kinks(job->graph) ? 1e-3 : 1e-5;
}

// Only in fp64 do small differences stay small for longer than a step.
static int64_t steps_of(const tt_verify_request *request)
{
    if (request->steps > 0)
        return request->steps;
    return request->many->options.precision == TT_PRECISION_FP64 ? 2 : 1;
}

// ---- who computed what is wrong ------------------------------------------

static bool holds(const tt_graph *g, tt_val v, int32_t rank, int64_t at)
{
    const tt__part p = tt__part_of(g, v, rank);
    for (int64_t i = 0; i < p.count; i++)
        if (tt_local_to_global(&p.local, i) == at)
            return true;
    return false;
}

// The rank that holds global element `at` of the copy that `like` holds a part of.
static int32_t holder(const tt_graph *g, tt_val v, int32_t like, int64_t at)
{
    const int32_t group = tt__part_group(g, v, like);
    for (int32_t r = tt_mesh_ranks(&g->mesh) - 1; r > 0; r--)
        if (tt__part_group(g, v, r) == group && holds(g, v, r, at))
            return r;
    return 0;
}

// What computed a value before it was sent around, added up and given other names.
static const tt_node *producer(const tt_graph *g, tt_val v)
{
    const tt_node *node = NULL;
    while (tt_is(v) && g->value[v.id].node >= 0) {
        node = &g->node[g->value[v.id].node];
        if ((node->op->flags & (TT_OP_COLLECTIVE | TT_OP_ACCUMULATE |
                                TT_OP_ALIAS | TT_OP_VIEW)) == 0)
            break;
        v = node->in[node->op == &tt_op_offer ? 1 : 0]; // behind the weight
    }
    return node;
}

// The value whose newest content a tensor has.
static tt_val newest(const tt_graph *g, tt_val v)
{
    if (tt_role_is_state(g->value[v.id].role))
        for (int32_t i = 0; i < g->n_values; i++)
            if (g->value[i].updates.id == v.id)
                v = (tt_val){i};
    return v;
}

static bool has_copies(const tt_graph *g, tt_val v)
{
    for (int32_t r = 1; r < tt_mesh_ranks(&g->mesh); r++)
        if (tt__part_group(g, v, r) != tt__part_group(g, v, 0))
            return true;
    return false;
}

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
    r->origin = node != NULL ? node->origin : t->name;
    r->rank = holder(g, t->val, d->copy != NULL ? d->copy->rank : 0, at);
    r->has_copies = d->copy == NULL && has_copies(g, t->val);
}

// ---- the comparison ------------------------------------------------------

static void compare(const tt_job *job, tt__ran *many, const tt__ran *one,
                    tt_verify_result *r)
{
    r->bits_equal = many->loss == one->loss && many->norm == one->norm &&
                    tt__verify_equal(&many->grads, &one->grads) &&
                    tt__verify_equal(&many->states, &one->states);
    if (job->options.precision != TT_PRECISION_FP64)
        tt__verify_level(&one->grads, &many->states, &one->states);
    const tt__distance grads =
        tt__verify_compare(&many->grads, &one->grads, r->tolerance);
    const tt__distance states =
        tt__verify_compare(&many->states, &one->states, r->tolerance);
    r->loss_rel = relative(many->loss, one->loss);
    r->norm_rel = relative(many->norm, one->norm);
    r->grad_rel_max = grads.worst;
    r->update_rel_max = states.worst;
    r->worst_tensor = "";
    if (grads.at >= 0 && grads.worst >= states.worst)
        r->worst_tensor = many->grads.tensor[grads.at].name;
    else if (states.at >= 0)
        r->worst_tensor = many->states.tensor[states.at].name;
    if (grads.first >= 0)
        accuse(job, &many->grads, &one->grads, &grads, r);
    else if (states.first >= 0)
        accuse(job, &many->states, &one->states, &states, r);
}

// Low precisions: as close to fp32 as one rank is, all gradients together, and each
// of them by a measure that allows for few elements. Loss and norm are single numbers,
// which may be close to fp32 by chance: they must be close to each other.
static tt_status compare_low(const tt_verify_request *request,
                             const tt__ran *many, const tt__ran *one,
                             tt_verify_result *r)
{
    tt__ran fp32;
    TT_TRY(
        tt__verify_run(request->low, steps_of(request), request->arena, &fp32));
    r->low_ratio = tt__verify_ratio(&many->grads, &one->grads, &fp32.grads);
    const tt__distance grads =
        tt__verify_low(&many->grads, &one->grads, &fp32.grads, low_each);
    const tt__distance states =
        tt__verify_low(&many->states, &one->states, &fp32.states, low_each);
    r->low_each = fmax(grads.worst, states.worst);
    r->culprit = NULL;
    if (grads.first >= 0)
        accuse(request->many, &many->grads, &fp32.grads, &grads, r);
    else if (states.first >= 0)
        accuse(request->many, &many->states, &fp32.states, &states, r);
    r->ok = r->low_ratio <= low_all && r->culprit == NULL &&
            r->loss_rel <= low_scalar && r->norm_rel <= low_scalar;
    return TT_OK;
}

static tt_status judge(const tt_verify_request *request, tt__ran *many,
                       tt_verify_result *r)
{
    tt__ran one;
    TT_TRY(
        tt__verify_run(request->one, steps_of(request), request->arena, &one));
    r->tolerance = tolerance_of(request->many);
    compare(request->many, many, &one, r);
    if (request->low != NULL)
        return compare_low(request, many, &one, r);
    r->ok = r->culprit == NULL && r->loss_rel <= r->tolerance &&
            r->norm_rel <= r->tolerance;
    return TT_OK;
}

tt_status tt_verify(const tt_verify_request *request,
                    tt_verify_result *result_out)
{
    const tt_peers *peers = &request->many->peers;
    tt__ran many;
    tt_status status = TT_OK;
    *result_out = (tt_verify_result){0};
    TT_TRY(tt__verify_run(request->many, steps_of(request), request->arena,
                          &many));
    if (tt_peers_is_first(peers))
        status = judge(request, &many, result_out);
    TT_TRY(tt_peers_follow(peers, "verifying", status));
    TT_TRY(tt__verify_checkpoint(request, &result_out->checkpoint_ok));
    result_out->ok = result_out->ok && result_out->checkpoint_ok;
    result_out->bits_equal =
        result_out->bits_equal && result_out->checkpoint_ok;
    return TT_OK;
}
