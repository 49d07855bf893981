// views - operators that only look at memory in another way make no step, and the
// inputs of a concatenation are written where they belong in its output.

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
    if (tt_operand_is_dense(&whole.operand))
        return TT_OK;
    tt_operand form = whole.operand;
    tt_operand_set_dense(&form);
    tt_ref dense;
    TT_TRY(tt__convert(l, &whole, &form, &dense));
    *is_done_out = set_views(l, node, &dense);
    return TT_OK;
}

bool tt__concat_part(tt__lower *l, const tt_node *node, int slot,
                     tt_ref *part_out)
{
    const tt_site site = dense_site(l, node);
    tt_ref whole = {.operand = site.out[0]};
    whole.buffer = tt__home(l, node->out[0])->buffer;
    *part_out = (tt_ref){.operand = site.in[slot]};
    return find_part(&site, slot, &whole, part_out);
}

tt_status tt__lower_concat(tt__lower *l, const tt_node *node, bool *is_done_out)
{
    const int32_t n = (int32_t)(node - l->g->node);
    tt_ref part;
    *is_done_out = false;
    for (int i = 0; i < node->n_in; i++)
        if (!tt__concat_part(l, node, i, &part))
            return TT_OK;
    *is_done_out = true;
    if (tt__home(l, node->out[0])->buffer < 0)
        TT_TRY(
            tt__home_make(l, node->out[0], &l->info[node->out[0].id].operand));
    for (int i = 0; i < node->n_in; i++) {
        const tt__info *info = &l->info[node->in[i].id];
        if (info->dest == TT__DEST_PART && info->dest_of == n)
            continue;
        tt_ref from;
        TT_TRY(tt__home_read(l, node->in[i], &from));
        (void)tt__concat_part(l, node, i, &part);
        TT_TRY(tt__convert_into(l, &from, &part));
    }
    return TT_OK;
}
