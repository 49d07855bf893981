// trace_merge - events of one rank as JSON. See trace_merge.h.
//
// The form is Chrome's trace, which Perfetto reads too. A rank is a "process" with the
// rows steps of training, stages (of the last step: forward and gradients of each
// micro-batch, and waiting for other stages), kernels, and the network. A wait for a flight is
// shown among the kernels, since it is a gap there; so exposed communication can be
// seen at a glance.

#include "exec/trace_merge.h"

#include "base/json.h"
#include "exec/state.h"

#include <math.h>

enum { STEPS, COMPUTE, NETWORK, STAGES, N_ROWS };
static const char *const row_name[N_ROWS] = {"steps", "compute", "network",
                                             "stages"};
static const int row_place[N_ROWS] = {0, 2, 3, 1}; // from the top

typedef struct printer {
    const tt_trace_part *part;
    tt_json j;
    double from; // nothing before is shown
} printer;

// ---- one event -----------------------------------------------------------

// Whole nanoseconds are enough, and shorter.
static void add_us(tt_json *j, const char *key, double seconds)
{
    tt_json_f64(j, key, round(seconds * 1e9) / 1e3);
}

static void begin_event(printer *p, int row, const char *kind)
{
    tt_json_open(&p->j, NULL, '{');
    tt_json_str(&p->j, "ph", kind);
    tt_json_i64(&p->j, "pid", p->part->rank);
    tt_json_i64(&p->j, "tid", row);
}

static void add_times(printer *p, double start, double seconds)
{
    add_us(&p->j, "ts", start - p->part->zero);
    add_us(&p->j, "dur", fmax(0, seconds));
}

static void add_meta(printer *p, int row, const char *what, const char *text)
{
    begin_event(p, row, "M");
    tt_json_str(&p->j, "name", what);
    tt_json_open(&p->j, "args", '{');
    tt_json_str(&p->j, "name", text);
    tt_json_close(&p->j, '}');
    tt_json_close(&p->j, '}');
}

static void add_index(printer *p, int row, const char *what, int64_t index)
{
    begin_event(p, row, "M");
    tt_json_str(&p->j, "name", what);
    tt_json_open(&p->j, "args", '{');
    tt_json_i64(&p->j, "sort_index", index);
    tt_json_close(&p->j, '}');
    tt_json_close(&p->j, '}');
}

static void add_kernel(printer *p, const tt_exec *exec, const tt__event *e)
{
    const tt_step *step = &exec->plan->step[e->step];
    tt_json *j = &p->j;
    begin_event(p, COMPUTE, "X");
    tt_json_str(j, "name", step->name);
    tt_json_str(j, "cat", tt_phase_name(step->phase));
    add_times(p, e->start, e->seconds);
    tt_json_open(j, "args", '{');
    tt_json_str(j, "kernel", step->choice.name);
    tt_json_i64(j, "micro", e->micro);
    tt_json_f64(j, "flops", step->cost.flops);
    tt_json_f64(j, "bytes", step->cost.bytes);
    tt_json_close(j, '}');
    tt_json_close(j, '}');
}

// What the executor waited for is a hole in its row, and shown there too.
static void add_wait(printer *p, const tt_wire_event *e)
{
    begin_event(p, COMPUTE, "X");
    tt_json_str(&p->j, "name", "wait");
    tt_json_str(&p->j, "cat", "exposed");
    add_times(p, e->asked, e->waited);
    tt_json_open(&p->j, "args", '{');
    tt_json_str(&p->j, "for", e->name);
    tt_json_close(&p->j, '}');
    tt_json_close(&p->j, '}');
}

static void add_flight(printer *p, const tt_wire_event *e)
{
    tt_json *j = &p->j;
    begin_event(p, NETWORK, "X");
    tt_json_str(j, "name", e->name);
    tt_json_str(j, "cat", "comm");
    add_times(p, e->begun, e->ended - e->begun);
    tt_json_open(j, "args", '{');
    tt_json_i64(j, "number", e->number);
    tt_json_i64(j, "bytes", e->bytes);
    add_us(j, "queued_us", e->begun - e->ready);
    add_us(j, "exposed_us", e->waited);
    tt_json_close(j, '}');
    tt_json_close(j, '}');
    if (e->waited > 0)
        add_wait(p, e);
}

static void add_mark(printer *p, const tt_trace_mark *m)
{
    tt_str name = {0};
    tt_str_addf(&name, "%s %lld", m->what, (long long)m->number);
    begin_event(p, STEPS, "X");
    tt_json_str(&p->j, "name", tt_str_text(&name));
    tt_json_str(&p->j, "cat", "host");
    add_times(p, m->start, m->end - m->start);
    tt_json_close(&p->j, '}');
    tt_str_fini(&name);
}

// A row of the plan's order: the wait for its message, then what it did.
static void add_row(printer *p, int32_t i)
{
    const tt_exec *exec = p->part->exec;
    const tt_order *order = &exec->order[i];
    const tt_segment *segment = &exec->plan->segment[order->segment];
    const tt_row_time *time = &tt_exec_rows(exec)[i];
    tt_str name = {0};
    if (time->waited > 0) {
        begin_event(p, STAGES, "X");
        tt_json_str(&p->j, "name", "wait");
        tt_json_str(&p->j, "cat", "bubble");
        add_times(p, time->start, time->waited);
        tt_json_open(&p->j, "args", '{');
        tt_json_i64(&p->j, "rank", time->peer);
        tt_json_close(&p->j, '}');
        tt_json_close(&p->j, '}');
    }
    tt_str_addf(&name, "%s %d", segment->name, order->micro);
    begin_event(p, STAGES, "X");
    tt_json_str(&p->j, "name", tt_str_text(&name));
    tt_json_str(&p->j, "cat", tt_phase_name(segment->phase));
    add_times(p, time->start + time->waited,
              time->end - time->start - time->waited);
    tt_json_open(&p->j, "args", '{');
    tt_json_i64(&p->j, "chunk", segment->stage);
    tt_json_i64(&p->j, "micro", order->micro);
    tt_json_i64(&p->j, "slot", order->slot);
    if (exec->options.pace != NULL)
        tt_json_bool(&p->j, "paced", true);
    tt_json_close(&p->j, '}');
    tt_json_close(&p->j, '}');
    tt_str_fini(&name);
}

// ---- all of a rank -------------------------------------------------------

static bool has_stages(const printer *p)
{
    const tt_exec *exec = p->part->exec;
    return exec != NULL && tt_exec_rows(exec) != NULL && exec->n_runs > 0;
}

static void add_names(printer *p)
{
    tt_str name = {0};
    tt_str_addf(&name, "rank %d (%s)", p->part->rank, p->part->host);
    add_meta(p, STEPS, "process_name", tt_str_text(&name));
    add_index(p, STEPS, "process_sort_index", p->part->rank);
    for (int row = 0; row < N_ROWS; row++) {
        if (row == STAGES && !has_stages(p))
            continue;
        add_meta(p, row, "thread_name", row_name[row]);
        add_index(p, row, "thread_sort_index", row_place[row]);
    }
    tt_str_fini(&name);
}

static const tt__event *event_at(const tt_exec *exec, int64_t i)
{
    return &exec->event[i % exec->events_capacity];
}

// The wire shows collectives better than the steps that began them.
static void add_kernels(printer *p, const tt_exec *exec, int64_t max)
{
    if (exec == NULL || exec->event == NULL)
        return;
    const int64_t n = exec->n_events;
    const int64_t kept = n < exec->events_capacity ? n : exec->events_capacity;
    const int64_t first = n - (kept < max ? kept : max);
    if (first < n && first > 0)
        p->from = fmax(p->from, event_at(exec, first)->start);
    for (int64_t i = first; i < n; i++) {
        const tt__event *e = event_at(exec, i);
        if (!tt_op_is_collective(exec->plan->step[e->step].op))
            add_kernel(p, exec, e);
    }
}

void tt_trace_begin(tt_str *out)
{
    tt_str_add(out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
}

void tt_trace_next(tt_str *out)
{
    tt_str_add(out, ",\n");
}

void tt_trace_end(tt_str *out)
{
    tt_str_add(out, "\n]}\n");
}

void tt_trace_add(const tt_trace_part *part, tt_str *out)
{
    const int64_t few = part->max_events / 8;
    printer p = {
        .part = part, .j = {.out = out, .is_compact = true}, .from = -HUGE_VAL};
    add_names(&p);
    const int64_t kernels = part->max_events - 3 * few;
    add_kernels(&p, part->worker, kernels / 2);
    add_kernels(&p, part->exec, part->worker != NULL ? kernels / 2 : kernels);
    if (part->exec != NULL && has_stages(&p))
        for (int32_t i = 0; i < part->exec->plan->n_order; i++)
            add_row(&p, i);
    // A flight may be two events.
    const int64_t flights = part->n_flights < few ? part->n_flights : few;
    for (int64_t i = part->n_flights - flights; i < part->n_flights; i++)
        if (part->flight[i].ended >= p.from)
            add_flight(&p, &part->flight[i]);
    const int64_t marks = part->n_marks < few ? part->n_marks : few;
    for (int64_t i = part->n_marks - marks; i < part->n_marks; i++)
        if (part->mark[i].end >= p.from)
            add_mark(&p, &part->mark[i]);
}
