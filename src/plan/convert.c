// convert - reorder steps between forms of the same tensor. A conversion is
// remembered within its segment, until either side is written again.

#include "ops/ops.h"
#include "plan/lower.h"

#include <string.h>

tt_status tt__convert_into(tt__lower *l, const tt_ref *from, const tt_ref *to)
{
    tt_operand in = from->operand, out = to->operand;
    tt_site site = {.op = &tt_op_reorder,
                    .origin = l->origin,
                    .n_in = 1,
                    .n_out = 1,
                    .in = &in,
                    .out = &out};
    tt_step step = {.node = -1,
                    .op = &tt_op_reorder,
                    .n_in = 1,
                    .n_out = 1,
                    .in = from,
                    .out = to};
    TT_TRY(tt__step_choose(l, &site, &step.choice));
    if (!tt_operand_same_form(&in, &from->operand) ||
        !tt_operand_same_form(&out, &to->operand)) {
        l->target->release(l->target, step.choice.kernel);
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "%s: %s cannot convert between the forms of an operand",
                       l->origin, step.choice.name);
    }
    return tt__step_add(l, &step);
}

static bool same_ref(const tt_ref *a, const tt_ref *b)
{
    return a->buffer == b->buffer && a->offset == b->offset &&
           tt_shape_equal(&a->operand.local.shape, &b->operand.local.shape) &&
           tt_operand_same_form(&a->operand, &b->operand);
}

static tt_status remember(tt__lower *l, const tt_ref *from, const tt_ref *to)
{
    TT_TRY(tt__grow(l->arena, &l->converted, sizeof(*l->converted),
                    l->n_converted, &l->converted_capacity));
    int32_t *first = &l->buffer[from->buffer].first_converted;
    l->converted[l->n_converted] = (tt__converted){.from = *from,
                                                   .to = *to,
                                                   .segment = l->segment,
                                                   .phase = l->phase,
                                                   .next = *first};
    *first = l->n_converted++;
    return TT_OK;
}

tt_status tt__convert(tt__lower *l, const tt_ref *from, const tt_operand *form,
                      tt_ref *to_out)
{
    tt_ref to = {.operand = from->operand};
    to.operand.layout = form->layout;
    memcpy(to.operand.stride, form->stride, sizeof(form->stride));
    int32_t c = l->buffer[from->buffer].first_converted;
    for (; c >= 0; c = l->converted[c].next) {
        const tt__converted *old = &l->converted[c];
        if (old->segment == l->segment &&
            (old->phase != TT_UPDATE || l->phase == TT_UPDATE) &&
            same_ref(&old->from, from) &&
            tt_operand_same_form(&old->to.operand, &to.operand)) {
            *to_out = old->to;
            return TT_OK;
        }
    }
    const tt_buffer buffer = {.name = l->plan->buffer[from->buffer].name,
                              .class_ = TT_SCRATCH,
                              .use = TT_USE_SCRATCH,
                              .bytes = tt_target_bytes(l->target, form)};
    TT_TRY(tt__buffer_add(l, &buffer, &to.buffer));
    TT_TRY(tt__convert_into(l, from, &to));
    TT_TRY(remember(l, from, &to));
    *to_out = to;
    return TT_OK;
}

void tt__convert_forget(tt__lower *l, int32_t buffer)
{
    if (buffer < 0)
        return;
    l->buffer[buffer].first_converted = -1;
    for (int32_t c = 0; c < l->n_converted; c++)
        if (l->converted[c].to.buffer == buffer)
            l->converted[c].segment = -1;
}
