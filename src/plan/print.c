// print - a plan as text: the memory table, the sums, the steps.

#include "base/figures.h"
#include "base/rng.h"
#include "plan/plan.h"

#include <string.h>

// ---- memory --------------------------------------------------------------

enum { NAME = 16, FIGURE = 19, UNIT = 10 };

// "  activations          2,441,216  2.44 MB   what is kept until backward"
static void print_row(const char *name, tt_str *figure, tt_str *unit,
                      const char *what, tt_str *out)
{
    tt_str_addf(out, "  %-*s %*s  ", NAME, name, FIGURE, tt_str_text(figure));
    if (what[0] == '\0')
        tt_str_addf(out, "%s\n", tt_str_text(unit));
    else
        tt_str_addf(out, "%-*s  %s\n", UNIT, tt_str_text(unit), what);
    if (tt_str_status(figure) != TT_OK || tt_str_status(unit) != TT_OK)
        out->status = TT_ERR_NOMEM;
    tt_str_fini(figure);
    tt_str_fini(unit);
}

static void print_bytes(const char *name, int64_t bytes, const char *what,
                        tt_str *out)
{
    tt_str figure = {0}, unit = {0};
    tt_add_grouped(&figure, bytes);
    tt_add_bytes(&unit, bytes);
    print_row(name, &figure, &unit, what, out);
}

void tt_plan_print_memory(const tt_plan *plan, tt_str *out)
{
    static const struct {
        const char *name, *what;
    } use[TT_N_BUFFER_USES] = {
        {"parameters", ""},
        {"gradients", ""},
        {"optimiser state", ""},
        {"buffers", "inputs, results and state that is not trained"},
        {"activations", "results that wait for those who read them"},
        {"scratch", "room that single kernels work in"},
    };
    int64_t sum = 0;
    tt_str_addf(out, "%-*s %*s\n", NAME + 2, "memory", FIGURE, "bytes");
    for (int u = 0; u < TT_N_BUFFER_USES; u++) {
        print_bytes(use[u].name, plan->bytes_by_use[u], use[u].what, out);
        sum += plan->bytes_by_use[u];
    }
    print_bytes("gaps", plan->peak_bytes - sum,
                "between buffers, and where none lies", out);
    print_bytes("peak", plan->peak_bytes, "the sum: what is allocated", out);
    if (plan->host_bytes > 0)
        print_bytes("on the host", plan->host_bytes, "offloaded", out);
}

// Beyond whole numbers of 64 bits it is rounded.
static void print_sum(const char *name, double value, const char *unit_name,
                      const char *what, tt_str *out)
{
    tt_str figure = {0}, unit = {0};
    if (value < 9e18)
        tt_add_grouped(&figure, (int64_t)(value + 0.5));
    else
        tt_str_addf(&figure, "%.6g", value);
    tt_add_unit(&unit, value, unit_name);
    print_row(name, &figure, &unit, what, out);
}

static void print_cost(const tt_plan *plan, tt_str *out)
{
    const tt_cost *c = &plan->cost;
    tt_str_addf(out, "one step (%d micro-batch%s)\n", plan->n_micro,
                plan->n_micro == 1 ? "" : "es");
    print_sum("flops", c->flops, "FLOP", "floating-point operations", out);
    print_sum("bytes moved", c->bytes, "B", "read and written by kernels", out);
    print_sum("work", c->work, "", "scalar operations of any kind", out);
    print_sum("depth", c->depth, "",
              "the longest chain of them that wait for each other", out);
    print_sum("parallelism", c->depth > 0 ? c->work / c->depth : 0, "",
              "work / depth: how many could go on at once", out);
}

// ---- steps ---------------------------------------------------------------

static void print_form(const tt_operand *o, tt_str *out)
{
    if (o->layout != 0) {
        tt_str_addf(out, " layout %d", o->layout);
        return;
    }
    if (tt_operand_is_dense(o))
        return;
    tt_str_add(out, " strides");
    for (int d = 0; d < o->local.shape.ndim; d++)
        tt_str_addf(out, "%c%lld", d == 0 ? ' ' : ',', (long long)o->stride[d]);
}

static void print_ref(const tt_ref *ref, tt_str *out)
{
    const tt_operand *o = &ref->operand;
    if (o->dtype == TT_N_DTYPES) {
        tt_str_add(out, "-");
        return;
    }
    if (ref->buffer < 0)
        tt_str_add(out, "shape");
    else
        tt_str_addf(out, "b%d", ref->buffer);
    if (ref->offset != 0)
        tt_str_addf(out, "+%lld", (long long)ref->offset);
    tt_str_addf(out, ":%s[", tt_dtype_name(o->dtype));
    tt_shape_print(&o->local.shape, out);
    tt_str_add(out, "]");
    print_form(o, out);
}

static void print_refs(const tt_ref *ref, int n, tt_str *out)
{
    for (int i = 0; i < n; i++) {
        tt_str_add(out, i == 0 ? "" : ", ");
        print_ref(&ref[i], out);
    }
}

static void print_step(const tt_plan *plan, int32_t s, tt_str *out)
{
    static const char *const mode[] = {"", " add-after-first", " add"};
    const tt_step *step = &plan->step[s];
    tt_str_addf(out, "  %4d %s  %s (", s, step->choice.name, step->name);
    print_refs(step->in, step->n_in, out);
    tt_str_add(out, ") -> (");
    print_refs(step->out, step->n_out, out);
    tt_str_addf(out, ")%s", mode[step->accumulate]);
    if (step->scratch >= 0)
        tt_str_addf(out, " scratch b%d", step->scratch);
    for (int32_t c = step->ends; c >= 0; c = plan->step[c].next_end)
        tt_str_addf(out, " ends %d", c);
    tt_str_add(out, "\n");
}

static void print_steps(const tt_plan *plan, tt_str *out)
{
    for (int32_t i = 0; i < plan->n_segments; i++) {
        const tt_segment *segment = &plan->segment[i];
        tt_str_addf(out, "segment %s\n", segment->name);
        for (int32_t s = 0; s < segment->n; s++)
            print_step(plan, segment->first + s, out);
    }
}

static void print_flights(const tt_plan *plan, tt_str *out)
{
    if (plan->n_flights > 0)
        tt_str_add(out, "flights (begin, end, bytes: members)\n");
    for (int32_t f = 0; f < plan->n_flights; f++) {
        const tt_flight *flight = &plan->flight[f];
        tt_str_addf(out, "  f%-4d %5d %5d %12lld:", f, flight->begin,
                    flight->end, (long long)flight->bytes);
        for (int32_t i = 0; i < flight->n; i++)
            tt_str_addf(out, " %d", plan->member[flight->first + i]);
        if (flight->to > 0)
            tt_str_addf(out, " as one, bytes %lld to %lld",
                        (long long)flight->from, (long long)flight->to);
        else if (flight->is_joined)
            tt_str_add(out, " as one");
        tt_str_addf(out, "  %s\n", flight->name);
    }
}

static void print_buffers(const tt_plan *plan, tt_str *out)
{
    static const char *const class_name[] = {"persistent", "slot", "scratch"};
    tt_str_add(out, "buffers (class, offset, bytes, first and last step)\n");
    for (int32_t i = 0; i < plan->n_buffers; i++) {
        const tt_buffer *b = &plan->buffer[i];
        tt_str_addf(out, "  b%-4d %-10s %12lld %12lld %5d %5d  %s%s\n", i,
                    class_name[b->class_], (long long)b->offset,
                    (long long)b->bytes, b->first, b->last, b->name,
                    b->on_host ? " (on the host)" : "");
    }
}

static void print_order(const tt_plan *plan, tt_str *out)
{
    tt_str_add(out, "order");
    for (int32_t i = 0; i < plan->n_order; i++) {
        const tt_order *o = &plan->order[i];
        tt_str_addf(out, " %s(%d)", plan->segment[o->segment].name, o->micro);
    }
    for (int32_t i = 0; i < plan->n_aside; i++)
        tt_str_addf(out, "%s %s", i == 0 ? " |" : "",
                    plan->segment[plan->order[plan->n_order + i].segment].name);
    tt_str_add(out, "\n");
}

void tt_plan_print(const tt_plan *plan, bool with_steps, tt_str *out)
{
    tt_plan_print_memory(plan, out);
    print_cost(plan, out);
    if (!with_steps)
        return;
    print_order(plan, out);
    print_steps(plan, out);
    print_flights(plan, out);
    print_buffers(plan, out);
}

uint64_t tt_plan_hash(const tt_plan *plan)
{
    tt_str text = {0};
    tt_plan_print(plan, true, &text);
    const uint64_t hash =
        tt_str_status(&text) == TT_OK ? tt_hash(tt_str_text(&text), text.n) : 0;
    tt_str_fini(&text);
    return hash;
}
