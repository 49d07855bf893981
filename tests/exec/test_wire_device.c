// The wire and a device that is not there: its memory is the host's, what is in its
// wire's queue is done as late as possible. What it computes, and how its failures and
// those of links between devices are told. Ranks are threads.

#include "backend/ref/table.h"
#include "base/alloc.h"
#include "check/rank_threads.h"
#include "exec/wire/wire.h"
#include "ops/arith.h"
#include "ops/comm/comm.h"
#include "ops/comm/exchange_points.h"
#include "test.h"

#include <pthread.h>
#include <string.h>

enum { N = 1000, RANKS = 3, MOST = 64 };

// ---- the device ----------------------------------------------------------

typedef struct copy {
    void *to;
    const void *from;
    int64_t n;
} copy;

typedef struct fake {
    pthread_mutex_t lock;
    copy queued[MOST];
    int64_t n_queued, n_done;
    int64_t after[MOST]; // of events: what must be done
    bool is_broken, is_stuck;
    bool is_held; // what is noted in the wire's queue is never over
    // The steps come to their first event only after something has come in.
    bool is_late, has_come;
    int64_t first; // event of the steps; 0: none yet
    int n_pinned;
} fake;

static fake *fake_of(const tt_backend *backend)
{
    return backend->device;
}

static tt_status fake_open(tt_backend *backend)
{
    fake *f = tt_alloc(sizeof *f);
    if (f == NULL)
        return TT_ERR_NOMEM;
    (void)pthread_mutex_init(&f->lock, NULL);
    backend->device = f;
    return TT_OK;
}

static void fake_close(tt_backend *backend)
{
    (void)pthread_mutex_destroy(&fake_of(backend)->lock);
    tt_free(backend->device);
}

static bool has_any(tt_dtype dtype)
{
    return dtype < TT_N_DTYPES;
}

static tt_status mem_alloc(tt_backend *backend, int64_t bytes, void **out)
{
    (void)backend;
    *out = tt_alloc_aligned(bytes, 64);
    return *out != NULL ? TT_OK : TT_ERR_NOMEM;
}

static void mem_free(tt_backend *backend, void *block)
{
    (void)backend;
    tt_free_aligned(block);
}

static tt_status mem_fill(tt_backend *backend, void *to, int byte, int64_t n)
{
    (void)backend;
    memset(to, byte, (size_t)n);
    return TT_OK;
}

static tt_status mem_copy(tt_backend *backend, void *to, const void *from,
                          int64_t n)
{
    (void)backend;
    memcpy(to, from, (size_t)n);
    return TT_OK;
}

static tt_status mem_wait(tt_backend *backend)
{
    (void)backend;
    return TT_OK;
}

static void do_until(fake *f, int64_t n)
{
    for (; f->n_done < n; f->n_done++) {
        const copy *c = &f->queued[f->n_done % MOST];
        memcpy(c->to, c->from, (size_t)c->n);
    }
}

static tt_status q_events(tt_backend *backend, int64_t n)
{
    (void)backend;
    return n <= MOST ? TT_OK : TT_ERR_NOMEM;
}

static tt_status q_pin(tt_backend *backend, void *host, int64_t bytes)
{
    CHECK(host != NULL && bytes > 0);
    fake_of(backend)->n_pinned++;
    return tt_fail(TT_ERR_UNSUPPORTED, "it cannot be pinned");
}

static tt_status q_note(tt_backend *backend, tt_queue queue, int64_t event)
{
    fake *f = fake_of(backend);
    pthread_mutex_lock(&f->lock);
    if (queue == TT_QUEUE_STEPS && f->first == 0)
        f->first = event;
    f->after[event] = queue == TT_QUEUE_STEPS ? 0
                      : f->is_held            ? INT64_MAX
                                              : f->n_queued;
    pthread_mutex_unlock(&f->lock);
    return TT_OK;
}

static tt_status q_follow(tt_backend *backend, tt_queue queue, int64_t event)
{
    fake *f = fake_of(backend);
    pthread_mutex_lock(&f->lock);
    if (queue == TT_QUEUE_STEPS)
        do_until(f, f->after[event]);
    pthread_mutex_unlock(&f->lock);
    return TT_OK;
}

static tt_status q_is_over(tt_backend *backend, int64_t event, bool *over_out)
{
    fake *f = fake_of(backend);
    if (f->is_broken)
        return tt_fail(TT_ERR_IO, "the device broke");
    pthread_mutex_lock(&f->lock);
    *over_out = f->n_done >= f->after[event] && !f->is_stuck &&
                !(f->is_late && event == f->first && !f->has_come);
    if (!*over_out && !f->is_stuck && !f->is_held && f->n_done < f->n_queued)
        do_until(f, f->n_done + 1);
    pthread_mutex_unlock(&f->lock);
    return TT_OK;
}

static tt_status q_copy(tt_backend *backend, tt_queue queue, void *to,
                        const void *from, int64_t n)
{
    fake *f = fake_of(backend);
    if (queue == TT_QUEUE_STEPS)
        return mem_copy(backend, to, from, n);
    pthread_mutex_lock(&f->lock);
    f->has_come |= queue == TT_QUEUE_IN;
    CHECK(f->n_queued - f->n_done < MOST);
    f->queued[f->n_queued++ % MOST] = (copy){to, from, n};
    pthread_mutex_unlock(&f->lock);
    return TT_OK;
}

// ---- links that do nothing -----------------------------------------------

struct tt_device_comm {
    int32_t n;
};

static tt_status l_make_id(tt_backend *backend,
                           unsigned char id[TT_DEVICE_COMM_ID])
{
    (void)backend;
    memset(id, 7, TT_DEVICE_COMM_ID);
    return TT_OK;
}

static tt_status l_open(tt_backend *backend,
                        const unsigned char id[TT_DEVICE_COMM_ID], int32_t n,
                        int32_t me, bool is_apart, tt_device_comm **out)
{
    (void)backend;
    CHECK(!is_apart);
    CHECK(id[0] == 7 && id[TT_DEVICE_COMM_ID - 1] == 7 && me < n);
    *out = tt_alloc(sizeof **out);
    return *out != NULL ? TT_OK : TT_ERR_NOMEM;
}

static tt_status l_is_busy(tt_device_comm *links, bool *busy_out)
{
    CHECK(links != NULL);
    *busy_out = false;
    return TT_OK;
}

static tt_status l_run(tt_device_comm *links, const tt_device_coll *call, int n)
{
    CHECK(links != NULL && n == 1);
    CHECK(call->kind == TT_DEVICE_COLL_ALL_REDUCE && call->count == N);
    CHECK(call->dtype == TT_F32 && !call->is_max);
    return TT_OK;
}

static void l_close(tt_device_comm *links, bool is_broken)
{
    (void)is_broken;
    tt_free(links);
}

static const tt_memory_def memory = {.alloc = mem_alloc,
                                     .free = mem_free,
                                     .fill = mem_fill,
                                     .write = mem_copy,
                                     .read = mem_copy,
                                     .wait = mem_wait};
static const tt_queue_def queue = {.events = q_events,
                                   .pin = q_pin,
                                   .note = q_note,
                                   .follow = q_follow,
                                   .is_over = q_is_over,
                                   .copy = q_copy};
static const tt_device_comm_def links = {.name = "fake links",
                                         .make_id = l_make_id,
                                         .open = l_open,
                                         .is_busy = l_is_busy,
                                         .run = l_run,
                                         .close = l_close};
static const tt_backend_def device = {.name = "fake",
                                      .kernels = tt_ref_kernels,
                                      .memory = &memory,
                                      .queue = &queue,
                                      .device_comm = &links,
                                      .has_dtype = has_any,
                                      .open = fake_open,
                                      .close = fake_close};

// ---- a plan whose only flight is an all-reduce of N floats -----------------

typedef struct rig {
    tt_comm_wire *wire;
    tt_graph *graph;
    tt_backend *backend;
    tt_plan *plan;
    tt_exec *exec;
} rig;

static tt_graph *build(int32_t n_ranks)
{
    static const tt_grad_ops none = {0};
    tt_builder b;
    tt_graph *graph = NULL;
    CHECK_OK(tt_builder_init(&b, &none));
    b.graph->mesh = (tt_mesh){.n_axes = 1, .axis = {{"data", n_ranks}}};
    const tt_val x = tt_input(&b, "x", TT_F32, "n:1000");
    b.phase = TT_BACKWARD;
    b.origin = "layer.w";
    const tt_val sum = tt_tally(&b, tt_scale(&b, x, 1));
    tt_place_set(&b, sum, 0, tt_place_partial(TT_SUM));
    b.phase = TT_UPDATE;
    tt_output(&b, "y", tt_all_reduce(&b, sum, 0, TT_SUM));
    CHECK_OK(tt_builder_take(&b, &graph));
    tt_builder_fini(&b);
    return graph;
}

static tt_status open_graph(rig *r, tt_comm *comm, bool is_linked,
                            tt_graph *graph)
{
    const tt_backend_options one = {.n_threads = 1};
    r->graph = graph;
    TT_TRY(tt_comm_wire_open(comm, NULL, &r->wire));
    tt_comm_wire_by_devices(r->wire, is_linked);
    TT_TRY(tt_backend_open(&device, &one, &r->backend));
    TT_TRY(tt_plan_lower(r->graph, &r->backend->target,
                         &(tt_lower_options){.rank = comm->rank}, &r->plan));
    return tt_exec_create(r->plan, r->backend,
                          &(tt_exec_options){.wire = tt_comm_wire_of(r->wire)},
                          &r->exec);
}

static tt_status rig_open(rig *r, tt_comm *comm, bool is_linked)
{
    TT_TRY(open_graph(r, comm, is_linked, build(comm->size)));
    CHECK(r->plan->n_flights == 1);
    return TT_OK;
}

static void rig_close(rig *r)
{
    tt_exec_destroy(r->exec);
    tt_plan_destroy(r->plan);
    tt_backend_close(r->backend);
    tt_graph_destroy(r->graph);
    tt_comm_wire_close(r->wire);
}

static tt_status run_once(const rig *r, int32_t rank)
{
    float x[N];
    for (int i = 0; i < N; i++)
        x[i] = (float)(i + rank);
    TT_TRY(tt_exec_write(r->exec, tt_graph_find(r->graph, "x"), x));
    return tt_exec_run(r->exec, NULL, NULL);
}

// ---- sums ----------------------------------------------------------------

static tt_status add_up(tt_comm *comm, void *user)
{
    rig r = {0};
    float y[N];
    (void)user;
    tt_status status = rig_open(&r, comm, false);
    CHECK(fake_of(r.backend)->n_pinned == 1);
    // Twice a buffer in two halves, and a page at least.
    CHECK(tt_wire_stage_bytes(r.plan) == 2 * 4096);
    for (int k = 0; k < 3 && status == TT_OK; k++) {
        status = run_once(&r, comm->rank);
        if (status == TT_OK)
            status =
                tt_exec_read(r.exec, tt_graph_output_find(r.graph, "y"), y);
        for (int i = 0; i < N && status == TT_OK; i++)
            CHECK(y[i] == (float)(RANKS * i + 3));
    }
    rig_close(&r);
    return status;
}

TEST(what_a_device_sums_comes_back_before_it_is_read)
{
    CHECK_OK(tt_rank_threads_run(RANKS, 1 << 20, add_up, NULL));
    CHECK_OK(
        tt_rank_threads_run(RANKS, 0, add_up, NULL)); // no memory is shared
}

// ---- moves ---------------------------------------------------------------

// From 0 to 1, from 1 to 0, from 0 to 2 and from 2 to 2.
static tt_graph *build_moves(int32_t n_ranks)
{
    static const tt_grad_ops none = {0};
    tt_builder b;
    tt_graph *graph = NULL;
    CHECK_OK(tt_builder_init(&b, &none));
    b.graph->mesh = (tt_mesh){.n_axes = 1, .axis = {{"a", n_ranks}}};
    const tt_val x = tt_input(&b, "x", TT_F32, "n:1000");
    tt_output(&b, "a", tt_move_value(&b, tt_scale(&b, x, 2), 0, 0, 1));
    tt_output(&b, "b", tt_move_value(&b, tt_scale(&b, x, 3), 0, 1, 0));
    if (n_ranks > 2) {
        tt_output(&b, "c", tt_move_value(&b, tt_scale(&b, x, 4), 0, 0, 2));
        tt_output(&b, "d", tt_move_value(&b, tt_scale(&b, x, 5), 0, 2, 2));
    }
    CHECK_OK(tt_builder_take(&b, &graph));
    tt_builder_fini(&b);
    return graph;
}

// What came from a rank, times a factor.
static tt_status check_move(const rig *r, const char *name, int from,
                            float factor)
{
    float y[N];
    TT_TRY(tt_exec_read(r->exec, tt_graph_output_find(r->graph, name), y));
    for (int i = 0; i < N; i++)
        CHECK(y[i] == factor * (float)(i + from));
    return TT_OK;
}

static tt_status move_on(tt_comm *comm, void *user)
{
    rig r = {0};
    const bool is_late = *(const bool *)user && comm->rank == 0;
    tt_status status = open_graph(&r, comm, false, build_moves(comm->size));
    for (int k = 0; k < 3 && status == TT_OK; k++) {
        fake_of(r.backend)->is_late = is_late;
        fake_of(r.backend)->has_come = false;
        status = run_once(&r, comm->rank);
        if (status == TT_OK && comm->rank == 0)
            status = check_move(&r, "b", 1, 3);
        if (status == TT_OK && comm->rank == 1)
            status = check_move(&r, "a", 0, 2);
        if (status == TT_OK && comm->rank == 2)
            status = check_move(&r, "c", 0, 4);
        if (status == TT_OK && comm->rank == 2)
            status = check_move(&r, "d", 2, 5);
    }
    rig_close(&r);
    return status;
}

TEST(what_a_device_sends_to_another_stage_comes_before_it_is_read)
{
    bool is_late = false;
    CHECK_OK(tt_rank_threads_run(RANKS, 1 << 20, move_on, &is_late));
    CHECK_OK(tt_rank_threads_run(RANKS, 0, move_on, &is_late));
}

// Rank 0 has not made what it sends first until it has received something.
TEST(a_move_that_waits_for_its_device_holds_up_no_other)
{
    bool is_late = true;
    CHECK_OK(tt_rank_threads_run(RANKS, 1 << 20, move_on, &is_late));
    CHECK_OK(tt_rank_threads_run(2, 0, move_on, &is_late));
}

// ---- failures ------------------------------------------------------------

typedef enum trouble {
    BROKEN,
    STUCK,
    MOVES_BREAK,
    MOVES_STICK,
    BEHIND,
    ALL_WAIT
} trouble;

static tt_status fail(tt_comm *comm, void *user)
{
    const trouble t = *(const trouble *)user;
    const bool moves = t == MOVES_BREAK || t == MOVES_STICK;
    rig r = {0};
    tt_status status = moves ? open_graph(&r, comm, false, build_moves(2))
                             : rig_open(&r, comm, t >= BEHIND);
    if (status == TT_OK) {
        comm->deadline = 0.05;
        fake_of(r.backend)->is_broken = t == BROKEN || t == MOVES_BREAK;
        fake_of(r.backend)->is_stuck = t == STUCK || t == MOVES_STICK;
        fake_of(r.backend)->is_held = t >= BEHIND;
    }
    if (status == TT_OK && !(t == BEHIND && comm->rank == 1))
        status = run_once(&r, comm->rank);
    rig_close(&r);
    return status;
}

static void expect(trouble t, tt_status status, const char *text)
{
    CHECK(tt_rank_threads_run(2, 0, fail, &t) == status);
    CHECK_MSG(strstr(tt_error_message(), text) != NULL, "%s",
              tt_error_message());
}

TEST(a_device_that_breaks_or_stands_still_is_told)
{
    expect(BROKEN, TT_ERR_IO, "the device broke");
    expect(STUCK, TT_ERR_TIMEOUT, "has not come to it");
    expect(MOVES_BREAK, TT_ERR_IO, "the device broke");
    expect(MOVES_STICK, TT_ERR_TIMEOUT, "has not come to it");
}

TEST(who_links_wait_for_is_named)
{
    expect(BEHIND, TT_ERR_TIMEOUT, "for rank 1");
    expect(ALL_WAIT, TT_ERR_TIMEOUT, "fake links: rank ");
}
