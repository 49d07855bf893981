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

#include "base/alloc.h"
#include "ops/ops.h"
#include "pass/copy.h"
#include "pass/pass.h"

#include <string.h>

typedef struct work {
    const tt_graph *old;
    tt_builder b;
    tt__reads *reads;  // per old value
    bool *is_taken;    // per old node
    int32_t *group_of; // per old node: 1 + group; 0: none
    tt__fusion *group;
    int32_t n_groups;
    tt_val *kept; // per old value: the same in the new graph; TT_NONE: not yet
    tt_val *in;   // room for one node's inputs
} work;

// ---- looking -------------------------------------------------------------

static void count_reads(work *w)
{
    const tt_graph *g = w->old;
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
    const tt_graph *g = w->old;
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
    const tt__matcher m = {w->old, w->reads, w->is_taken};
    for (const tt__pattern *p = tt__patterns; p->match != NULL; p++) {
        if (!is_wanted(params, p))
            continue;
        for (int32_t n = 0; n < w->old->n_nodes; n++) {
            tt__fusion group = {0};
            p->match(&m, n, &group);
            if (group.op != NULL && is_in_order(w, &group))
                take(w, &group);
        }
    }
}

// ---- the new graph -------------------------------------------------------

static void read_inputs(work *w, const tt_val *in, int n)
{
    for (int i = 0; i < n; i++)
        w->in[i] = tt_is(in[i]) ? w->kept[in[i].id] : TT_NONE;
}

// A leaf, with the one that it is a copy of; a fused node may want it earlier than it
// stands in the old graph.
static tt_status keep_leaf(work *w, int32_t v)
{
    const tt_value *leaf = &w->old->value[v];
    if (tt_is(w->kept[v]))
        return TT_OK;
    if (leaf->init.kind == TT_INIT_COPY && tt_role_is_state(leaf->role))
        TT_TRY(keep_leaf(w, leaf->init.of.id));
    return tt__copy_leaf(&w->b, w->old, v, w->kept);
}

static tt_status do_group(work *w, const tt__fusion *group)
{
    tt_val out[TT_MAX_OUT];
    for (int i = 0; i < group->n_in; i++)
        if (tt_is(group->in[i]) && w->old->value[group->in[i].id].node < 0)
            TT_TRY(keep_leaf(w, group->in[i].id));
    read_inputs(w, group->in, group->n_in);
    const tt_node *like = &w->old->node[group->node[0]];
    TT_TRY(tt__copy_aim(&w->b, like->phase, like->stage, like->origin));
    (void)tt_call(&w->b, group->op, group->params, w->in, group->n_in, out);
    TT_TRY(w->b.status);
    for (int i = 0; i < group->n_out; i++) {
        if (!tt_is(group->out[i]))
            continue;
        w->kept[group->out[i].id] = out[i];
        tt__copy_places(&w->b, w->old, group->out[i].id, out[i]);
    }
    return TT_OK;
}

static tt_status do_node(work *w, int32_t n)
{
    const tt_node *node = &w->old->node[n];
    if (w->group_of[n] != 0) {
        const tt__fusion *group = &w->group[w->group_of[n] - 1];
        return n == group->at ? do_group(w, group) : TT_OK;
    }
    read_inputs(w, node->in, node->n_in);
    return tt__copy_node(&w->b, w->old, node, w->in, node->n_in, w->kept);
}

static tt_status rewrite(work *w)
{
    const tt_graph *old = w->old;
    for (int32_t v = 0; v < old->n_values; v++)
        w->kept[v] = TT_NONE;
    for (int32_t v = 0; v < old->n_values; v++) {
        const tt_value *value = &old->value[v];
        if (value->node < 0)
            TT_TRY(keep_leaf(w, v));
        else if (value->slot == 0)
            TT_TRY(do_node(w, value->node));
    }
    return tt__copy_ends(&w->b, old, w->kept);
}

static tt_status allocate(work *w)
{
    int64_t widest = TT__FUSE_IN;
    for (int32_t n = 0; n < w->old->n_nodes; n++)
        widest = w->old->node[n].n_in > widest ? w->old->node[n].n_in : widest;
    const int64_t values = w->old->n_values, nodes = w->old->n_nodes;
    w->reads = tt_alloc((int64_t)sizeof *w->reads * values);
    w->is_taken = tt_alloc(nodes);
    w->group_of = tt_alloc((int64_t)sizeof *w->group_of * nodes);
    w->group = tt_alloc((int64_t)sizeof *w->group * nodes);
    w->kept = tt_alloc((int64_t)sizeof *w->kept * values);
    w->in = tt_alloc((int64_t)sizeof *w->in * widest);
    return w->reads && w->is_taken && w->group_of && w->group && w->kept &&
                   w->in
               ? TT_OK
               : tt_fail(TT_ERR_NOMEM, "no memory to fuse");
}

static tt_status apply(const tt_graph *in, const void *params, tt_graph **out)
{
    static const tt_grad_ops none = {0};
    work w = {.old = in};
    TT_TRY(tt_builder_init(&w.b, &none));
    w.b.graph->mesh = in->mesh;
    tt_status status = allocate(&w);
    if (status == TT_OK) {
        count_reads(&w);
        look(&w, params);
        status = rewrite(&w);
    }
    if (status == TT_OK)
        status = tt_builder_take(&w.b, out);
    tt_builder_fini(&w.b);
    tt_free(w.reads);
    tt_free(w.is_taken);
    tt_free(w.group_of);
    tt_free(w.group);
    tt_free(w.kept);
    tt_free(w.in);
    return status;
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
