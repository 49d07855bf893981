// step - appending steps: scratch memory, cost, operands that were written.

#include "ops/comm/comm.h"
#include "ops/ops.h"
#include "plan/lower.h"

#include <string.h>

// What is combined element by element may lie in any form without gaps, if that is
// the form on every rank.
static bool keeps_form(const tt__lower *l, const tt_site *site)
{
    const tt_operand *in = &site->in[0];
    return (site->op->flags & TT_OP_INPLACE) != 0 && l->is_even &&
           (in->layout != 0 ||
            tt_target_bytes(l->target, in) ==
                tt_operand_count(in) * tt_dtype_bytes(in->dtype));
}

// Blocks that lie one after the other in a layout travel as they lie.
static bool keeps_blocks(const tt__lower *l, const tt_site *site)
{
    tt_operand *in = &site->in[0], *out = &site->out[0];
    if (site->op == &tt_op_all_gather)
        return in->layout != 0 && in->layout == tt__part_layout(l, out, in);
    const int32_t part =
        site->op == &tt_op_reduce_scatter ? tt__part_layout(l, in, out) : 0;
    if (part == 0)
        return false;
    out->layout = part;
    return true;
}

tt_status tt__step_choose(tt__lower *l, tt_site *site, tt_choice *choice_out)
{
    if ((site->op->flags & TT_OP_COLLECTIVE) == 0)
        return l->target->choose(l->target, site, choice_out);
    *choice_out = (tt_choice){.name = site->op->name};
    if (site->in[0].dtype == TT_N_DTYPES) { // it lies elsewhere
        tt_operand_set_dense(&site->out[0]);
        return TT_OK;
    }
    if (keeps_blocks(l, site))
        return TT_OK;
    if (!keeps_form(l, site))
        tt_operand_set_dense(&site->in[0]);
    tt_operand_set_dense(&site->out[0]);
    if ((site->op->flags & TT_OP_INPLACE) != 0) {
        site->out[0].layout = site->in[0].layout;
        memcpy(site->out[0].stride, site->in[0].stride,
               sizeof(site->in[0].stride));
    }
    return TT_OK;
}

// The size of the group that a collective talks to.
static int group_size(const tt__lower *l, const tt_step *step)
{
    if ((step->op->flags & TT_OP_COLLECTIVE) == 0 || step->params == NULL ||
        step->op->options == NULL)
        return 1;
    const tt_opt *axis = tt_opt_find(step->op->options, "axis");
    if (axis == NULL || axis->type != TT_OPT_I64)
        return 1;
    int64_t a;
    memcpy(&a, (const char *)step->params + axis->offset, sizeof(a));
    return a >= 0 && a < l->g->mesh.n_axes ? l->g->mesh.axis[a].size : 1;
}

static void set_type(const tt_ref *ref, tt_type *type)
{
    *type = (tt_type){.dtype = ref->operand.dtype,
                      .shape = ref->operand.local.shape};
}

// A move is sent by one rank of the axis.
static bool is_sender(const tt__lower *l, const tt_step *step)
{
    const tt_comm_params *p = step->params;
    return step->op != &tt_op_move ||
           tt_mesh_coord(&l->g->mesh, l->plan->rank, (int)p->axis) ==
               p->from_coord;
}

static void set_cost(tt__lower *l, tt_step *step)
{
    if (step->op->cost == NULL)
        return;
    for (int i = 0; i < step->n_in; i++)
        set_type(&step->in[i], &l->type[i]);
    for (int i = 0; i < step->n_out; i++)
        set_type(&step->out[i], &l->type[step->n_in + i]);
    const tt_op_io io = {.params = step->params,
                         .n_in = step->n_in,
                         .n_out = step->n_out,
                         .in = l->type,
                         .out = l->type + step->n_in,
                         .op = step->op};
    step->cost = (tt_cost){0};
    step->op->cost(&io, group_size(l, step), &step->cost);
    if (!is_sender(l, step))
        step->cost.wire_bytes = step->cost.messages = 0;
}

static tt_status add_scratch(tt__lower *l, tt_step *step)
{
    step->scratch = -1;
    if (step->choice.scratch_bytes <= 0)
        return TT_OK;
    const tt_buffer buffer = {.name = step->name,
                              .class_ = TT_SCRATCH,
                              .use = TT_USE_SCRATCH,
                              .bytes = step->choice.scratch_bytes};
    TT_TRY(tt__buffer_add(l, &buffer, &step->scratch));
    l->buffer[step->scratch].is_kernel_scratch = true;
    return TT_OK;
}

static tt_status fill(tt__lower *l, tt_step *step)
{
    tt_plan *plan = l->plan;
    step->phase = l->phase;
    step->name =
        tt_arena_printf(plan->arena, "%s: %s", l->origin, step->op->name);
    step->in = tt_arena_copy(plan->arena, step->in,
                             step->n_in * (int64_t)sizeof(*step->in));
    step->out = tt_arena_copy(plan->arena, step->out,
                              step->n_out * (int64_t)sizeof(*step->out));
    if (step->name == NULL || step->in == NULL || step->out == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(add_scratch(l, step));
    set_cost(l, step);
    if ((step->op->flags & TT_OP_COLLECTIVE) != 0)
        step->moved_bytes = tt_target_bytes(
            l->target, step->in[0].buffer >= 0 ? &step->in[0].operand
                                               : &step->out[0].operand);
    return tt__grow(plan->arena, &plan->step, sizeof(*plan->step),
                    plan->n_steps, &l->steps_capacity);
}

tt_status tt__step_add(tt__lower *l, tt_step *step)
{
    const tt_status status = fill(l, step);
    if (status != TT_OK) {
        l->target->release(l->target, step->choice.kernel);
        return status;
    }
    l->plan->step[l->plan->n_steps++] = *step;
    for (int i = 0; i < step->n_out; i++)
        if (step->out[i].buffer >= 0)
            tt__convert_forget(l, step->out[i].buffer);
    return TT_OK;
}
