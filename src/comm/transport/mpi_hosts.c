// mpi_hosts - which ranks share a host, and how messages are cut for it.
//
//   near   pieces of 1 MiB, which one side copies out of the other's memory; folding
//          one overlaps with the arrival of the next, out of the cache
//   far    pieces small enough for MPI's eager protocol. Larger ones wait for the
//          receiver's answer (rendezvous), which queues after what it sends itself:
//          two hosts that send to each other then lose half of the link

#include "base/alloc.h"
#include "comm/transport/mpi_state.h"

static const tt__mpi_cut near = {.piece = 1 << 20, .window = 4};
static const tt__mpi_cut far = {.piece = 60 << 10, .window = TT__MPI_WINDOW};

void tt__mpi_cut_lanes(tt__mpi *m)
{
    for (int32_t r = 0; r < m->base.size; r++) {
        const bool is_near =
            m->n_hosts > 0 && m->host[r] == m->host[m->base.rank];
        m->in[r].cut = m->out[r].cut = is_near ? near : far;
    }
}

static int64_t hash_of(const char *text)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; *text != '\0'; text++)
        h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return (int64_t)h;
}

// Ranks whose machines have the same name are on one host; hosts are counted in the
// order of ranks.
static tt_status number(tt__mpi *m, int64_t *names)
{
    tt_comm *comm = &m->base;
    char name[TT_MPI_TEXT] = "";
    m->api->host(name);
    const int64_t mine = hash_of(name);
    const tt_coll_call call = {.kind = TT_ALL_GATHER,
                               .group = {.n = comm->size, .me = comm->rank},
                               .fold = {TT_FOLD_COPY, TT_NUM_I64},
                               .count = comm->size,
                               .in = &mine,
                               .out = names};
    TT_TRY(tt_coll_run(tt_coll_find("naive"), comm, &call));
    int32_t n = 0;
    for (int32_t r = 0; r < comm->size; r++) {
        int32_t same = 0;
        while (names[same] != names[r])
            same++;
        m->host[r] = same < r ? m->host[same] : n++;
    }
    m->n_hosts = n;
    m->base.is_guest = n > 1; // waits for a network may sleep
    tt__mpi_cut_lanes(m);
    return TT_OK;
}

tt_status tt__mpi_find_hosts(tt__mpi *m)
{
    int64_t *names = tt_alloc(m->base.size * (int64_t)sizeof *names);
    const tt_status status =
        names == NULL
            ? tt_fail(TT_ERR_NOMEM, "mpi: no memory for %d ranks", m->base.size)
            : number(m, names);
    tt_free(names);
    return status;
}
