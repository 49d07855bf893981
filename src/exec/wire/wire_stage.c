// wire_stage - collectives of operands in a device's memory, by way of the host.
//
// The problem. Transports read and write the host's memory. A gradient lies in the
// memory of a GPU, and the GPU shall compute while the gradient travels.
//
// The idea. The operand is copied to the host, the collective runs there as it does
// without a device, and the result is copied back. The copies go through a queue of the
// device that is separate from the queue of steps, so steps run meanwhile.
//
//   device   operand ----.            .---> result        wire's queue
//   host                 v            |
//            half 0   [ in ] collective [ out ]           halves take turns, so that
//            half 1   [ in ] ...                          one fills as the other leaves
//
// Nothing here knows which collective it is, so there is no second set of algorithms,
// and the result has the same bits as on a CPU. The memory is taken from the transport
// where peers can see it: a peer then reads the operand in place, which saves a copy.
// It is pinned, so that the device copies it at full speed and without blocking the
// host.
//
// Operators that need no peer are done by the device itself (tt__alone_take, tt__alone_keep).
//
//   cost    two copies over the bus per collective, and the two halves of pinned
//           memory, each as large as the largest collective of any plan

#include "base/alloc.h"
#include "base/clock.h"
#include "exec/wire/wire_plan.h"

#include <time.h>

// Events of a device: first one per half (its content has left), then the arrival of an
// operand, then two for each flight.
enum { ALIGN = 4096, HALVES = 2, FETCHED = HALVES, FLIGHTS };

int64_t tt__wire_stage_ready(int32_t flight)
{
    return FLIGHTS + 2 * (int64_t)flight;
}

int64_t tt__wire_stage_landed(int32_t flight)
{
    return FLIGHTS + 2 * (int64_t)flight + 1;
}

// ---- room ----------------------------------------------------------------

// Where the two operands of a site lie in a half. If they share a buffer, their
// distance is the same as there.
typedef struct place {
    int64_t in, out, bytes;
} place;

static int64_t round_up(int64_t bytes)
{
    enum { LINE = 64 };
    return (bytes + LINE - 1) / LINE * LINE;
}

static int64_t max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

// `apart`: from the input's address to the output's, if they share a buffer.
static place place_of(const tt_traffic_site *x, int64_t apart)
{
    if (!x->is_in_place)
        return (place){.out = round_up(x->in_bytes),
                       .bytes = round_up(x->in_bytes) + x->out_bytes};
    place p = {.in = apart < 0 ? -apart : 0, .out = apart > 0 ? apart : 0};
    p.bytes = max_i64(p.in + x->in_bytes, p.out + x->out_bytes);
    return p;
}

static int64_t step_bytes(const tt_plan *plan, int32_t s)
{
    const tt_step *step = &plan->step[s];
    const tt_traffic_site x = tt_traffic_site_of(plan, s);
    if ((x.op->flags & TT_OP_SILENT) != 0)
        return 0;
    return place_of(&x, step->out[0].offset - step->in[0].offset).bytes;
}

static int64_t half_bytes(const tt_plan *plan)
{
    int64_t most = 0;
    for (int32_t f = 0; f < plan->n_flights; f++) {
        const tt_flight *flight = &plan->flight[f];
        if (flight->is_joined) {
            const tt_traffic_site x = tt_traffic_site_joined(plan, flight);
            const tt_step *step = &plan->step[plan->member[flight->first]];
            most = max_i64(
                most,
                place_of(&x, step->out[0].offset - step->in[0].offset).bytes);
            continue;
        }
        for (int32_t i = 0; i < flight->n; i++)
            most = max_i64(most,
                           step_bytes(plan, plan->member[flight->first + i]));
    }
    return (most + ALIGN - 1) / ALIGN * ALIGN;
}

int64_t tt_wire_stage_bytes(const tt_plan *plan)
{
    return HALVES * half_bytes(plan);
}

// Memory is not freed before the end: devices have it pinned. Blocks that were replaced
// by larger ones are linked through their first bytes (`kept`). Memory of the transport
// is not given back at all, so it needs no link.
static tt_status make_room(tt__carrier *c, int64_t bytes)
{
    tt__wire_stage *s = &c->stage;
    if (bytes <= s->bytes)
        return TT_OK;
    char *memory = tt_comm_alloc(c->comm, HALVES * bytes);
    if (memory == NULL) {
        char *block = tt_alloc_aligned(HALVES * bytes + ALIGN, ALIGN);
        if (block == NULL)
            return tt_fail(TT_ERR_NOMEM,
                           "no %lld bytes of the host's memory for collectives "
                           "of a device",
                           (long long)(HALVES * bytes));
        *(void **)block = s->kept;
        s->kept = block;
        memory = block + ALIGN;
    }
    s->memory = memory;
    s->bytes = bytes;
    return TT_OK;
}

tt_status tt__wire_stage_bind(tt__carrier *c, const tt_plan *plan,
                              tt_backend *backend)
{
    const tt_queue_def *queue = backend->def->queue;
    if (queue == NULL)
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "ranks cannot exchange the memory of device=%s; use one "
                       "rank, or device=cpu",
                       backend->def->name);
    TT_TRY(queue->events(backend, FLIGHTS + 2 * (int64_t)plan->n_flights));
    TT_TRY(make_room(c, half_bytes(plan)));
    if (c->stage.bytes > 0) // memory that cannot be pinned is only slower
        (void)queue->pin(backend, c->stage.memory, HALVES * c->stage.bytes);
    return TT_OK;
}

void tt__wire_stage_fini(tt__carrier *c)
{
    void *block = c->stage.kept;
    while (block != NULL) {
        void *next = *(void **)block;
        tt_free_aligned(block);
        block = next;
    }
}

// ---- carrying ------------------------------------------------------------

// Waits until the device has reached an event. It may have much queued work before that
// event, hence the long limit. The thread naps between looks: a rank may have one core.
static tt_status wait_for(const tt__carrier *c, tt_backend *backend,
                          int64_t event)
{
    enum { PATIENCE = 20, SPINS = 64 };
    const struct timespec nap = {.tv_nsec = 20000};
    const double start = tt_clock_seconds(),
                 most = PATIENCE * c->comm->deadline;
    for (int64_t turn = 0;; turn++) {
        bool is_over = false;
        TT_TRY(backend->def->queue->is_over(backend, event, &is_over));
        if (is_over)
            return TT_OK;
        if (turn >= SPINS)
            (void)nanosleep(&nap, NULL);
        if (tt_clock_seconds() - start > most)
            return tt_fail(TT_ERR_TIMEOUT,
                           "the device of rank %d has not come to it in %.0f s",
                           c->comm->rank, most);
    }
}

// The event of a half says that its result has left for the device. Only then may the
// next operand be copied there, so that is the first wait. The second wait is for the
// operand's arrival. The copy of the result is not waited for.
tt_status tt__carry_staged(tt__carrier *c, tt_backend *backend,
                           const tt__wire_leg *leg)
{
    const tt_queue_def *queue = backend->def->queue;
    const tt_traffic_site *x = &leg->x;
    const place p = place_of(x, x->is_in_place ? leg->out - leg->in : 0);
    const int half = c->stage.turn;
    char *room = c->stage.memory + half * c->stage.bytes;
    c->stage.turn = (half + 1) % HALVES;
    TT_TRY(wait_for(c, backend, half));
    if (x->in_bytes > 0) {
        TT_TRY(queue->copy(backend, TT_QUEUE_WIRE, room + p.in, leg->in,
                           x->in_bytes));
        TT_TRY(queue->note(backend, TT_QUEUE_WIRE, FETCHED));
        TT_TRY(wait_for(c, backend, FETCHED));
    }
    TT_TRY(leg->way->run(c, leg, room + p.in, room + p.out));
    if (x->out_bytes > 0)
        TT_TRY(queue->copy(backend, TT_QUEUE_WIRE, leg->out, room + p.out,
                           x->out_bytes));
    return queue->note(backend, TT_QUEUE_WIRE, half);
}
