// trace - the newest steps as a Chrome trace (chrome://tracing, Perfetto).

#include "base/json.h"
#include "exec/state.h"

enum { COMPUTE, NETWORK }; // rows

static void begin_event(const tt_plan *plan, const tt__event *e, int row,
                        tt_json *j)
{
    tt_json_open(j, NULL, '{');
    tt_json_str(j, "ph", "X");
    tt_json_f64(j, "ts", e->start * 1e6);
    tt_json_f64(j, "dur", e->seconds * 1e6);
    tt_json_i64(j, "pid", plan->rank);
    tt_json_i64(j, "tid", row);
}

static void print_flight(const tt_plan *plan, const tt__event *e, tt_json *j)
{
    const tt_flight *flight = &plan->flight[e->flight];
    begin_event(plan, e, e->is_wait ? COMPUTE : NETWORK, j);
    tt_json_str(j, "name", e->is_wait ? "wait" : flight->name);
    tt_json_str(j, "cat", e->is_wait ? "exposed" : "comm");
    tt_json_open(j, "args", '{');
    tt_json_str(j, "flight", flight->name);
    tt_json_i64(j, "micro", e->micro);
    tt_json_i64(j, "bytes", flight->bytes);
    tt_json_close(j, '}');
    tt_json_close(j, '}');
}

static void print_event(const tt_plan *plan, const tt__event *e, tt_json *j)
{
    const tt_step *step = &plan->step[e->step];
    if (e->flight >= 0) {
        print_flight(plan, e, j);
        return;
    }
    begin_event(plan, e, COMPUTE, j);
    tt_json_str(j, "name", step->name);
    tt_json_str(j, "cat", tt_phase_name(step->phase));
    tt_json_open(j, "args", '{');
    tt_json_str(j, "kernel", step->choice.name);
    tt_json_i64(j, "micro", e->micro);
    tt_json_f64(j, "flops", step->cost.flops);
    tt_json_f64(j, "bytes", step->cost.bytes);
    tt_json_close(j, '}');
    tt_json_close(j, '}');
}

static void print_name(const tt_plan *plan, const char *what, int row,
                       const char *name, tt_json *j)
{
    tt_json_open(j, NULL, '{');
    tt_json_str(j, "ph", "M");
    tt_json_str(j, "name", what);
    tt_json_i64(j, "pid", plan->rank);
    tt_json_i64(j, "tid", row);
    tt_json_open(j, "args", '{');
    tt_json_str(j, "name", name);
    tt_json_close(j, '}');
    tt_json_close(j, '}');
}

static void print_names(const tt_plan *plan, tt_json *j)
{
    tt_str name = {0};
    tt_str_addf(&name, "rank %d", plan->rank);
    print_name(plan, "process_name", COMPUTE, tt_str_text(&name), j);
    print_name(plan, "thread_name", COMPUTE, "compute", j);
    if (plan->n_flights > 0)
        print_name(plan, "thread_name", NETWORK, "network", j);
    tt_str_fini(&name);
}

bool tt_exec_is_traced(const tt_exec *exec)
{
    return exec->event != NULL;
}

tt_status tt_exec_trace_print(const tt_exec *exec, tt_str *out)
{
    if (exec->event == NULL)
        return tt_fail(TT_ERR_STATE, "the run was not traced");
    tt_json j = {.out = out};
    tt_json_open(&j, NULL, '{');
    tt_json_open(&j, "traceEvents", '[');
    print_names(exec->plan, &j);
    const int64_t first = exec->n_events > exec->events_capacity
                              ? exec->n_events - exec->events_capacity
                              : 0;
    for (int64_t i = first; i < exec->n_events; i++)
        print_event(exec->plan, &exec->event[i % exec->events_capacity], &j);
    tt_json_close(&j, ']');
    tt_json_str(&j, "displayTimeUnit", "ms");
    tt_json_close(&j, '}');
    tt_str_add(out, "\n");
    return tt_str_status(out);
}
