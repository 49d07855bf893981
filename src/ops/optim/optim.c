// optim - emits the update of a whole model.
//
//   g of every param -> sum_squares -> total -> clip -> scale
//   loss, count, norm, limit -> guard -> skip
//   loss, norm -> loss_scale
//   (w, g, lr, scale, step, skip, states) -> optimiser -> agree -> new w -> ema
//
// The gradients that arrive here are sums over samples, not means. `scale` does three
// things in one factor: it divides by the count, undoes the loss scale and clips. So
// no extra pass over the gradients is needed; the optimiser multiplies where it reads.
// `skip` works in the same way: an update that must be left out is still run and keeps
// all values, so the plan is the same for every step.
//
// The norm costs a pass over all gradients, so it is there only when something uses it.
// Exact norms are sums in bins (bins.c).

#include "ops/optim/optim.h"

#include "base/alloc.h"
#include "ops/arith.h"
#include "ops/bins.h"
#include "ops/comm/exchange_points.h"
#include "ops/ops.h"
#include "ops/optim/clip.h"

#include <string.h>

tt_val tt_optim_squares(tt_builder *b, const tt_optim_node *node, tt_val x)
{
    return node->is_exact ? tt_bins_value(b, tt_square_bins(b, x), b->master)
                          : tt_sum_squares(b, x);
}

// ---- the update of a model -----------------------------------------------

static bool has_gradient(const tt_value *value)
{
    return value->role == TT_ROLE_PARAM && tt_is(value->grad);
}

// The pipeline stage that computes a gradient. The parameter's update runs there too,
// so that no gradient is sent to another stage.
static int32_t gradient_stage(const tt_graph *g, tt_val grad)
{
    const int32_t node = g->value[grad.id].node;
    return node < 0 ? 0 : g->node[node].stage;
}

// The 16-bit copy of a parameter that kernels read, if there is one. The optimiser
// writes it together with the master weight, in the same pass.
static tt_val find_work(const tt_graph *g, int32_t param, int32_t n_values)
{
    for (int32_t i = 0; i < n_values; i++)
        if (g->value[i].role == TT_ROLE_WORK && g->value[i].init.of.id == param)
            return (tt_val){i};
    return TT_NONE;
}

// What the updates of all params share.
typedef struct shared {
    const tt_optim_use *use;
    int32_t n_values; // before the update
    int32_t stage;    // whose params they are; -1: all
    tt_val count;     // that sums of gradients are divided by
    tt_val scale, norm, skip;
} shared;

static bool is_shared_by(const tt_graph *g, const shared *s,
                         const tt_value *value)
{
    return has_gradient(value) &&
           (s->stage < 0 || gradient_stage(g, value->grad) == s->stage);
}

static void output_norm(tt_builder *b, const shared *s)
{
    const char *name =
        s->stage < 0 ? "norm"
                     : tt_arena_printf(b->graph->arena, "norm.%d", s->stage);
    if (name == NULL)
        tt_builder_fail(b, TT_ERR_NOMEM);
    else
        tt_output(b, name, s->norm);
}

// Emits the norm, where something needs it, and the factor on all gradients.
static tt_val emit_scale(tt_builder *b, shared *s)
{
    const tt_optim_use *use = s->use;
    tt_val *norm = &s->norm;
    *norm = TT_NONE;
    s->count = s->stage >= 0         ? use->stage_count[s->stage]
               : use->has_loss_scale ? tt_mul(b, use->count, use->loss_scale)
                                     : use->count;
    if (use->clip <= 0 && !use->wants_norm && !use->guard)
        return tt_clip(b, TT_NONE, s->count, 0, norm);
    tt_val *square = tt_alloc((int64_t)sizeof(tt_val) * (s->n_values + 1));
    if (square == NULL)
        return tt_builder_fail(
            b, tt_fail(TT_ERR_NOMEM, "no memory for the optimiser"));
    const int32_t stage = b->stage;
    int n = 0;
    for (int32_t i = 0; i < s->n_values; i++) {
        const tt_value value = b->graph->value[i];
        if (!is_shared_by(b->graph, s, &value))
            continue;
        b->origin = value.name;
        b->stage = gradient_stage(b->graph, value.grad);
        square[n++] = use->exact ? tt_square_bins(b, value.grad)
                                 : tt_sum_squares(b, value.grad);
    }
    b->origin = "norm";
    b->stage = stage;
    const tt_val total =
        use->exact ? tt_bins_value(b, tt_bins_total(b, square, n), b->master)
                   : tt_total(b, square, n);
    tt_free(square);
    const tt_val scale = tt_clip(b, total, s->count, use->clip, norm);
    output_norm(b, s);
    return scale;
}

static tt_val emit_skip(tt_builder *b, const shared *s)
{
    const tt_val asked = tt_scalar(b, "skip", TT_U8);
    if (!s->use->guard)
        return asked;
    const tt_val in[TT_GUARD_N] = {[TT_GUARD_SKIP] = asked,
                                   [TT_GUARD_NORM] = s->norm,
                                   [TT_GUARD_LOSS] = s->use->loss,
                                   [TT_GUARD_COUNT] = s->use->count,
                                   [TT_GUARD_LIMIT] =
                                       tt_scalar(b, "limit", b->master)};
    const tt_val skip = tt_guard(b, in);
    tt_output(b, "skipped", skip);
    return skip;
}

static void update_loss_scale(tt_builder *b, const shared *s)
{
    const tt_optim_use *use = s->use;
    const tt_val in[TT_LS_N] = {[TT_LS_SCALE] = use->loss_scale,
                                [TT_LS_GOOD] = use->good_steps,
                                [TT_LS_LOSS] = use->loss,
                                [TT_LS_NORM] = s->norm};
    tt_output(b, "loss_scale", tt_loss_scale(b, &use->scaling, in));
}

static void add_states(tt_builder *b, const tt_value *param,
                       tt_optim_node *node)
{
    for (int i = 0; i < node->def->n_state; i++) {
        const char *name = tt_arena_printf(b->graph->arena, "%s.%s",
                                           param->name, node->def->state[i]);
        if (name == NULL) {
            tt_builder_fail(b, TT_ERR_NOMEM);
            return;
        }
        const tt_init init = {
            .kind = TT_INIT_CONST, .a = node->params.initial, .of = TT_NONE};
        node->in[TT_OPTIM_STATE + i] = tt_state(
            b, TT_ROLE_OPTIM, name, b->master, &param->type.shape, init);
    }
}

// The learning rate of one param.
static tt_val emit_rate(tt_builder *b, const tt_optim_use *use,
                        const char *name)
{
    const tt_val lr = tt_scalar(b, "lr", b->master);
    const double factor = use->rate != NULL ? use->rate(name, use->user) : 1;
    return factor == 1 ? lr : tt_scale(b, lr, factor);
}

static void update_average(tt_builder *b, const shared *s, int32_t id, tt_val w)
{
    const tt_value param = b->graph->value[id];
    const char *name = tt_arena_printf(b->graph->arena, "%s.ema", param.name);
    if (name == NULL) {
        tt_builder_fail(b, TT_ERR_NOMEM);
        return;
    }
    const tt_val average =
        tt_state(b, TT_ROLE_EMA, name, b->master, &param.type.shape,
                 (tt_init){.kind = TT_INIT_COPY, .of = {id}});
    const tt_ema_params params = {.decay = s->use->ema};
    tt_update(b, average,
              tt_call(b, &tt_op_ema, &params, (tt_val[]){average, w, s->skip},
                      3, NULL));
}

static void update_param(tt_builder *b, const shared *s, int32_t id)
{
    const tt_optim_use *use = s->use;
    const tt_value param = b->graph->value[id]; // a copy: the array may move
    const tt_val work = find_work(b->graph, id, s->n_values);
    const bool is_decayed =
        use->is_decayed != NULL
            ? use->is_decayed(param.name, &param.type.shape, use->user)
            : param.type.shape.ndim >= 2;
    b->origin = param.name;
    b->stage = gradient_stage(b->graph, param.grad);
    tt_optim_node node = {
        .def = use->def,
        .params = use->params,
        .is_exact = use->exact,
        .in = {{id},
               param.grad,
               emit_rate(b, use, param.name),
               s->scale,
               tt_scalar(b, "step", TT_I64),
               s->skip},
    };
    if (use->stage_momentum != NULL && s->stage >= 0)
        node.params.momentum = use->stage_momentum[s->stage];
    if (!is_decayed) {
        node.params.weight_decay = 0;
        node.params.adapt = false;
    }
    if (tt_is(work))
        node.params.low =
            tt_type_of(b, work)->dtype == TT_BF16 ? TT_LOW_BF16 : TT_LOW_F16;
    add_states(b, &param, &node);
    use->def->emit(b, &node);
    const tt_val w = tt_agree(b, node.w);
    tt_update(b, (tt_val){id}, w);
    for (int i = 0; i < use->def->n_state; i++)
        tt_update(b, node.in[TT_OPTIM_STATE + i], node.state[i]);
    if (tt_is(work))
        tt_update(b, work, tt_agree(b, node.low));
    if (use->ema > 0)
        update_average(b, s, id, w);
}

static tt_status check_use(const tt_builder *b, const tt_optim_use *use)
{
    TT_TRY(tt_builder_status(b));
    if (!tt_is(use->count) && use->n_stages == 0)
        return tt_fail(TT_ERR_ARG, "%s: the loss has no count", use->def->name);
    if (use->params.low != TT_LOW_NONE)
        return tt_fail(TT_ERR_ARG,
                       "%s: low follows from the precision and cannot be set",
                       use->def->name);
    for (int32_t i = 0; i < b->graph->n_values; i++)
        if (has_gradient(&b->graph->value[i]))
            return TT_OK;
    return tt_fail(TT_ERR_ARG, "%s: no parameter has a gradient",
                   use->def->name);
}

static bool has_params(const tt_builder *b, const shared *s)
{
    for (int32_t i = 0; i < s->n_values; i++)
        if (is_shared_by(b->graph, s, &b->graph->value[i]))
            return true;
    return false;
}

static void update_all(tt_builder *b, shared *s)
{
    if (!has_params(b, s))
        return;
    b->origin = "scale";
    b->stage = s->stage >= 0 ? s->stage : b->stage;
    s->scale = emit_scale(b, s);
    s->skip = emit_skip(b, s);
    if (s->use->has_loss_scale && s->use->guard)
        update_loss_scale(b, s);
    for (int32_t i = 0; i < s->n_values; i++)
        if (is_shared_by(b->graph, s, &b->graph->value[i]))
            update_param(b, s, i);
}

tt_status tt_optim_apply(tt_builder *b, const tt_optim_use *use)
{
    TT_TRY(check_use(b, use));
    const tt_builder before = *b; // scope, origin, phase and stage
    shared s = {.use = use, .n_values = b->graph->n_values, .stage = -1};
    b->phase = TT_UPDATE;
    tt_scope_pop(b, 0);
    if (use->n_stages == 0)
        update_all(b, &s);
    for (s.stage = 0; s.stage < use->n_stages; s.stage++)
        update_all(b, &s);
    memcpy(b->scope, before.scope, sizeof(b->scope));
    b->origin = before.origin;
    b->phase = before.phase;
    b->stage = before.stage;
    return tt_builder_status(b);
}
