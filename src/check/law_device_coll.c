// law_device_coll - collectives that devices do by themselves (NCCL) are what they
// promise.
//
// Each rank has a device of its own: as many as there are, at most three. Every call
// is made in every type, and each element of the result is compared with its
// definition. The rest of the output buffer must be untouched.
//
// Values are small whole numbers. Every type holds and sums them exactly, so results
// must be equal and no tolerance is needed.

#include "base/alloc.h"
#include "base/clock.h"
#include "check/law.h"
#include "check/rank_threads.h"

#include <string.h>
#include <time.h>

enum { COUNT = 37, MOST = 3 };

typedef struct subject {
    const tt_backend_def *device;
    int32_t n;
    unsigned char id[TT_DEVICE_COMM_ID];
    tt_device_coll call; // without addresses, which differ by rank
    int32_t n_wrong[TT_RANK_THREADS_MOST];
} subject;

static const char *const names[TT_N_DEVICE_COLLS] = {
    "all_reduce",     "reduce", "broadcast", "all_gather",
    "reduce_scatter", "send",   "receive"};

static double element(int32_t rank, int64_t i)
{
    return (double)((i * 7 + rank * INT64_C(5)) % 13);
}

// Element i of what a rank gets; -1: any value is fine, since it is not part of the
// result.
static double wanted(const subject *s, int32_t rank, int64_t i)
{
    const tt_device_coll *c = &s->call;
    double sum = 0, most = 0;
    const int64_t at =
        c->kind == TT_DEVICE_COLL_REDUCE_SCATTER ? rank * c->count + i : i;
    for (int32_t r = 0; r < s->n; r++) {
        sum += element(r, at);
        most = element(r, at) > most ? element(r, at) : most;
    }
    switch (c->kind) {
    case TT_DEVICE_COLL_ALL_GATHER:
        return element((int32_t)(i / c->count), i % c->count);
    case TT_DEVICE_COLL_BROADCAST:
        return element(c->peer, i);
    case TT_DEVICE_COLL_SEND: // around the ring
        return element((rank + s->n - 1) % s->n, i);
    case TT_DEVICE_COLL_REDUCE:
        if (rank != c->peer)
            return -1;
        break;
    default:
        break;
    }
    return c->is_max ? most : sum;
}

// ---- one rank ------------------------------------------------------------

// One rank's side: its device, its communicator and its buffers.
typedef struct end {
    tt_backend *backend;
    tt_device_comm *comm;
    char *host; // input, then output
    void *in, *out;
} end;

// Waiting is polling with a nap. A collective that one rank never joins would hang for
// ever, so every wait ends after a minute.
static tt_status too_late(const char *what, double since)
{
    enum { SECONDS = 60 };
    const struct timespec nap = {.tv_nsec = 100000};
    (void)nanosleep(&nap, NULL);
    return tt_clock_seconds() - since < SECONDS
               ? TT_OK
               : tt_fail(TT_ERR_TIMEOUT, "%s takes more than a minute", what);
}

static tt_status wait_idle(const end *e)
{
    const double start = tt_clock_seconds();
    bool is_busy = true;
    while (is_busy) {
        TT_TRY(e->backend->def->device_comm->is_busy(e->comm, &is_busy));
        TT_TRY(too_late("a call", start));
    }
    return TT_OK;
}

static tt_status wait_event(const end *e)
{
    const double start = tt_clock_seconds();
    const tt_queue_def *queue = e->backend->def->queue;
    bool is_over = false;
    TT_TRY(queue->note(e->backend, TT_QUEUE_WIRE, 0));
    while (!is_over) {
        TT_TRY(queue->is_over(e->backend, 0, &is_over));
        TT_TRY(too_late("the device", start));
    }
    return TT_OK;
}

static int64_t in_count(const subject *s)
{
    return s->call.kind == TT_DEVICE_COLL_REDUCE_SCATTER ? s->n * s->call.count
                                                         : s->call.count;
}

static int64_t out_count(const subject *s)
{
    return s->call.kind == TT_DEVICE_COLL_ALL_GATHER ? s->n * s->call.count
                                                     : s->call.count;
}

static tt_status run_call(const subject *s, const end *e, int32_t rank)
{
    tt_device_coll call[2] = {s->call, s->call};
    call[0].in = call[1].in = e->in;
    call[0].out = call[1].out = e->out;
    if (s->call.kind == TT_DEVICE_COLL_SEND) {
        call[0].peer = (rank + 1) % s->n;
        call[1].kind = TT_DEVICE_COLL_RECEIVE;
        call[1].peer = (rank + s->n - 1) % s->n;
    }
    TT_TRY(e->backend->def->device_comm->run(
        e->comm, call, s->call.kind == TT_DEVICE_COLL_SEND ? 2 : 1));
    TT_TRY(wait_idle(e));
    return wait_event(e);
}

static tt_status work(subject *s, end *e, int32_t rank)
{
    const tt_dtype dtype = s->call.dtype;
    const int64_t bytes = tt_dtype_bytes(dtype) * COUNT * MOST;
    const tt_backend_options options = {
        .n_threads = 1, .number = -1, .local = rank};
    TT_TRY(tt_backend_open(s->device, &options, &e->backend));
    TT_TRY(s->device->queue->events(e->backend, 1));
    e->host = tt_alloc(2 * bytes);
    if (e->host == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a law");
    TT_TRY(tt_memory_alloc(e->backend, bytes, &e->in));
    TT_TRY(tt_memory_alloc(e->backend, bytes, &e->out));
    for (int64_t i = 0; i < in_count(s); i++)
        tt_dtype_store(dtype, e->host, i, element(rank, i));
    for (int64_t i = 0; i < (int64_t)COUNT * MOST; i++)
        tt_dtype_store(dtype, e->host + bytes, i, 99);
    TT_TRY(tt_memory_write(e->backend, e->in, e->host, bytes));
    TT_TRY(tt_memory_write(e->backend, e->out, e->host + bytes, bytes));
    TT_TRY(tt_memory_wait(e->backend));
    TT_TRY(s->device->device_comm->open(e->backend, s->id, s->n, rank, false,
                                        &e->comm));
    TT_TRY(wait_idle(e));
    TT_TRY(run_call(s, e, rank));
    TT_TRY(tt_memory_read(e->backend, e->host, e->out, bytes));
    for (int64_t i = 0; i < (int64_t)COUNT * MOST; i++) {
        const double want = i < out_count(s) ? wanted(s, rank, i) : 99;
        if (want >= 0 && tt_dtype_load(dtype, e->host, i) != want)
            s->n_wrong[rank]++;
    }
    return TT_OK;
}

static tt_status run_rank(tt_comm *comm, void *user)
{
    subject *s = user;
    end e = {0};
    const tt_status status = work(s, &e, comm->rank);
    if (e.backend != NULL) {
        s->device->device_comm->close(e.comm, status != TT_OK);
        tt_memory_free(e.backend, e.in);
        tt_memory_free(e.backend, e.out);
    }
    tt_backend_close(e.backend);
    tt_free(e.host);
    return status;
}

// ---- every call ----------------------------------------------------------

static tt_status make_id(subject *s)
{
    tt_backend *backend = NULL;
    TT_TRY(tt_backend_open(s->device, NULL, &backend));
    const tt_status status = s->device->device_comm->make_id(backend, s->id);
    tt_backend_close(backend);
    return status;
}

static void check(tt_law_report *r, const tt_backend_def *device,
                  const tt_device_coll *call)
{
    const int n = device->count();
    subject s = {.device = device, .call = *call, .n = n < MOST ? n : MOST};
    s.call.peer = s.n - 1;
    tt_status status = make_id(&s);
    if (status == TT_OK)
        status = tt_rank_threads_run(s.n, 0, run_rank, &s);
    tt_law_report_check(r, status == TT_OK, "collectives of %s, %s: %s",
                        device->name, names[call->kind], tt_error_message());
    for (int32_t k = 0; k < s.n && status == TT_OK; k++)
        tt_law_report_check(
            r, s.n_wrong[k] == 0,
            "collectives of %s, %s of %s: %d elements of rank %d of %d "
            "are wrong",
            device->name, names[call->kind], tt_dtype_name(call->dtype),
            s.n_wrong[k], k, s.n);
}

static bool has_device_comm(const tt_backend_def *device)
{
    tt_backend *backend = NULL;
    int version = 0;
    if (device->device_comm == NULL || device->count == NULL ||
        device->count() == 0 ||
        tt_backend_open(device, NULL, &backend) != TT_OK)
        return false;
    const bool has = device->device_comm->version(backend, &version) == TT_OK;
    tt_backend_close(backend);
    return has;
}

static tt_status run(tt_law_report *r)
{
    static const tt_dtype dtypes[] = {TT_F32, TT_BF16, TT_F64, TT_F16,
                                      TT_I32, TT_I64,  TT_U8};
    enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };
    int n = 0;
    const tt_backend_def *const *all = tt_backend_all(&n);
    if (!tt_law_report_has_device(r))
        return TT_OK;
    for (int b = 0; b < n; b++) {
        if ((r->device != NULL && strcmp(r->device, all[b]->name) != 0) ||
            !has_device_comm(all[b]))
            continue;
        for (int kind = 0; kind < TT_DEVICE_COLL_RECEIVE; kind++) {
            const int most = kind <= TT_DEVICE_COLL_BROADCAST ? N_DTYPES : 2;
            for (int i = 0; i < most && tt_law_report_wants(r, names[kind]);
                 i++)
                check(r, all[b],
                      &(tt_device_coll){.kind = (tt_device_coll_kind)kind,
                                        .count = COUNT,
                                        .dtype = dtypes[i],
                                        .is_max = i % 2 == 1});
        }
    }
    return TT_OK;
}

const tt_law_def tt_law_device_coll = {
    .name = "device_coll",
    .doc = "Devices that reach each other do collectives as they are said to.",
    .needs_devices = true,
    .run = run,
};
