// mpi_native - MPI's own collectives, as requests: a blocking one has no deadline. If
// a peer died, MPI_Allreduce would wait for ever. A request is tested again and again,
// and meanwhile signs of life are exchanged.
//
// Reductions and broadcasts go in pieces that fit the cache, several at a time: one
// call for everything is slower. Collectives of blocks are one call.

#include "base/alloc.h"
#include "base/clock.h"
#include "comm/transport/mpi_state.h"

#include <limits.h>

enum { PIECE = 4 << 20, WINDOW = 8, STAGED = 4 };

// ---- one request ---------------------------------------------------------

static tt_status look(tt__mpi *m, tt_mpi_request *request, bool *done)
{
    (void)pthread_mutex_lock(&m->lock);
    tt_status status = TT_OK;
    const int code = m->api->test(request, done, NULL);
    if (code != 0)
        status = tt__mpi_fail(m, code, "finish a collective");
    else if (!*done)
        status = tt__mpi_listen(m);
    else
        m->idle_since = 0;
    (void)pthread_mutex_unlock(&m->lock);
    return status;
}

static tt_status wait_for(tt__mpi *m, tt_mpi_request *request, tt_rest *rest)
{
    for (;;) {
        bool is_done = false;
        TT_TRY(look(m, request, &is_done));
        if (is_done)
            return TT_OK;
        const double waited = tt_comm_rest(&m->base, rest);
        if (waited > m->base.deadline)
            return tt_fail(TT_ERR_TIMEOUT,
                           "rank %d waited %.1f s in MPI's own collective",
                           m->base.rank, waited);
    }
}

static tt_status finish(tt__mpi *m, tt_mpi_request *request)
{
    tt_rest rest = {0};
    const tt_status status = wait_for(m, request, &rest);
    tt_comm_rested(&m->base, &rest);
    return status;
}

static tt_status begin(tt__mpi *m, const tt_mpi_coll *coll, tt_mpi_request *out)
{
    (void)pthread_mutex_lock(&m->lock);
    const int code = m->api->collect(coll, out);
    (void)pthread_mutex_unlock(&m->lock);
    return code == 0 ? TT_OK : tt__mpi_fail(m, code, "begin a collective");
}

// ---- in pieces, or whole -------------------------------------------------

// Where pieces are copied first, so that in and out do not overlap; NULL: not needed.
static tt_status stage_of(tt__mpi *m, const tt_coll_call *call,
                          char **stage_out)
{
    *stage_out = NULL;
    if (!m->api->is_slow_in_place || call->kind != TT_ALL_REDUCE ||
        call->in != call->out || call->group.n != 2)
        return TT_OK;
    if (m->stage == NULL)
        m->stage = tt_alloc_aligned((int64_t)STAGED * PIECE, 64);
    *stage_out = m->stage;
    return m->stage != NULL
               ? TT_OK
               : tt_fail(TT_ERR_NOMEM, "mpi: no memory for a collective");
}

static tt_status in_pieces(tt__mpi *m, const tt_coll_call *call,
                           tt_mpi_coll coll)
{
    const int64_t most = PIECE / tt_num_bytes(call->fold.type);
    tt_mpi_request request[WINDOW];
    char *stage = NULL;
    TT_TRY(stage_of(m, call, &stage));
    const int window = stage == NULL ? WINDOW : STAGED;
    int64_t begun = 0, ended = 0;
    for (int64_t at = 0; at < call->count; at += most, begun++) {
        const int64_t left = call->count - at;
        coll.count = (int)(left < most ? left : most);
        coll.in = tt_coll_from(call, at);
        coll.out = tt_coll_to(call, at);
        if (begun - ended == window)
            TT_TRY(finish(m, &request[ended++ % window]));
        if (stage != NULL) {
            char *apart = stage + begun % window * PIECE;
            tt_coll_copy(call, apart, coll.in, coll.count);
            coll.in = apart;
        }
        TT_TRY(begin(m, &coll, &request[begun % window]));
    }
    while (ended < begun)
        TT_TRY(finish(m, &request[ended++ % window]));
    return TT_OK;
}

static tt_status whole(tt__mpi *m, const tt_coll_call *call, tt_mpi_coll coll)
{
    const int n = call->group.n;
    int *block = m->counts, *first = block + n;
    int *received = first + n, *to_first = received + n;
    const int64_t mine = tt_coll_block(call, call->group.me).n;
    for (int i = 0; i < n; i++) {
        const tt_block b = tt_coll_block(call, i);
        block[i] = (int)b.n;
        first[i] = (int)b.first;
        received[i] = (int)mine;
        to_first[i] = (int)(mine * i);
    }
    coll.count = (int)call->count;
    coll.block = block;
    coll.first = first;
    coll.received = received;
    coll.to_first = to_first;
    tt_mpi_request request;
    TT_TRY(begin(m, &coll, &request));
    return finish(m, &request);
}

// MPI's world is all ranks in their order; its counts are ints.
bool tt__mpi_has_native(const tt_comm *comm, const tt_coll_call *call)
{
    const tt_group *g = &call->group;
    int64_t most = call->count;
    if (g->n != comm->size)
        return false;
    for (int32_t i = 0; i < g->n; i++) {
        const int64_t received = tt_coll_block(call, i).n * g->n;
        most = received > most ? received : most;
        if (g->rank != NULL && g->rank[i] != i)
            return false;
    }
    return most <= INT_MAX;
}

tt_status tt__mpi_native(tt_comm *comm, const tt_coll_call *call)
{
    tt__mpi *m = (tt__mpi *)comm;
    const double start = tt_clock_seconds();
    const tt_mpi_coll coll = {.kind = call->kind,
                              .fold = call->fold,
                              .in = call->in,
                              .out = call->out,
                              .root = call->root};
    const bool is_cut = call->kind == TT_ALL_REDUCE ||
                        call->kind == TT_REDUCE_TO ||
                        call->kind == TT_BROADCAST;
    m->is_collecting = true;
    const tt_status status =
        is_cut ? in_pieces(m, call, coll) : whole(m, call, coll);
    m->is_collecting = false;
    comm->stats.wait_seconds += tt_clock_seconds() - start;
    if (status != TT_OK)
        comm->def->abandon(comm);
    return status;
}
