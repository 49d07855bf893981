// coding - what codes cost a rank: seconds, and bytes before and after.
//
// A step codes if it belongs to the update and stands in backward (plan/early.c), or if its
// operator writes or reads packets. Such a step may read sums of gradients: bytes before
// coding. What an all-reduce of the update reads, if such a step has written it, is bytes
// after. How many bytes of a packet are used only the wire knows (tt_wire_stats).
//
// Codes of activations (pass/codes.c) are made by operators that write all of their bytes:
// what these read is before, what they write is after.
//
// Of codes of weights, which agreements send (pass/replicas_aside.c), those are counted that a
// collective of the segment reads, as often as it is sent: what made them is looked for
// backward from there, through sums of the codes of a rank's replicas.

#include "exec/coding.h"

#include "base/alloc.h"
#include "ops/codec/packet.h"
#include "ops/comm/comm.h"
#include "ops/ops.h"

#include <math.h>
#include <string.h>

typedef struct step_coding {
    bool is_coding;
    double raw;  // bytes of gradients that it reads, or of activations
    double made; // bytes of codes of activations
} step_coding;

typedef struct tt__coding {
    step_coding *step;
    double added; // bytes of codes that are added, of a run
} tt__coding;

static bool is_packets(const tt_op_def *op)
{
    static const void *const form[] = {
        &tt_form_int8,    &tt_form_onebit,    &tt_form_sign,   &tt_form_twobit,
        &tt_form_ternary, &tt_form_natural,   &tt_form_qsgd,   &tt_form_threelc,
        &tt_form_topk,    &tt_form_threshold, &tt_form_nonzero};
    for (size_t i = 0; i < sizeof form / sizeof *form; i++)
        if (op->family == form[i])
            return true;
    return false;
}

static bool is_in(const tt_ref *ref, int32_t n, int32_t buffer)
{
    for (int32_t i = 0; i < n; i++)
        if (ref[i].buffer == buffer)
            return true;
    return false;
}

// Bytes of gradients that a step reads; what an earlier one has read is not counted again.
static double raw_bytes(const tt_plan *plan, const step_coding *coding,
                        int32_t s)
{
    const tt_step *step = &plan->step[s];
    double sum = 0;
    for (int32_t i = 0; i < step->n_in; i++) {
        const int32_t b = step->in[i].buffer;
        bool is_new = b >= 0 && plan->buffer[b].use == TT_USE_GRAD;
        for (int32_t t = 0; t < s && is_new; t++)
            is_new = !coding[t].is_coding ||
                     !is_in(plan->step[t].in, plan->step[t].n_in, b);
        sum += is_new ? (double)plan->buffer[b].bytes : 0;
    }
    return sum;
}

// Bytes of a code that is added.
static double added_bytes(const tt_plan *plan, const step_coding *coding,
                          int32_t s)
{
    const tt_step *step = &plan->step[s];
    if (step->op != &tt_op_all_reduce || step->phase != TT_UPDATE)
        return 0;
    for (int32_t t = s - 1; t >= 0; t--)
        if (coding[t].is_coding &&
            is_in(plan->step[t].out, plan->step[t].n_out, step->in[0].buffer))
            return (double)step->moved_bytes;
    return 0;
}

static double bytes_of(const tt_ref *ref)
{
    return (double)tt_operand_count(&ref->operand) *
           (double)tt_dtype_bytes(ref->operand.dtype);
}

// Codes of activations are made and read outside the update.
static void note_layer(const tt_step *step, step_coding *coding)
{
    const bool makes =
        step->op == &tt_op_rows_encode || step->op == &tt_op_narrow;
    const bool reads = step->op == &tt_op_rows_sum || step->op == &tt_op_widen;
    if (step->phase == TT_UPDATE || tt_phase_is_aside(step->phase) ||
        (!makes && !reads))
        return;
    coding->is_coding = true;
    coding->raw = makes ? bytes_of(&step->in[0]) : 0;
    coding->made = makes ? bytes_of(&step->out[0]) : 0;
}

// ---- codes of weights ------------------------------------------------------

// An agreement, and one of its steps that sends something.
typedef struct sending {
    const tt_plan *plan;
    step_coding *coding;
    int32_t first; // of the agreement's steps
    int32_t coder; // a step that made codes of what is sent; -1: none did
} sending;

static bool reads_made_by(const sending *x, int32_t s, const tt_op_def *op)
{
    const tt_step *step = &x->plan->step[s];
    for (int32_t t = x->first; t < s; t++)
        for (int32_t i = 0; i < step->n_in && x->plan->step[t].op == op; i++)
            if (is_in(x->plan->step[t].out, x->plan->step[t].n_out,
                      step->in[i].buffer))
                return true;
    return false;
}

// Bytes of numbers of which a step makes a code; 0: it makes none. The second product of
// powersgd is about the same matrix as the first.
static double coded_by(const sending *x, int32_t s)
{
    const tt_step *step = &x->plan->step[s];
    if (step->op == &tt_op_matmul)
        return reads_made_by(x, s, &tt_op_orthogonalize)
                   ? 0
                   : fmax(bytes_of(&step->in[0]), bytes_of(&step->in[1]));
    return is_packets(step->op) || step->op == &tt_op_narrow ||
                   step->op == &tt_op_randomk_take
               ? bytes_of(&step->in[0])
               : 0;
}

static bool makes_codes(const tt_op_def *op)
{
    return is_packets(op) || op == &tt_op_narrow || op == &tt_op_randomk_take ||
           op == &tt_op_matmul;
}

// Finds who has made what step `s` reads there.
static void find_coders(sending *x, int32_t s, int32_t buffer)
{
    for (int32_t t = x->first; t < s; t++) {
        const tt_step *step = &x->plan->step[t];
        if (tt_op_is_collective(step->op) ||
            !is_in(step->out, step->n_out, buffer))
            continue;
        if (makes_codes(step->op)) {
            x->coding[t].is_coding = true;
            x->coding[t].raw += coded_by(x, t);
            x->coder = t;
            continue;
        }
        for (int32_t i = 0; i < step->n_in; i++)
            if (step->in[i].buffer != buffer)
                find_coders(x, t, step->in[i].buffer);
    }
}

static void note_agreement(const tt_plan *plan, const tt_segment *segment,
                           step_coding *coding)
{
    const int32_t end = segment->first + segment->n;
    for (int32_t s = segment->first; s < end; s++) {
        sending x = {plan, coding, segment->first, -1};
        if (!tt_op_is_collective(plan->step[s].op))
            continue;
        const tt_comm_params *p = plan->step[s].params;
        find_coders(&x, s, plan->step[s].in[0].buffer);
        if (x.coder >= 0 && !p->packets) // those are counted by the wire
            coding[x.coder].made += bytes_of(&plan->step[s].in[0]);
    }
}

// ---- all -------------------------------------------------------------------

tt_status tt__coding_init(tt_exec *exec)
{
    const tt_plan *plan = exec->plan;
    exec->coding = tt_alloc(sizeof *exec->coding);
    step_coding *step = tt_alloc((plan->n_steps + 1) * (int64_t)sizeof *step);
    if (exec->coding != NULL)
        exec->coding->step = step;
    else
        tt_free(step);
    if (exec->coding == NULL || step == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %d steps", plan->n_steps);
    for (int32_t i = 0; i < plan->n_segments; i++) {
        const tt_segment *x = &plan->segment[i];
        for (int32_t s = x->first; s < x->first + x->n; s++) {
            const bool is_early =
                plan->step[s].phase == TT_UPDATE && x->phase != TT_UPDATE;
            step[s].is_coding = is_early || is_packets(plan->step[s].op);
            if (step[s].is_coding)
                step[s].raw = raw_bytes(plan, step, s);
            note_layer(&plan->step[s], &step[s]);
            exec->coding->added += added_bytes(plan, step, s);
        }
        if (x->phase == TT_AGREE)
            note_agreement(plan, x, step);
    }
    return TT_OK;
}

void tt__coding_fini(tt_exec *exec)
{
    if (exec->coding != NULL)
        tt_free(exec->coding->step);
    tt_free(exec->coding);
}

void tt__coding_note(tt_exec *exec, int32_t s, double seconds)
{
    if (!exec->coding->step[s].is_coding)
        return;
    exec->stats.coding_seconds += seconds;
    exec->stats.raw_bytes += exec->coding->step[s].raw;
    exec->stats.added_bytes += exec->coding->step[s].made;
}

void tt__coding_ran(tt_exec *exec)
{
    exec->stats.added_bytes += exec->coding->added;
}
