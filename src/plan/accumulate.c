// accumulate - sums over terms and over micro-batches, in a buffer that persists.
//
// The problem. A gradient is a sum of terms: one per use of the weight, in each
// micro-batch. Adding a term with a kernel of its own would read and write the whole
// gradient once more each time.
//
// The idea. The kernel that makes a term adds it to the sum. A matrix product does that
// for free (beta = 1), so lowering gives it the sum's buffer as its output.
//
//   micro-batch    0                1                2
//   dw = x' dy     writes  [ g ]    adds to  [ g ]   adds to  [ g ]     TT_ADD_AFTER_FIRST
//   second use     adds to [ g ]    adds to  [ g ]   adds to  [ g ]     TT_ADD
//
//   a term whose kernel can add      is added to the sum by that kernel; so is the only
//                                    term of a sum, which is just written there
//   any other term                   is added by a step of the sum's own operator
//
// The first term in running order starts the sum for micro-batch 0, so nobody clears the
// buffer.

#include "plan/lower.h"

static const tt_node *sum_node(const tt__lower *l, tt_val v)
{
    return &l->g->node[l->info[v.id].dest_of];
}

// The weight whose gradient is summed: given to the operator for its shape only.
static tt_val weight_of(const tt_node *node)
{
    return (node->op->shape_only & 1) != 0 ? node->in[0] : TT_NONE;
}

static bool same_dims(const tt_operand *a, const tt_operand *b)
{
    return a->dtype == b->dtype &&
           tt_shape_same_dims(&a->local.shape, &b->local.shape);
}

void tt__accumulate_wish(tt__lower *l, tt_val v, tt_operand *form)
{
    const tt_node *node = sum_node(l, v);
    const tt_ref *like = tt__home(l, node->out[0]);
    const tt_val weight = weight_of(node);
    if (like->buffer < 0 && tt_is(weight))
        like = tt__home(l, weight);
    if (like->buffer >= 0 && same_dims(form, &like->operand) && l->is_even)
        form->layout = like->operand.layout;
}

// The update runs once per step, and so does what comes after it: a sum that starts there
// starts anew.
static tt_accumulate mode_of(const tt__lower *l, bool is_first)
{
    if (!is_first)
        return TT_ADD;
    return l->phase >= TT_UPDATE ? TT_WRITE : TT_ADD_AFTER_FIRST;
}

// Whether this term will ever be added to what is there already.
static bool must_add(const tt__lower *l, tt_accumulate mode)
{
    return mode == TT_ADD ||
           (mode == TT_ADD_AFTER_FIRST && l->plan->n_micro > 1);
}

// Whether a term in this form can be added to a sum in that form; plain sums have
// no gaps.
static bool fits(const tt_operand *term, const tt_operand *sum)
{
    return term->layout == sum->layout &&
           (term->layout != 0 || tt_operand_is_dense(term));
}

// The sum's form when this term is its first. Where ranks have parts of different
// shapes their kernels may like different forms, and a sum over ranks needs one.
static tt_operand form_after(const tt__lower *l, const tt_node *node,
                             const tt_operand *term)
{
    tt_operand form = l->info[node->out[0].id].operand;
    if (same_dims(term, &form) && l->is_even)
        form.layout = term->layout;
    return form;
}

tt_status tt__accumulate_try(tt__lower *l, tt_val v, const tt_operand *form,
                             const tt_choice *choice, tt_accumulate *mode_out)
{
    const tt_node *node = sum_node(l, v);
    const bool is_first = tt__home(l, node->out[0])->buffer < 0;
    const bool is_main = l->g->value[v.id].slot == 0;
    const tt_accumulate mode = mode_of(l, is_first);
    if (!(choice->accumulates && is_main) && must_add(l, mode))
        return TT_OK;
    const tt_operand sum = is_first ? form_after(l, node, form)
                                    : tt__home(l, node->out[0])->operand;
    if (!fits(form, &sum))
        return TT_OK;
    if (is_first)
        TT_TRY(tt__home_make(l, node->out[0], &sum));
    tt_ref home = *tt__home(l, node->out[0]);
    home.operand = *form;
    tt__home_set(l, v, &home);
    l->info[v.id].is_summed = true;
    if (is_main)
        *mode_out = mode;
    return TT_OK;
}

// Collects what the operator's own step must add: shape-only inputs and the terms
// that are not in the sum yet. Returns whether there is such a term.
static bool collect(tt__lower *l, const tt_node *node, tt_val *in,
                    int *n_in_out)
{
    const int32_t sum = tt__home(l, node->out[0])->buffer;
    bool has_terms = false;
    int n = 0;
    for (int i = 0; i < node->n_in; i++) {
        const bool is_term = tt__is_read(node, i);
        if (is_term && sum >= 0 && tt__home(l, node->in[i])->buffer == sum)
            continue;
        has_terms |= is_term;
        in[n++] = node->in[i];
    }
    *n_in_out = n;
    return has_terms;
}

static tt_status make_sum(tt__lower *l, const tt_node *node, const tt_val *in)
{
    tt_ref first;
    const int i = tt_is(weight_of(node)) ? 1 : 0;
    TT_TRY(tt__home_read(l, in[i], &first));
    const tt_operand form = form_after(l, node, &first.operand);
    return tt__home_make(l, node->out[0], &form);
}

static tt_status bind(tt__lower *l, const tt_node *node, const tt_val *in,
                      const tt_site *site, tt_step *step)
{
    const tt_operand *sum = &l->ref[site->n_in].operand;
    if (!tt_operand_same_form(&site->out[0], sum))
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "%s: %s cannot add to a sum in this form", node->origin,
                       step->choice.name);
    if (!step->choice.accumulates && must_add(l, step->accumulate))
        return tt_fail(TT_ERR_UNSUPPORTED, "%s: %s cannot accumulate",
                       node->origin, step->choice.name);
    for (int i = 0; i < site->n_in; i++) {
        if (i == 0 && tt_is(weight_of(node)))
            l->ref[0] = (tt_ref){.buffer = -1, .operand = site->in[0]};
        else
            TT_TRY(tt__read_as(l, in[i], &site->in[i], &l->ref[i]));
    }
    return TT_OK;
}

static tt_status add_terms(tt__lower *l, const tt_node *node, const tt_val *in,
                           int n_in)
{
    const bool is_first = tt__home(l, node->out[0])->buffer < 0;
    if (is_first)
        TT_TRY(make_sum(l, node, in));
    const tt_ref sum = *tt__home(l, node->out[0]);
    tt_site site = {.op = node->op,
                    .params = node->params,
                    .origin = node->origin,
                    .n_in = n_in,
                    .n_out = 1,
                    .in = l->operand,
                    .out = l->operand + n_in};
    for (int i = 0; i < n_in; i++) {
        site.in[i] = l->info[in[i].id].operand;
        if (i > 0 || !tt_is(weight_of(node)))
            site.in[i].layout = sum.operand.layout;
    }
    site.out[0] = sum.operand;
    l->ref[n_in] = sum;
    tt_step step = {.node = (int32_t)(node - l->g->node),
                    .op = node->op,
                    .params = node->params,
                    .n_in = n_in,
                    .n_out = 1,
                    .in = l->ref,
                    .out = l->ref + n_in,
                    .accumulate = mode_of(l, is_first)};
    TT_TRY(tt__step_choose(l, &site, &step.choice));
    const tt_status status = bind(l, node, in, &site, &step);
    if (status != TT_OK) {
        l->target->release(l->target, step.choice.kernel);
        return status;
    }
    return tt__step_add(l, &step);
}

tt_status tt__lower_accumulate(tt__lower *l, const tt_node *node)
{
    int n_in = 0;
    tt_val *in = tt_arena_alloc(l->arena, node->n_in * (int64_t)sizeof(*in));
    if (in == NULL)
        return TT_ERR_NOMEM;
    if (!collect(l, node, in, &n_in))
        return TT_OK;
    return add_terms(l, node, in, n_in);
}
