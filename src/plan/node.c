// node - one node in the general way: shows the target how its operands lie, makes
// the conversions that the chosen kernel asks for, gives every output a place.

#include "ops/ops.h"
#include "plan/lower.h"

#include <string.h>

static void set_form(tt_operand *o, const tt_operand *form)
{
    o->layout = form->layout;
    memcpy(o->stride, form->stride, sizeof(o->stride));
}

static bool is_state(const tt__lower *l, tt_val v)
{
    return tt_role_is_state(l->g->value[l->info[v.id].root].role);
}

// ---- inputs --------------------------------------------------------------

static tt_status show_input(tt__lower *l, const tt_node *node, int i,
                            tt_operand *o)
{
    if (!tt_is(node->in[i])) {
        *o = (tt_operand){.dtype = TT_N_DTYPES};
        return TT_OK;
    }
    *o = l->info[node->in[i].id].operand;
    if (!tt__is_read(node, i))
        return TT_OK;
    if (tt__home(l, node->in[i])->buffer < 0 && is_state(l, node->in[i]))
        return TT_OK; // the kernel chooses the layout
    tt_ref home;
    TT_TRY(tt__home_read(l, node->in[i], &home));
    set_form(o, &home.operand);
    return TT_OK;
}

// Whether a state may be stored like this: no gaps.
static bool is_storable(const tt__lower *l, const tt_operand *form)
{
    return form->layout != 0 ||
           tt_target_bytes(l->target, form) ==
               tt_operand_count(form) * tt_dtype_bytes(form->dtype);
}

tt_status tt__read_as(tt__lower *l, tt_val v, const tt_operand *form,
                      tt_ref *ref_out)
{
    tt_ref home;
    if (tt__home(l, v)->buffer < 0 && is_state(l, v) && is_storable(l, form))
        TT_TRY(tt__home_make(l, v, form));
    TT_TRY(tt__home_read(l, v, &home));
    home.operand.local = form->local;
    if (!tt_operand_same_form(&home.operand, form))
        return tt__convert(l, &home, form, ref_out);
    *ref_out = home;
    return TT_OK;
}

// The wire knows one address of an operand, and weights may have several versions, each
// with its own: a collective reads a copy.
static tt_status copy_version(tt__lower *l, const tt_node *node, tt_ref *ref)
{
    const tt_buffer *weight = &l->plan->buffer[ref->buffer];
    const tt_buffer copy = {.name = weight->name,
                            .class_ = TT_SCRATCH,
                            .use = TT_USE_SCRATCH,
                            .bytes = weight->bytes};
    tt_ref to = *ref;
    if (!l->is_endless || node->phase == TT_UPDATE ||
        (node->op->flags & TT_OP_COLLECTIVE) == 0 ||
        weight->class_ != TT_PERSISTENT || weight->use != TT_USE_PARAM)
        return TT_OK;
    TT_TRY(tt__buffer_add(l, &copy, &to.buffer));
    TT_TRY(tt__convert_into(l, ref, &to));
    *ref = to;
    return TT_OK;
}

static tt_status bind_inputs(tt__lower *l, const tt_node *node,
                             const tt_site *site)
{
    for (int i = 0; i < node->n_in; i++) {
        if (!tt__is_read(node, i)) {
            l->ref[i] = (tt_ref){.buffer = -1, .operand = site->in[i]};
            continue;
        }
        TT_TRY(tt__read_as(l, node->in[i], &site->in[i], &l->ref[i]));
        TT_TRY(copy_version(l, node, &l->ref[i]));
    }
    return TT_OK;
}

// ---- outputs -------------------------------------------------------------

static tt_status make_concat(tt__lower *l, const tt_node *concat)
{
    const tt_val v = concat->out[0];
    return tt__home(l, v)->buffer >= 0
               ? TT_OK
               : tt__home_make(l, v, &l->info[v.id].operand);
}

static void show_output(tt__lower *l, tt_val v, tt_operand *o)
{
    const tt__info *info = &l->info[v.id];
    *o = info->operand;
    if (info->dest == TT__DEST_STATE) {
        const tt_ref *home = tt__home(l, (tt_val){info->dest_of});
        if (home->buffer >= 0)
            set_form(o, &home->operand);
    } else if (info->dest == TT__DEST_PART) {
        tt_ref part;
        if (tt__concat_part(l, &l->g->node[info->dest_of], info->dest_slot, v,
                            &part))
            set_form(o, &part.operand);
    } else if (info->dest == TT__DEST_BLOCK) {
        tt_ref block;
        if (tt__state_block(l, v, &block))
            set_form(o, &block.operand);
    } else if (info->dest == TT__DEST_SUM) {
        tt__accumulate_wish(l, v, o);
    }
}

// Whether it has a place that is not a buffer of its own.
static bool has_place(tt__lower *l, tt_val v)
{
    const tt__dest dest = l->info[v.id].dest;
    tt_ref block;
    return dest == TT__DEST_STATE || dest == TT__DEST_PART ||
           (dest == TT__DEST_BLOCK && tt__state_block(l, v, &block));
}

// A sum over micro-batches that the update sums over ranks. The next step starts it from
// zero, so the collective may overwrite it.
static bool is_spent_sum(const tt__lower *l, const tt_node *node)
{
    if (!tt_is(node->in[0]))
        return false;
    const int32_t from = l->g->value[l->info[node->in[0].id].root].node;
    return (node->op->flags & TT_OP_COLLECTIVE) != 0 &&
           node->phase == TT_UPDATE && from >= 0 &&
           (l->g->node[from].op->flags & TT_OP_ACCUMULATE) != 0;
}

// Output 0 may overwrite input 0 if that is not read later, nothing else in its buffer
// is, and both fill the buffer in the same form.
static bool can_overwrite(const tt__lower *l, const tt_node *node,
                          const tt_site *site, const tt_choice *choice)
{
    if (node->n_in == 0 || !tt__is_read(node, 0) ||
        !(choice->in_place || (node->op->flags & TT_OP_INPLACE) != 0))
        return false;
    const tt_ref *in = &l->ref[0];
    const tt_buffer *buffer = &l->plan->buffer[in->buffer];
    if ((buffer->class_ == TT_PERSISTENT && !is_spent_sum(l, node)) ||
        in->offset != 0 ||
        buffer->bytes != tt_target_bytes(l->target, &site->out[0]) ||
        buffer->use == TT_USE_SCRATCH ||
        l->buffer[in->buffer].needed > l->position)
        return false;
    for (int i = 1; i < node->n_in; i++)
        if (l->ref[i].buffer == in->buffer)
            return false;
    tt_operand same = site->out[0];
    same.local = in->operand.local;
    return tt_shape_same_dims(&in->operand.local.shape,
                              &site->out[0].local.shape) &&
           tt_operand_same_form(&in->operand, &same);
}

// The rank's block of a sum over ranks lies where its terms were.
static bool can_scatter(const tt__lower *l, const tt_node *node,
                        const tt_site *site, tt_ref *block_out)
{
    const tt_ref *in = &l->ref[0];
    return node->op == &tt_op_reduce_scatter && is_spent_sum(l, node) &&
           l->plan->buffer[in->buffer].use != TT_USE_SCRATCH &&
           l->buffer[in->buffer].needed <= l->position &&
           tt__block_in(l, in, &site->out[0], block_out) &&
           tt_operand_same_form(&block_out->operand, &site->out[0]);
}

static tt_status bind_temporary(tt__lower *l, tt_val v, const tt_operand *form,
                                tt_ref *ref_out)
{
    const tt_buffer buffer = {.name = l->g->value[v.id].name,
                              .class_ = TT_SCRATCH,
                              .use = TT_USE_SCRATCH,
                              .bytes = tt_target_bytes(l->target, form)};
    *ref_out = (tt_ref){.operand = *form};
    return tt__buffer_add(l, &buffer, &ref_out->buffer);
}

// Its final place, when that is not a buffer of its own.
static tt_status find_final(tt__lower *l, tt_val v, const tt_operand *form,
                            tt_ref *final_out)
{
    const tt__info *info = &l->info[v.id];
    if (info->dest == TT__DEST_PART) {
        const tt_node *concat = &l->g->node[info->dest_of];
        TT_TRY(make_concat(l, concat));
        (void)tt__concat_part(l, concat, info->dest_slot, v, final_out);
        return TT_OK;
    }
    if (info->dest == TT__DEST_BLOCK) {
        (void)tt__state_block(l, v, final_out);
        return TT_OK;
    }
    const tt_val state = {info->dest_of};
    if (tt__home(l, state)->buffer < 0 && is_storable(l, form))
        TT_TRY(tt__home_make(l, state, form));
    TT_TRY(tt__home_read(l, state, final_out));
    final_out->operand.local = info->operand.local;
    return TT_OK;
}

static tt_status make_home(tt__lower *l, tt_val v, const tt_operand *form,
                           tt_ref *ref_out)
{
    TT_TRY(tt__home_make(l, v, form));
    *ref_out = *tt__home(l, v);
    return TT_OK;
}

// Binds output i; `final` gets where it must be moved afterwards (buffer -1: it
// is there already).
static tt_status bind_output(tt__lower *l, const tt_node *node,
                             const tt_site *site, tt_step *step, int i,
                             tt_ref *final)
{
    const tt_val v = node->out[i];
    const tt_operand *form = &site->out[i];
    const tt__info *info = &l->info[v.id];
    tt_ref *ref = &l->ref[node->n_in + i];
    final->buffer = -1;
    if (tt__is_absent(l, v)) { // it is sent away
        *ref = (tt_ref){.buffer = -1, .operand = *form};
        return TT_OK;
    }
    if (has_place(l, v)) {
        TT_TRY(find_final(l, v, form, ref));
        tt__home_set(l, v, ref);
        if (tt_operand_same_form(&ref->operand, form))
            return TT_OK;
        *final = *ref;
        return bind_temporary(l, v, form, ref);
    }
    if (info->dest == TT__DEST_SUM)
        TT_TRY(
            tt__accumulate_try(l, v, form, &step->choice, &step->accumulate));
    if (!info->is_summed) {
        if (i == 0 && can_overwrite(l, node, site, &step->choice))
            *ref = (tt_ref){.buffer = l->ref[0].buffer, .operand = *form};
        else if (!can_scatter(l, node, site, ref))
            return make_home(l, v, form, ref);
        tt__home_set(l, v, ref);
        l->info[l->info[node->in[0].id].root].is_spent = true;
    }
    *ref = *tt__home(l, v);
    return TT_OK;
}

// ---- the node ------------------------------------------------------------

static tt_status show(tt__lower *l, const tt_node *node, tt_site *site)
{
    *site = (tt_site){.op = node->op,
                      .params = node->params,
                      .origin = node->origin,
                      .n_in = node->n_in,
                      .n_out = node->n_out,
                      .in = l->operand,
                      .out = l->operand + node->n_in};
    for (int i = 0; i < node->n_in; i++)
        TT_TRY(show_input(l, node, i, &site->in[i]));
    for (int i = 0; i < node->n_out; i++)
        show_output(l, node->out[i], &site->out[i]);
    return TT_OK;
}

tt_status tt__lower_node(tt__lower *l, const tt_node *node)
{
    tt_site site;
    TT_TRY(show(l, node, &site));
    tt_step step = {.node = (int32_t)(node - l->g->node),
                    .op = node->op,
                    .params = node->params,
                    .n_in = node->n_in,
                    .n_out = node->n_out,
                    .in = l->ref,
                    .out = l->ref + node->n_in};
    TT_TRY(tt__step_choose(l, &site, &step.choice));
    tt_ref final[TT_MAX_OUT];
    tt_status status = bind_inputs(l, node, &site);
    for (int i = 0; i < node->n_out && status == TT_OK; i++)
        status = bind_output(l, node, &site, &step, i, &final[i]);
    if (status != TT_OK) {
        l->target->release(l->target, step.choice.kernel);
        return status;
    }
    TT_TRY(tt__step_add(l, &step));
    for (int i = 0; i < node->n_out; i++)
        if (final[i].buffer >= 0)
            TT_TRY(tt__convert_into(l, &step.out[i], &final[i]));
    return TT_OK;
}
