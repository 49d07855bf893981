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
// Moves between stages do not take turns: each has room of its own in pinned memory, in
// each slot (wire_device_moves.c).
//
//   cost    two copies over the bus per collective, and the two halves of pinned
//           memory, each as large as the largest collective of any plan; and the room of
//           moves

#include "base/alloc.h"
#include "base/clock.h"
#include "exec/wire/wire_plan.h"
#include "ops/ops.h"

#include <time.h>

// Events of a device: first one per half (its content has left), then the arrival of an
// operand, then what moves have brought, then two for each flight of each slot, then one
// for each leg.
enum { ALIGN = 4096, HALVES = 2, FETCHED = HALVES };
enum { FLIGHTS = TT__STAGE_BROUGHT + 1 };
_Static_assert((int)TT__STAGE_BROUGHT == FETCHED + 1, "events of a device");

int64_t tt__wire_stage_ready(const tt__wire_job *job)
{
    return FLIGHTS + 2 * (job - job->plan->job);
}

int64_t tt__wire_stage_landed(const tt__wire_job *job)
{
    return tt__wire_stage_ready(job) + 1;
}

int64_t tt__wire_stage_left(const tt__wire_job *job, const tt__wire_leg *leg)
{
    return FLIGHTS + 2 * (int64_t)job->plan->n_jobs + (leg - job->plan->leg);
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

// Whether nothing but moves is in a flight.
static bool is_move(const tt_plan *plan, const tt_flight *flight)
{
    for (int32_t i = 0; i < flight->n; i++)
        if (plan->step[plan->member[flight->first + i]].op != &tt_op_move)
            return false;
    return true;
}

static int64_t message_bytes(const tt_traffic_site *x)
{
    return round_up(max_i64(tt_traffic_site_sends(x) ? x->in_bytes : 0,
                            tt_traffic_site_receives(x) ? x->out_bytes : 0));
}

// Of all moves that can be under way at a time.
static int64_t moves_bytes(const tt_plan *plan)
{
    int64_t bytes = 0;
    for (int32_t f = 0; f < plan->n_flights; f++) {
        const tt_flight *flight = &plan->flight[f];
        for (int32_t i = 0; i < flight->n && is_move(plan, flight); i++) {
            const tt_traffic_site x =
                tt_traffic_site_of(plan, plan->member[flight->first + i]);
            bytes += message_bytes(&x);
        }
    }
    return plan->n_slots * bytes;
}

static int64_t half_bytes(const tt_plan *plan)
{
    tt_traffic_packets packets;
    int64_t most = 0;
    for (int32_t f = 0; f < plan->n_flights; f++) {
        const tt_flight *flight = &plan->flight[f];
        if (is_move(plan, flight))
            continue;
        if (flight->is_joined) {
            const tt_traffic_site x = tt_traffic_site_joined(plan, flight);
            const tt_step *step = &plan->step[plan->member[flight->first]];
            most = max_i64(
                most,
                place_of(&x, step->out[0].offset - step->in[0].offset).bytes);
            continue;
        }
        const bool is_packets = tt_traffic_packets_of(plan, flight, &packets);
        int64_t row = 0;
        for (int32_t i = 0; i < flight->n; i++) {
            const int32_t s = plan->member[flight->first + i];
            const tt_traffic_site x = tt_traffic_site_of(plan, s);
            row += is_packets ? tt__wire_packets_room(&x) : 0;
            most = max_i64(most, is_packets ? row : step_bytes(plan, s));
        }
    }
    return (most + ALIGN - 1) / ALIGN * ALIGN;
}

int64_t tt_wire_stage_bytes(const tt_plan *plan)
{
    return HALVES * half_bytes(plan) +
           (moves_bytes(plan) + ALIGN - 1) / ALIGN * ALIGN;
}

// Memory is not freed before the end: devices have it pinned. Blocks that were replaced
// by larger ones are linked through their first bytes (`kept`). Memory of the transport
// is not given back at all, so it needs no link.
static tt_status take_block(tt__carrier *c, int64_t bytes, char **memory_out)
{
    tt__wire_stage *s = &c->stage;
    char *memory = tt_comm_alloc(c->comm, bytes);
    if (memory == NULL) {
        char *block = tt_alloc_aligned(bytes + ALIGN, ALIGN);
        if (block == NULL)
            return tt_fail(TT_ERR_NOMEM,
                           "no %lld bytes of the host's memory for collectives "
                           "of a device",
                           (long long)bytes);
        *(void **)block = s->kept;
        s->kept = block;
        memory = block + ALIGN;
    }
    *memory_out = memory;
    return TT_OK;
}

static tt_status make_room(tt__carrier *c, int64_t half, int64_t moves)
{
    tt__wire_stage *s = &c->stage;
    if (half > s->bytes) {
        TT_TRY(take_block(c, HALVES * half, &s->memory));
        s->bytes = half;
    }
    if (moves > s->moves_bytes) {
        TT_TRY(take_block(c, moves, &s->moves));
        s->moves_bytes = moves;
    }
    return TT_OK;
}

static void give_rooms(const tt__carrier *c, tt__wire_plan *plan)
{
    char *room = c->stage.moves;
    for (int32_t j = 0; j < plan->n_jobs; j++) {
        tt__wire_job *job = &plan->job[j];
        for (int32_t i = 0; i < job->n_legs && job->is_move; i++) {
            job->leg[i].room = room;
            room += message_bytes(&job->leg[i].x);
        }
    }
}

tt_status tt__wire_stage_bind(tt__carrier *c, tt__wire_plan *plan)
{
    tt_backend *backend = plan->device;
    const tt_queue_def *queue = backend->def->queue;
    const int64_t moves = plan->is_linked ? 0 : moves_bytes(plan->plan);
    if (queue == NULL)
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "ranks cannot exchange the memory of device=%s; use one "
                       "rank, or device=cpu",
                       backend->def->name);
    TT_TRY(queue->events(backend,
                         FLIGHTS + 2 * (int64_t)plan->n_jobs + plan->n_legs));
    c->comm->fold_threads = backend->options.n_threads;
    TT_TRY(make_room(c, half_bytes(plan->plan),
                     (moves + ALIGN - 1) / ALIGN * ALIGN));
    if (!plan->is_linked)
        give_rooms(c, plan);
    // Memory that cannot be pinned is only slower.
    if (c->stage.bytes > 0)
        (void)queue->pin(backend, c->stage.memory, HALVES * c->stage.bytes);
    if (c->stage.moves_bytes > 0)
        (void)queue->pin(backend, c->stage.moves, c->stage.moves_bytes);
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

// Whether the device has reached an event by now. It may have much queued work before it,
// hence the long limit. The thread naps between looks: a rank may have one core.
static tt_status look(const tt__carrier *c, tt_backend *backend, int64_t event,
                      double since, bool *over_out)
{
    enum { PATIENCE = 20 };
    const double most = PATIENCE * c->comm->deadline;
    TT_TRY(backend->def->queue->is_over(backend, event, over_out));
    return *over_out || tt_clock_seconds() - since <= most
               ? TT_OK
               : tt_fail(TT_ERR_TIMEOUT,
                         "the device of rank %d has not come to it in %.0f s",
                         c->comm->rank, most);
}

static void nap(int64_t turn)
{
    enum { SPINS = 64 };
    const struct timespec rest = {.tv_nsec = 20000};
    if (turn >= SPINS)
        (void)nanosleep(&rest, NULL);
}

tt_status tt__wire_stage_wait(const tt__carrier *c, tt_backend *backend,
                              int64_t event)
{
    const double start = tt_clock_seconds();
    bool is_over = false;
    for (int64_t turn = 0;; turn++) {
        TT_TRY(look(c, backend, event, start, &is_over));
        if (is_over)
            return TT_OK;
        nap(turn);
    }
}

// The same; moves go on meanwhile.
static tt_status wait_for(const tt__carrier *c, tt_backend *backend,
                          int64_t event)
{
    const double start = tt_clock_seconds();
    bool is_over = false;
    for (int64_t turn = 0;; turn++) {
        TT_TRY(look(c, backend, event, start, &is_over));
        if (is_over)
            return TT_OK;
        if (c->comm->meanwhile == NULL ||
            !c->comm->meanwhile(c->comm->meanwhile_user))
            nap(turn);
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
    const bool has_both = leg->in != NULL && leg->out != NULL;
    const place p =
        place_of(x, x->is_in_place && has_both ? leg->out - leg->in : 0);
    const int half = c->stage.turn;
    char *room = c->stage.memory + half * c->stage.bytes;
    c->stage.turn = (half + 1) % HALVES;
    TT_TRY(wait_for(c, backend, half));
    if (x->in_bytes > 0 && leg->in != NULL) {
        TT_TRY(queue->copy(backend, TT_QUEUE_WIRE, room + p.in, leg->in,
                           x->in_bytes));
        TT_TRY(queue->note(backend, TT_QUEUE_WIRE, FETCHED));
        TT_TRY(wait_for(c, backend, FETCHED));
    }
    TT_TRY(leg->way->run(c, leg, leg->in != NULL ? room + p.in : NULL,
                         room + p.out));
    if (x->out_bytes > 0 && leg->out != NULL)
        TT_TRY(queue->copy(backend, TT_QUEUE_WIRE, leg->out, room + p.out,
                           x->out_bytes));
    return queue->note(backend, TT_QUEUE_WIRE, half);
}

static tt_status copy_packets(tt_backend *backend, const tt__wire_job *job,
                              char *stage, bool is_back)
{
    const tt_queue_def *queue = backend->def->queue;
    for (int32_t i = 0; i < job->n_legs; i++) {
        const tt__wire_leg *leg = &job->leg[i];
        char *out = stage + round_up(leg->x.in_bytes);
        TT_TRY(is_back ? queue->copy(backend, TT_QUEUE_WIRE, leg->out, out,
                                     leg->x.out_bytes)
                       : queue->copy(backend, TT_QUEUE_WIRE, stage, leg->in,
                                     leg->x.in_bytes));
        stage += tt__wire_packets_room(&leg->x);
    }
    return TT_OK;
}

// The same for all packets of a flight at once.
tt_status tt__carry_staged_packets(tt__carrier *c, tt_backend *backend,
                                   const tt__wire_job *job)
{
    const tt_queue_def *queue = backend->def->queue;
    const int half = c->stage.turn;
    char *room = c->stage.memory + half * c->stage.bytes;
    c->stage.turn = (half + 1) % HALVES;
    TT_TRY(wait_for(c, backend, half));
    TT_TRY(copy_packets(backend, job, room, false));
    TT_TRY(queue->note(backend, TT_QUEUE_WIRE, FETCHED));
    TT_TRY(wait_for(c, backend, FETCHED));
    TT_TRY(tt__wire_packets_run(c, job, room));
    TT_TRY(copy_packets(backend, job, room, true));
    return queue->note(backend, TT_QUEUE_WIRE, half);
}
