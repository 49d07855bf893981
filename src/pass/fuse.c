// fuse - several nodes become one where a device has a kernel that does their work in
// one pass over memory.
//
//   norm   layer_norm_grad_x, layer_norm_grad_w, add,  ->  norm_grad
//          bias_grad of the sum
//   loss   cross_entropy, its gradient, correct        ->  cross_entropy_step
//   add    matmul, add                                 ->  matmul_add
//          matmul_fp8, add                             ->  matmul_fp8
//   gelu   matmul, gelu_grad                           ->  matmul_gelu_grad
//   bias   matmul_grad_w, bias_grad                    ->  matmul_grad_both
//   pack   gelu_grad, fp8_pack, bias_grad              ->  fp8_pack_grad
//   relu   conv, relu                                  ->  conv_relu
//   images conv_grad_x, add                            ->  conv_grad_x_add
//   masks  relu_grad, conv_grad_b                      ->  relu_grad_bias
//
//   same      up to rounding: sums that were rounded between two nodes are not
//   bytes     what lay between the nodes is neither written nor read
//   needs     nobody who cuts the graph afterwards: fused operators have no signatures

#include "pass/fuse.h"

#include "ops/ops.h"
#include "pass/copy.h"
#include "pass/pass.h"

#include <string.h>

typedef struct work {
    tt__rewrite r;
    tt__reads *reads;  // per old value
    bool *is_taken;    // per old node
    int32_t *group_of; // per old node: 1 + group; 0: none
    tt__fusion *group;
    int32_t n_groups;
} work;

// ---- looking -------------------------------------------------------------

static void count_reads(work *w)
{
    const tt_graph *g = w->r.old;
    for (int32_t v = 0; v < g->n_values; v++)
        w->reads[v] = (tt__reads){0, -1, -1};
    for (int32_t n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->node[n].n_in; i++) {
            if (!tt_is(g->node[n].in[i]))
                continue;
            tt__reads *r = &w->reads[g->node[n].in[i].id];
            r->first = r->n++ == 0 ? n : r->first;
            r->last = n;
        }
    for (int32_t o = 0; o < g->n_outputs; o++)
        w->reads[g->output[o].val.id].n++;
    for (int32_t v = 0; v < g->n_values; v++) {
        if (tt_is(g->value[v].grad))
            w->reads[g->value[v].grad.id].n++;
        if (tt_is(g->value[v].updates))
            w->reads[v].n++;
    }
}

static bool is_member(const tt__fusion *group, int32_t n)
{
    for (int i = 0; i < group->n_nodes; i++)
        if (group->node[i] == n)
            return true;
    return false;
}

// Whether the new node can stand where the group says: after all nodes that it reads
// from, and before all that read its results.
static bool is_in_order(const work *w, const tt__fusion *group)
{
    const tt_graph *g = w->r.old;
    for (int i = group->n_in - 1; i >= 0; i--)
        if (tt_is(group->in[i]) && g->value[group->in[i].id].node >= group->at)
            return false;
    for (int i = 0; i < group->n_out; i++) {
        const tt__reads *r =
            tt_is(group->out[i]) ? &w->reads[group->out[i].id] : NULL;
        for (int32_t n = r == NULL || r->n == 0 ? group->at : r->first;
             n >= 0 && n < group->at; n++)
            for (int k = 0; k < g->node[n].n_in; k++)
                if (g->node[n].in[k].id == group->out[i].id &&
                    !is_member(group, n))
                    return false;
    }
    return true;
}

static void take(work *w, const tt__fusion *group)
{
    w->group[w->n_groups++] = *group;
    for (int i = 0; i < group->n_nodes; i++) {
        w->is_taken[group->node[i]] = true;
        w->group_of[group->node[i]] = w->n_groups;
    }
}

static bool is_wanted(const tt_fuse_params *params, const tt__pattern *pattern)
{
    return params->wants == NULL || params->wants(params->user, pattern->op);
}

bool tt_fuse_wants_any(const tt_fuse_params *params)
{
    for (const tt__pattern *p = tt__patterns; p->match != NULL; p++)
        if (is_wanted(params, p))
            return true;
    return false;
}

static void look(work *w, const tt_fuse_params *params)
{
    const tt__matcher m = {w->r.old, w->reads, w->is_taken};
    for (const tt__pattern *p = tt__patterns; p->match != NULL; p++) {
        if (!is_wanted(params, p))
            continue;
        for (int32_t n = 0; n < w->r.old->n_nodes; n++) {
            tt__fusion group = {0};
            p->match(&m, n, &group);
            if (group.op != NULL && is_in_order(w, &group))
                take(w, &group);
        }
    }
}

// ---- the new graph -------------------------------------------------------

// A leaf, with the one that it is a copy of; a fused node may want it earlier than it
// stands in the old graph.
static tt_status keep_leaf(work *w, int32_t v)
{
    const tt_value *leaf = &w->r.old->value[v];
    if (tt_is(w->r.kept[v]))
        return TT_OK;
    if (leaf->init.kind == TT_INIT_COPY && tt_role_is_state(leaf->role))
        TT_TRY(keep_leaf(w, leaf->init.of.id));
    return tt__copy_leaf(&w->r.b, w->r.old, v, w->r.kept);
}

static tt_status do_group(work *w, const tt__fusion *group)
{
    tt_val out[TT_MAX_OUT];
    for (int i = 0; i < group->n_in; i++)
        if (tt_is(group->in[i]) && w->r.old->value[group->in[i].id].node < 0)
            TT_TRY(keep_leaf(w, group->in[i].id));
    tt__rewrite_inputs(&w->r, group->in, group->n_in);
    const tt_node *like = &w->r.old->node[group->node[0]];
    TT_TRY(tt__copy_aim(&w->r.b, like->phase, like->stage, like->origin));
    (void)tt_call(&w->r.b, group->op, group->params, w->r.in, group->n_in, out);
    TT_TRY(w->r.b.status);
    for (int i = 0; i < group->n_out; i++) {
        if (!tt_is(group->out[i]))
            continue;
        w->r.kept[group->out[i].id] = out[i];
        tt__copy_places(&w->r.b, w->r.old, group->out[i].id, out[i]);
    }
    return TT_OK;
}

static tt_status do_node(void *pass, int32_t n)
{
    work *w = pass;
    const tt_node *node = &w->r.old->node[n];
    if (w->group_of[n] != 0) {
        const tt__fusion *group = &w->group[w->group_of[n] - 1];
        return n == group->at ? do_group(w, group) : TT_OK;
    }
    tt__rewrite_inputs(&w->r, node->in, node->n_in);
    return tt__copy_node(&w->r.b, w->r.old, node, w->r.in, node->n_in,
                         w->r.kept);
}

static tt_status rewrite(work *w, const tt_fuse_params *params)
{
    TT_TRY(w->r.b.status);
    count_reads(w);
    look(w, params);
    TT_TRY(tt__rewrite_nodes(&w->r, w, do_node));
    return tt__copy_ends(&w->r.b, w->r.old, w->r.kept);
}

static tt_status apply(const tt_graph *in, const void *params, tt_graph **out)
{
    const int64_t nodes = in->n_nodes;
    work w = {0};
    TT_TRY(tt__rewrite_begin(&w.r, in, TT__FUSE_IN));
    w.reads = tt__rewrite_array(&w.r, in->n_values, sizeof *w.reads);
    w.is_taken = tt__rewrite_array(&w.r, nodes, sizeof *w.is_taken);
    w.group_of = tt__rewrite_array(&w.r, nodes, sizeof *w.group_of);
    w.group = tt__rewrite_array(&w.r, nodes, sizeof *w.group);
    return tt__rewrite_end(&w.r, rewrite(&w, params), out);
}

static const tt_opt options[] = {{0}}; // the device decides

static const char *const samples[] = {"", NULL};

const tt_pass_def tt_pass_fuse = {
    .name = "fuse",
    .doc = "Several nodes become one where a device has a kernel for it.",
    .options = options,
    .params_bytes = sizeof(tt_fuse_params),
    .apply = apply,
    .samples = samples,
};
