// views - operators that only look at memory in another way make no step, and the
// inputs of a concatenation are written where they belong in its output.

#include "ops/ops.h"
#include "ops/shape/view.h"
#include "plan/lower.h"

#include <string.h>

// The part `i` of `whole` as the operator's view function sees it.
static bool find_part(const tt_site *site, int i, const tt_ref *whole,
                      tt_ref *part_io)
{
    int64_t offset = 0;
    int64_t stride[TT_MAX_DIMS] = {0};
    if (site->op->view == NULL || !site->op->view(site, i, stride, &offset))
        return false;
    part_io->buffer = whole->buffer;
    part_io->offset =
        whole->offset + offset * tt_dtype_bytes(whole->operand.dtype);
    part_io->operand.layout = 0;
    memcpy(part_io->operand.stride, stride, sizeof(stride));
    return true;
}

// Operands of a node, dense and local, in l->view_operand.
static tt_site dense_site(tt__lower *l, const tt_node *node)
{
    tt_site site = {.op = node->op,
                    .params = node->params,
                    .origin = node->origin,
                    .n_in = node->n_in,
                    .n_out = node->n_out,
                    .in = l->view_operand,
                    .out = l->view_operand + node->n_in};
    for (int i = 0; i < node->n_in; i++)
        if (tt_is(node->in[i]))
            site.in[i] = l->info[node->in[i].id].operand;
        else
            site.in[i] = (tt_operand){.dtype = TT_N_DTYPES};
    for (int i = 0; i < node->n_out; i++)
        site.out[i] = l->info[node->out[i].id].operand;
    return site;
}

bool tt__view_is_relabel(tt__lower *l, const tt_node *node)
{
    const tt_site site = dense_site(l, node);
    const tt_ref whole = {.operand = site.in[0]};
    tt_ref part = {.operand = site.out[0]};
    return node->n_out == 1 &&
           tt_operand_count(&site.in[0]) == tt_operand_count(&site.out[0]) &&
           find_part(&site, 0, &whole, &part) && part.offset == 0 &&
           tt_operand_is_dense(&part.operand);
}

// Sets the homes of all outputs inside `whole`, or none.
static bool set_views(tt__lower *l, const tt_node *node, const tt_ref *whole)
{
    tt_site site = dense_site(l, node);
    site.in[0] = whole->operand;
    tt_ref part[TT_MAX_OUT];
    for (int i = 0; i < node->n_out; i++) {
        part[i] = (tt_ref){.operand = site.out[i]};
        if (!find_part(&site, i, whole, &part[i]))
            return false;
    }
    for (int i = 0; i < node->n_out; i++)
        tt__home_set(l, node->out[i], &part[i]);
    return true;
}

int32_t tt__part_layout(const tt__lower *l, const tt_operand *whole,
                        const tt_operand *part)
{
    const tt_shape *from = &whole->local.shape, *to = &part->local.shape;
    if (whole->layout == 0 || !l->is_even || from->ndim == 0 ||
        from->n_factors != to->n_factors)
        return 0;
    for (int f = 1; f < from->n_factors; f++)
        if (from->factor[f].size != to->factor[f].size)
            return 0;
    return l->target->layout_part(l->target, whole->layout,
                                  tt_operand_dim(part, 0));
}

// A block of what lies in a layout of the target.
static bool find_block(const tt__lower *l, const tt_ref *whole,
                       const tt_operand *part, tt_ref *block_out)
{
    const int32_t layout = tt__part_layout(l, &whole->operand, part);
    if (layout == 0)
        return false;
    const int64_t each = tt_target_bytes(l->target, &whole->operand) /
                         whole->operand.local.shape.factor[0].size;
    *block_out = (tt_ref){.buffer = whole->buffer, .operand = *part};
    block_out->offset =
        whole->offset +
        (part->local.origin[0] - whole->operand.local.origin[0]) * each;
    block_out->operand.layout = layout;
    return true;
}

tt_status tt__lower_view(tt__lower *l, const tt_node *node, bool *is_done_out)
{
    tt_ref whole;
    *is_done_out = false;
    if (node->op->view == NULL)
        return TT_OK;
    TT_TRY(tt__home_read(l, node->in[0], &whole));
    if (whole.operand.layout == 0 && set_views(l, node, &whole)) {
        *is_done_out = true;
        return TT_OK;
    }
    tt_ref block;
    if (node->op == &tt_op_take &&
        find_block(l, &whole, &l->info[node->out[0].id].operand, &block)) {
        tt__home_set(l, node->out[0], &block);
        *is_done_out = true;
        return TT_OK;
    }
    if (tt_operand_is_dense(&whole.operand))
        return TT_OK;
    tt_operand form = whole.operand;
    tt_operand_set_dense(&form);
    tt_ref dense;
    TT_TRY(tt__convert(l, &whole, &form, &dense));
    *is_done_out = set_views(l, node, &dense);
    return TT_OK;
}

// Gives the strides of `ref` to `like`, whose dims group the same factors in
// another way.
static bool regroup(const tt_operand *like, tt_ref *ref)
{
    const tt_shape *from = &ref->operand.local.shape, *to = &like->local.shape;
    if (from->n_factors != to->n_factors)
        return false;
    for (int f = 0; f < from->n_factors; f++)
        if (from->factor[f].size != to->factor[f].size)
            return false;
    int64_t stride[TT_MAX_FACTORS] = {0};
    tt_view_split_dims(&ref->operand, stride);
    ref->operand.local = like->local;
    return tt_view_merge_dims(to, stride, ref->operand.stride);
}

bool tt__concat_part(tt__lower *l, const tt_node *node, int slot, tt_val v,
                     tt_ref *part_out)
{
    const tt_site site = dense_site(l, node);
    tt_ref whole = {.operand = site.out[0]};
    whole.buffer = tt__home(l, node->out[0])->buffer;
    *part_out = (tt_ref){.operand = site.in[slot]};
    if (!find_part(&site, slot, &whole, part_out))
        return false;
    return v.id == node->in[slot].id ||
           regroup(&l->info[v.id].operand, part_out);
}

bool tt__block_in(const tt__lower *l, const tt_ref *whole,
                  const tt_operand *part, tt_ref *block_out)
{
    int64_t offset = 0;
    if (whole->operand.layout != 0)
        return find_block(l, whole, part, block_out);
    *block_out = (tt_ref){.buffer = whole->buffer, .operand = *part};
    if (!tt_view_block(&whole->operand, &part->local, block_out->operand.stride,
                       &offset))
        return false;
    block_out->offset = whole->offset + offset * tt_dtype_bytes(part->dtype);
    return tt_operand_is_dense(&block_out->operand);
}

bool tt__state_block(tt__lower *l, tt_val v, tt_ref *block_out)
{
    const tt_val whole = l->g->node[l->info[v.id].dest_of].out[0];
    tt_ref state = *tt__home(l, (tt_val){l->info[whole.id].dest_of});
    state.operand.local = l->info[whole.id].operand.local;
    return state.buffer >= 0 &&
           tt__block_in(l, &state, &l->info[v.id].operand, block_out);
}

tt_status tt__lower_concat(tt__lower *l, const tt_node *node, bool *is_done_out)
{
    tt_ref part;
    *is_done_out = false;
    for (int i = 0; i < node->n_in; i++)
        if (!tt__concat_part(l, node, i, node->in[i], &part))
            return TT_OK;
    *is_done_out = true;
    if (tt__home(l, node->out[0])->buffer < 0)
        TT_TRY(
            tt__home_make(l, node->out[0], &l->info[node->out[0].id].operand));
    const int32_t whole = tt__home(l, node->out[0])->buffer;
    for (int i = 0; i < node->n_in; i++) {
        tt_ref from;
        TT_TRY(tt__home_read(l, node->in[i], &from));
        if (from.buffer == whole)
            continue; // written there
        (void)tt__concat_part(l, node, i, node->in[i], &part);
        TT_TRY(tt__convert_into(l, &from, &part));
    }
    return TT_OK;
}
