// bench_allreduce - all-reduce over shared memory, or over MPI when mpirun started
// the ranks: sizes, algorithms, ranks. The limit of memory is the machine's: a rank must read two arrays and write one for the sum of
// its block, and copy the others' blocks.

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/opt.h"
#include "cli/bench.h"
#include "cli/team.h"
#include "comm/coll/coll.h"
#include "comm/launch.h"

#include <stdio.h>
#include <string.h>

enum { MAX_ROUNDS = 1000 };

typedef struct options {
    tt_i64s ranks, bytes;
    const char *algorithm;
    double seconds;
} options;

static const tt_opt table[] = {
    {"ranks", "2,4", "ranks, one after another (mpirun says how many)",
     TT_OPT_I64S, offsetof(options, ranks), NULL, 1, 256},
    {"bytes", "1k,64k,1m,25m", "sizes of the array of floats", TT_OPT_I64S,
     offsetof(options, bytes), NULL, 4, 1 << 30},
    {"algorithm", "", "one of them; empty: all", TT_OPT_STR,
     offsetof(options, algorithm)},
    {"seconds", "0.3", "of each measurement", TT_OPT_F64,
     offsetof(options, seconds), NULL, 0.001, 60},
    {0},
};

typedef struct bench {
    const options *o;
    bool is_json;
} bench;

typedef struct result {
    double seconds; // median of one all-reduce
    int64_t rounds;
} result;

static tt_status measure(tt_comm *comm, const tt_coll_def *def,
                         const tt_coll_call *call, double seconds, result *out)
{
    static double times[MAX_ROUNDS];
    const double start = tt_clock_seconds();
    int64_t n = 0;
    int32_t goes_on = 1;
    const tt_coll_call go = {.kind = TT_BROADCAST,
                             .group = call->group,
                             .fold = {TT_FOLD_COPY, TT_NUM_I32},
                             .count = 1,
                             .out = &goes_on};
    TT_TRY(tt_coll_run(def, comm, call)); // touches all pages
    while (goes_on) {
        float *data = call->out;
        for (int64_t i = 0; i < call->count; i++) // as training does
            data[i] = (float)(i & 1023);
        TT_TRY(tt_coll_run(
            tt_coll_find("doubling"), comm,
            &(tt_coll_call){.kind = TT_BARRIER, .group = call->group}));
        const double begin = tt_clock_seconds();
        TT_TRY(tt_coll_run(def, comm, call));
        times[n++] = tt_clock_seconds() - begin;
        goes_on =
            n < 3 || (n < MAX_ROUNDS && tt_clock_seconds() - start < seconds);
        TT_TRY(tt_coll_run(tt_coll_find("naive"), comm, &go)); // rank 0 decides
    }
    *out = (result){tt_bench_median(times, n), n};
    return TT_OK;
}

static void print_row(const bench *b, const tt_coll_def *def,
                      const tt_coll_call *call, const result *r)
{
    const double n = call->group.n, bytes = 4 * (double)call->count;
    const double bus = bytes / r->seconds * 2 * (n - 1) / n;
    const tt_coll_cost cost = def->way[TT_ALL_REDUCE].cost(call);
    if (!b->is_json) {
        printf("%5d %12.0f  %-9s %12.1f us %9.2f GB/s %8lld messages\n",
               call->group.n, bytes, def->name, r->seconds * 1e6, bus / 1e9,
               (long long)cost.messages);
        return;
    }
    tt_str text = {0};
    tt_json json = {.out = &text};
    tt_json_open(&json, NULL, '{');
    tt_json_i64(&json, "ranks", call->group.n);
    tt_json_f64(&json, "bytes", bytes);
    tt_json_str(&json, "algorithm", def->name);
    tt_json_f64(&json, "us", r->seconds * 1e6);
    tt_json_f64(&json, "bus_bytes_per_second", bus);
    tt_json_i64(&json, "messages", cost.messages);
    tt_json_i64(&json, "bytes_sent", cost.bytes);
    tt_json_i64(&json, "rounds", r->rounds);
    tt_json_close(&json, '}');
    puts(tt_str_text(&text));
    tt_str_fini(&text);
}

static tt_status sweep(tt_comm *comm, const bench *b, float *data,
                       float *scratch)
{
    int n = 0;
    const tt_coll_def *const *all = tt_coll_all(&n);
    tt_coll_call call = {.kind = TT_ALL_REDUCE,
                         .group = {.n = comm->size, .me = comm->rank},
                         .fold = {TT_FOLD_SUM, TT_NUM_F32},
                         .in = data,
                         .out = data,
                         .scratch = scratch};
    for (int64_t k = 0; k < b->o->bytes.n; k++)
        for (int i = 0; i < n; i++) {
            result r;
            const char *wanted = b->o->algorithm;
            if (all[i]->way[TT_ALL_REDUCE].run == NULL ||
                (wanted[0] != '\0' && strcmp(wanted, all[i]->name) != 0))
                continue;
            call.count = b->o->bytes.v[k] / 4;
            memset(data, 0, (size_t)call.count * 4);
            TT_TRY(measure(comm, all[i], &call, b->o->seconds, &r));
            if (comm->rank == 0)
                print_row(b, all[i], &call, &r);
        }
    return TT_OK;
}

static int64_t largest(const options *o)
{
    int64_t most = 0;
    for (int64_t k = 0; k < o->bytes.n; k++)
        most = o->bytes.v[k] > most ? o->bytes.v[k] : most;
    return most;
}

// Memory that peers can read in place, where the transport has such.
static tt_status sweep_in(tt_comm *comm, const bench *b)
{
    const int64_t bytes = largest(b->o);
    float *data = tt_comm_alloc(comm, bytes);
    float *scratch = tt_comm_alloc(comm, bytes);
    void *own = NULL;
    if (data == NULL || scratch == NULL) {
        own = tt_alloc_aligned(2 * bytes, 64);
        data = own;
        scratch = own == NULL ? NULL : data + bytes / 4;
    }
    const tt_status status =
        data == NULL ? tt_fail(TT_ERR_NOMEM, "no memory for %lld bytes",
                               (long long)bytes)
                     : sweep(comm, b, data, scratch);
    tt_free_aligned(own);
    return status;
}

static tt_status be_rank(const tt_launch_rank *r, void *user)
{
    tt_comm *comm = NULL;
    TT_TRY(tt_shm_open(r->world, r->rank, r->deadline, &comm));
    const tt_status status = sweep_in(comm, user);
    tt_comm_close(comm);
    return status;
}

// The ranks of a launcher, over its transport.
static tt_status bench_team(const tt_world *world, const bench *b)
{
    tt_team *team = NULL;
    const tt_team_options wanted = {.rank_bytes = 2 * largest(b->o) + 4096};
    TT_TRY(tt_cli_join(world, wanted, &team));
    const tt_status status = sweep_in(team->comm, b);
    tt_team_leave(team, status);
    return status;
}

tt_status tt_bench_allreduce(tt_cli *cli)
{
    options o;
    TT_TRY(tt_cli_options(cli, table, &o));
    if (o.algorithm[0] != '\0' && tt_coll_find(o.algorithm) == NULL)
        return tt_fail(TT_ERR_ARG,
                       "unknown algorithm \"%s\"; `tutti list collectives` "
                       "names them",
                       o.algorithm);
    bench b = {&o, tt_cli_has(cli, "--json")};
    tt_world world;
    TT_TRY(tt_cli_world(&world));
    if (world.size > 1)
        return bench_team(&world, &b);
    for (int64_t i = 0; i < o.ranks.n; i++) {
        const tt_launch_options launch = {.n_ranks = (int32_t)o.ranks.v[i],
                                          .rank_bytes = 2 * largest(&o) + 4096,
                                          .pin = true};
        TT_TRY(tt_launch(&launch, be_rank, &b));
    }
    return TT_OK;
}
