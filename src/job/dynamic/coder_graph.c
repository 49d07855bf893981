// coder_graph - the plan of the coder: encoders and decoders of all tensors, which nodes are
// whose, and what crosses from one side to the other.
//
// The server's side is what the decoded tensor needs, up to nodes that encode; the worker's
// side what codes and new states need (a residual may need the decoder). What the server's
// side reads and does not make is sent.

#include "base/alloc.h"
#include "job/dynamic/coder_state.h"
#include "ops/gradops.h"
#include "ops/matmul.h"
#include "ops/ops.h"

#include <stdio.h>
#include <string.h>

// ---- the graph -----------------------------------------------------------

static tt_val add_state(tt_builder *b, tt__coder_part *p,
                        const tt_codec_state *s)
{
    const tt_val v =
        tt_state(b, TT_ROLE_OPTIM, s->name, s->dtype, &s->shape, s->init);
    p->state[p->n_states++] = v;
    return v;
}

static tt_status add_states(const tt_dynamic *d, tt_builder *b,
                            tt__coder_part *p, tt_coding *c)
{
    const tt_exchange *e = &d->job->exchange;
    const tt_type type = *tt_type_of(b, c->x);
    const tt_codec_state residual = {
        .name = "residual",
        .dtype = type.dtype,
        .shape = type.shape,
        .init = {.kind = TT_INIT_CONST, .of = TT_NONE}};
    tt_codec_state state[TT_CODEC_STATES];
    int n = 0;
    if (tt_exchange_has_feedback(e) && !c->def->is_lossless)
        c->residual = add_state(b, p, &residual);
    TT_TRY(tt_codec_states(c->def, c->params, &type, state, &n));
    for (int i = 0; i < n; i++)
        c->state[i] = add_state(b, p, &state[i]);
    return b->status;
}

static void update(tt_builder *b, tt_val state, tt_val now)
{
    if (tt_is(state) && tt_is(now) && now.id != state.id)
        tt_update(b, state, now);
}

static tt_status code(tt_builder *b, tt__coder_part *p, tt_coding *c)
{
    tt_val joined[TT_CODEC_CODES] = {TT_NONE, TT_NONE};
    p->first = b->graph->n_nodes;
    for (int round = 0; round < TT_CODEC_ROUNDS && !c->is_last; round++) {
        TT_TRY(tt_codec_encode(b, c, round == 0 ? NULL : joined));
        memcpy(joined, c->code, sizeof joined);
    }
    p->middle = b->graph->n_nodes;
    TT_TRY(tt_codec_decode(b, c, joined, &p->sum));
    p->end = b->graph->n_nodes;
    update(b, c->residual, c->residual_out);
    for (int i = 0; i < TT_CODEC_STATES; i++)
        update(b, c->state[i], c->state_out[i]);
    return b->status;
}

// Its states are the factors: what is sent, and all that there is.
static tt_status add_product(const tt_dynamic *d, tt_builder *b, int32_t i)
{
    const tt_init zero = {.kind = TT_INIT_CONST, .of = TT_NONE};
    const tt_matmul_grad_w_params plain = {false};
    tt__coder_part *p = &d->coder->part[i];
    tt_val factor[TT_ROWS_FACTORS];
    const int scope = tt_scope_push(b, "%d", i);
    for (int k = 0; k < TT_ROWS_FACTORS; k++) {
        const tt__coder_rows *rows = &p->factor[k];
        tt_shape shape = {0};
        TT_TRY(
            tt_shape_push(&shape, "row", rows->n * d->job->options.accumulate));
        TT_TRY(tt_shape_push(&shape, k == 0 ? "in" : "out", rows->width));
        factor[k] = tt_state(b, TT_ROLE_BUFFER, k == 0 ? "x" : "dy",
                             d->job->graph->value[rows->val.id].type.dtype,
                             &shape, zero);
    }
    tt_scope_pop(b, scope);
    p->first = p->middle = b->graph->n_nodes;
    p->sum =
        tt_call(b, &tt_op_matmul_grad_w, &plain, factor, TT_ROWS_FACTORS, NULL);
    p->end = b->graph->n_nodes;
    return b->status;
}

static tt_status add_part(const tt_dynamic *d, tt_builder *b, int32_t i)
{
    if (d->coder->part[i].is_product)
        return add_product(d, b, i);
    const tt_job *job = d->job;
    const tt_val weight = d->part[i].tensor.val;
    tt__coder_part *p = &d->coder->part[i];
    char name[TT_CODER_NAME];
    const tt_init zero = {.kind = TT_INIT_CONST, .of = TT_NONE};
    const int scope = tt_scope_push(b, "%d", i);
    p->x = tt_state(b, TT_ROLE_BUFFER, "x", d->all.is_wide ? TT_F64 : TT_F32,
                    &job->graph->value[weight.id].type.shape, zero);
    tt_coding c = {.def = tt_exchange_codec(&job->exchange),
                   .params = job->exchange.codec_params,
                   .x = p->x,
                   .residual = TT_NONE,
                   .state = {TT_NONE, TT_NONE},
                   .peers = 1};
    TT_TRY(b->status);
    TT_TRY(add_states(d, b, p, &c));
    tt_scope_pop(b, scope);
    snprintf(name, sizeof name, "seed.%d", i);
    c.seed = c.common_seed = tt_scalar(b, name, TT_I64);
    c.step = tt_scalar(b, "step", TT_I64);
    return code(b, p, &c);
}

// ---- who does what -------------------------------------------------------

static bool reads(const tt_node *node, int i)
{
    return tt_is(node->in[i]) &&
           (i >= 32 || (node->op->shape_only >> i & 1) == 0);
}

static bool makes(const tt_node *node, const bool *is_used)
{
    for (int i = 0; i < node->n_out; i++)
        if (is_used[node->out[i].id])
            return true;
    return false;
}

// From the last node to the first: those of [from, end) that are needed for what is used.
static void need(const tt_graph *g, const tt__coder_part *p, int32_t from,
                 bool *is_used, bool *is_needed)
{
    for (int32_t n = p->end - 1; n >= from; n--) {
        const tt_node *node = &g->node[n];
        is_needed[n] = makes(node, is_used);
        for (int i = 0; is_needed[n] && i < node->n_in; i++)
            if (tt_is(node->in[i]))
                is_used[node->in[i].id] = true;
    }
}

static tt_status add_sent(tt__coder_part *p, tt_val v)
{
    for (int i = 0; i < p->n_sent; i++)
        if (p->sent[i].id == v.id)
            return TT_OK;
    if (p->n_sent == TT_CODER_SENT)
        return tt_fail(TT_ERR_STATE, "a codec sends more than %d values",
                       TT_CODER_SENT);
    p->sent[p->n_sent++] = v;
    return TT_OK;
}

// What nodes of the server's side read that is made elsewhere.
static tt_status list_sent(const tt_graph *g, tt__coder_part *p,
                           const bool *is_needed)
{
    if (g->value[p->sum.id].node < p->middle)
        return add_sent(p, p->sum);
    for (int32_t n = p->middle; n < p->end; n++)
        for (int i = 0; is_needed[n] && i < g->node[n].n_in; i++) {
            const tt_node *node = &g->node[n];
            const tt_value *v =
                &g->value[tt_is(node->in[i]) ? node->in[i].id : 0];
            if (reads(node, i) && v->role != TT_ROLE_SCALAR &&
                (v->role != TT_ROLE_NODE || v->node < p->middle))
                TT_TRY(add_sent(p, node->in[i]));
        }
    return TT_OK;
}

// The nodes of one side of a tensor. What is sent is found on the way.
typedef struct sides {
    bool *is_used, *encodes, *decodes; // values, nodes, nodes
} sides;

static tt_status cut_part(const tt_dynamic *d, tt_builder *b, int32_t i,
                          const sides *s)
{
    const tt_graph *g = b->graph;
    tt__coder_part *p = &d->coder->part[i];
    char name[TT_CODER_NAME];
    memset(s->is_used, 0, (size_t)g->n_values);
    s->is_used[p->sum.id] = true;
    need(g, p, p->middle, s->is_used, s->decodes);
    TT_TRY(list_sent(g, p, s->decodes));
    memset(s->is_used, 0, (size_t)g->n_values);
    for (int k = 0; k < p->n_sent; k++) {
        s->is_used[p->sent[k].id] = true;
        snprintf(name, sizeof name, "sent.%d.%d", i, k);
        tt_output(b, name, p->sent[k]);
    }
    for (int32_t v = 0; v < g->n_values; v++)
        for (int k = 0; k < p->n_states; k++)
            if (g->value[v].updates.id == p->state[k].id)
                s->is_used[v] = true;
    need(g, p, p->first, s->is_used, s->encodes);
    snprintf(name, sizeof name, "sum.%d", i);
    tt_output(b, name, p->sum);
    return b->status;
}

static void list_steps(tt__coder *c, const sides *s)
{
    for (int32_t i = 0; i < c->plan->n_steps; i++) {
        const int32_t node = c->plan->step[i].node;
        c->encodes[i] = node < 0 || s->encodes[node];
        c->decodes[i] = node < 0 || s->decodes[node];
    }
}

static tt_status lower(tt_dynamic *d, tt_builder *b, const sides *s)
{
    tt__coder *c = d->coder;
    const tt_lower_options options = {.n_micro = 1};
    const tt_exec_options how = {0};
    TT_TRY(tt_builder_take(b, &c->graph));
    TT_TRY(
        tt_plan_lower(c->graph, &d->job->backend->target, &options, &c->plan));
    c->encodes = tt_alloc(c->plan->n_steps + 1);
    c->decodes = tt_alloc(c->plan->n_steps + 1);
    c->now = tt_alloc(c->plan->n_steps + 1);
    if (c->encodes == NULL || c->decodes == NULL || c->now == NULL)
        return tt__coder_no_memory();
    list_steps(c, s);
    TT_TRY(tt_exec_create(c->plan, d->job->backend, &how, &c->exec));
    return tt_exec_init_state(c->exec, (uint64_t)d->job->options.seed);
}

static tt_status cut(tt_dynamic *d, tt_builder *b)
{
    const tt_graph *g = b->graph;
    const sides s = {tt_alloc(g->n_values + 1), tt_alloc(g->n_nodes + 1),
                     tt_alloc(g->n_nodes + 1)};
    tt_status status =
        s.is_used != NULL && s.encodes != NULL && s.decodes != NULL
            ? TT_OK
            : tt__coder_no_memory();
    for (int32_t i = 0; i < d->n_parts && status == TT_OK; i++)
        if (tt__coder_has(d, i))
            status = cut_part(d, b, i, &s);
    if (status == TT_OK)
        status = lower(d, b, &s);
    tt_free(s.is_used);
    tt_free(s.encodes);
    tt_free(s.decodes);
    return status;
}

static tt_status build(tt_dynamic *d, tt_builder *b)
{
    b->phase = TT_UPDATE;
    b->origin = "codec";
    for (int32_t i = 0; i < d->n_parts; i++)
        if (tt__coder_has(d, i))
            TT_TRY(add_part(d, b, i));
    return cut(d, b);
}

tt_status tt__coder_plan(tt_dynamic *d)
{
    tt_builder b;
    TT_TRY(tt_builder_init(&b, &tt_grad_ops_default));
    const tt_status status = build(d, &b);
    tt_builder_fini(&b);
    return status;
}
