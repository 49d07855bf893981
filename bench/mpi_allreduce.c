// mpi_allreduce - MPI's own all-reduce as it is, and as Tutti calls it (`native`: in
// pieces, several at a time, with a deadline), and Tutti's ring over the same MPI: in
// turns, in the same processes. bench/mpi compiles and runs it.
//
//   mpirun -n 2 mpi_allreduce FOLDER FLAVOUR MEGABYTES ROUNDS

#include "comm/coll/coll.h"
#include "comm/transport/mpi.h"
#include "comm/transport/mpi_state.h"

#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLAIN, NATIVE, RING, N_WAYS, MOST_ROUNDS = 1000 };

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static tt_status reduce(tt_comm *comm, const tt_coll_call *call, int way)
{
    if (way != PLAIN)
        return tt_coll_run(tt_coll_find(way == NATIVE ? "native" : "ring"),
                           comm, call);
    // The transport's thread calls MPI too, one at a time.
    pthread_mutex_t *lock = &((tt__mpi *)comm)->lock;
    const void *in = call->in == call->out ? MPI_IN_PLACE : call->in;
    pthread_mutex_lock(lock);
    MPI_Allreduce(in, call->out, (int)call->count, MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
    pthread_mutex_unlock(lock);
    return TT_OK;
}

static tt_status measure(tt_comm *comm, const tt_coll_call *call, int rounds,
                         const char *what)
{
    static double seconds[N_WAYS][MOST_ROUNDS];
    static const char *const names[] = {"plain", "native", "ring"};
    const tt_coll_call barrier = {.kind = TT_BARRIER, .group = call->group};
    for (int k = 0; k < rounds; k++)
        for (int way = 0; way < N_WAYS; way++) {
            TT_TRY(tt_coll_run(tt_coll_find("doubling"), comm, &barrier));
            const double start = MPI_Wtime();
            TT_TRY(reduce(comm, call, way));
            seconds[way][k] = MPI_Wtime() - start;
        }
    for (int way = 0; way < N_WAYS; way++)
        qsort(seconds[way], (size_t)rounds, sizeof(double), by_size);
    for (int way = 0; way < N_WAYS && comm->rank == 0; way++)
        printf("%d ranks  %-8s  %-6s  median %7.2f ms  best %7.2f ms  %5.2f "
               "of plain's speed\n",
               comm->size, what, names[way], 1e3 * seconds[way][rounds / 2],
               1e3 * seconds[way][0],
               seconds[PLAIN][rounds / 2] / seconds[way][rounds / 2]);
    return TT_OK;
}

static tt_status run(char **argv)
{
    tt_comm *comm = NULL;
    TT_TRY(tt_mpi_open(argv[1], argv[2], 30, &comm));
    const int64_t count = atoll(argv[3]) * (1 << 20) / 4;
    const int rounds = atoi(argv[4]) < MOST_ROUNDS ? atoi(argv[4]) : MOST_ROUNDS;
    float *in = calloc((size_t)count, 4), *out = calloc((size_t)count, 4);
    tt_coll_call call = {.kind = TT_ALL_REDUCE,
                         .group = {.n = comm->size, .me = comm->rank},
                         .fold = {TT_FOLD_SUM, TT_NUM_F32},
                         .count = count,
                         .in = in,
                         .out = out};
    tt_status status = in == NULL || out == NULL
                           ? tt_fail(TT_ERR_NOMEM, "no memory")
                           : measure(comm, &call, rounds, "apart");
    call.in = out;
    if (status == TT_OK)
        status = measure(comm, &call, rounds, "in place");
    free(in);
    free(out);
    tt_comm_close(comm);
    return status;
}

int main(int argc, char **argv)
{
    if (argc == 5 && run(argv) == TT_OK)
        return 0;
    fprintf(stderr, "mpi_allreduce: %s\n", tt_error_message());
    return 2;
}
