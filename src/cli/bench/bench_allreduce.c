// bench_allreduce - all-reduce: sizes, algorithms, numbers of ranks, over shared
// memory, over a slowed link, or over MPI when mpirun started the ranks.
//
// Each rank has just written what is summed, as in training: data that are warm in
// another rank's cache are part of the cost.
//
//   limit   shared memory: the time in which all ranks at once copy the array, since
//           each must read and write that much; a slowed link: 2 (n-1)/n of the bytes

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/settings/opt.h"
#include "cli/bench/bench.h"
#include "cli/launch/team.h"
#include "comm/calibrate.h"
#include "comm/launch.h"
#include "comm/transport/transport.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

// Small arrays are summed several times in a row: one call would mostly measure which
// rank left the barrier first.
enum {
    MAX_ROUNDS = 1000,
    SMALL_BYTES = 16 << 10,
    IN_A_ROW = 10,
    MOST_SCRATCH = 2, // times the array: the most that an algorithm asks for
};

typedef struct options {
    tt_i64s ranks, bytes;
    const char *algorithm;
    double seconds;
    int memory, transport;
    tt_slow_options slow;
} options;

enum { SHARED, ORDINARY };
enum { AUTO, SLOW };

static const tt_opt table[] = {
    {"ranks", "2,4", "ranks, one after another (mpirun says how many)",
     TT_OPT_I64S, offsetof(options, ranks), NULL, 1, 256},
    {"bytes", "8,1k,64k,1m,25m", "sizes of the array of floats", TT_OPT_I64S,
     offsetof(options, bytes), NULL, 4, 1 << 30},
    {"algorithm", "", "one of them, or auto; empty: all", TT_OPT_STR,
     offsetof(options, algorithm)},
    {"seconds", "0.3", "of each measurement", TT_OPT_F64,
     offsetof(options, seconds), NULL, 0.001, 60},
    {"memory", "shared", "where the array lies", TT_OPT_CHOICE,
     offsetof(options, memory), "shared|ordinary"},
    {"transport", "auto", "what is between the ranks", TT_OPT_CHOICE,
     offsetof(options, transport), "auto|slow"},
    {"rate", "1e9", "of the slow link, bytes per second", TT_OPT_F64,
     offsetof(options, slow.rate), NULL, 1, -1},
    {"latency", "0", "of the slow link, seconds", TT_OPT_F64,
     offsetof(options, slow.latency), NULL, 0, 10},
    {0},
};

// Results as JSON, in memory that is shared with the forked ranks.
enum { ROOM = 4 << 20 };
typedef struct rows {
    int64_t n;
    bool is_lost;
    char text[ROOM];
} rows;

typedef struct bench {
    const options *o;
    rows *rows;
    const int32_t *host;
    bool is_json, is_network; // network: its limit is unknown
    tt_comm *comm;
    float *data, *scratch;
    tt_calibration links; // for auto
} bench;

typedef struct result {
    const tt_coll_def *def;
    bool is_chosen;                  // by auto
    double seconds, limit;           // medians; limit 0: unknown
    int64_t rounds, messages, bytes; // of one all-reduce
} result;

// ---- measuring -----------------------------------------------------------

static tt_group group_of(const bench *b)
{
    return (tt_group){.n = b->comm->size, .me = b->comm->rank, .host = b->host};
}

static tt_status meet(const bench *b)
{
    const tt_coll_call call = {.kind = TT_BARRIER, .group = group_of(b)};
    return tt_coll_run(tt_coll_find("direct"), b->comm, &call);
}

// Rank 0 decides whether there is another round, since all ranks must make equally
// many.
static tt_status ask(const bench *b, int32_t *goes_on)
{
    const tt_coll_call call = {.kind = TT_BROADCAST,
                               .group = group_of(b),
                               .fold = {TT_FOLD_COPY, TT_NUM_I32},
                               .count = 1,
                               .out = goes_on};
    return tt_coll_run(tt_coll_find("naive"), b->comm, &call);
}

static void write_data(const bench *b, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        b->data[i] = (float)(i & 1023);
}

// One all-reduce. Without an algorithm: a copy of as much, which is the limit.
static tt_status once(const bench *b, const tt_coll_def *def, int64_t count)
{
    const tt_coll_call call = {.kind = TT_ALL_REDUCE,
                               .group = group_of(b),
                               .fold = {TT_FOLD_SUM, TT_NUM_F32},
                               .count = count,
                               .in = b->data,
                               .out = b->data,
                               .scratch = b->scratch};
    if (def != NULL)
        return tt_coll_run(def, b->comm, &call);
    memcpy(b->scratch, b->data, (size_t)count * sizeof(float));
    return TT_OK;
}

static tt_status measure(const bench *b, const tt_coll_def *def, int64_t count,
                         result *out)
{
    static double times[MAX_ROUNDS];
    const double start = tt_clock_seconds();
    const tt_comm_stats before = b->comm->stats;
    const int times_each = 4 * count < SMALL_BYTES ? IN_A_ROW : 1;
    int64_t n = 0;
    int32_t goes_on = 1;
    TT_TRY(once(b, def, count)); // touches all pages
    out->messages = b->comm->stats.sent_messages - before.sent_messages;
    out->bytes = b->comm->stats.sent_bytes - before.sent_bytes;
    while (goes_on) {
        write_data(b, count);
        TT_TRY(meet(b));
        const double begin = tt_clock_seconds();
        for (int i = 0; i < times_each; i++)
            TT_TRY(once(b, def, count));
        times[n++] = (tt_clock_seconds() - begin) / times_each;
        goes_on = n < 4 || (n < MAX_ROUNDS &&
                            tt_clock_seconds() - start < b->o->seconds);
        TT_TRY(ask(b, &goes_on));
    }
    out->seconds = tt_bench_median(times, n);
    out->rounds = n;
    return TT_OK;
}

static tt_status find_limit(const bench *b, int64_t count, double *seconds_out)
{
    const double n = b->comm->size, bytes = 4 * (double)count;
    result copy;
    *seconds_out = 0;
    if (b->o->transport == SLOW)
        *seconds_out = 2 * (n - 1) / n * bytes / b->o->slow.rate +
                       (n > 1 ? b->o->slow.latency : 0);
    if (b->o->transport == SLOW || b->is_network)
        return TT_OK;
    TT_TRY(measure(b, NULL, count, &copy));
    *seconds_out = copy.seconds;
    return TT_OK;
}

// ---- printing ------------------------------------------------------------

static void print_text(const bench *b, int64_t count, const result *r)
{
    const double n = b->comm->size, bytes = 4 * (double)count;
    printf("%5d %12.0f  %-12s %12.1f us %9.2f GB/s", b->comm->size, bytes,
           r->def->name, r->seconds * 1e6,
           bytes / r->seconds * 2 * (n - 1) / n / 1e9);
    if (r->limit > 0)
        printf(" %5.1f%% of the limit", 100 * r->limit / r->seconds);
    printf("%s\n", r->is_chosen ? "  (auto)" : "");
}

static void print_heading(const bench *b)
{
    if (b->comm->rank == 0 && !b->is_json)
        printf("%5s %12s  %-12s %15s %14s\n", "ranks", "bytes", "algorithm",
               "time", "sent by each");
}

static void print_json(const bench *b, int64_t count, const result *r)
{
    const double n = b->comm->size, bytes = 4 * (double)count;
    tt_str text = {0};
    tt_json json = {.out = &text};
    tt_json_open(&json, NULL, '{');
    tt_json_i64(&json, "ranks", b->comm->size);
    tt_json_f64(&json, "bytes", bytes);
    tt_json_str(&json, "transport", b->comm->def->name);
    tt_json_str(&json, "algorithm", r->def->name);
    tt_json_bool(&json, "is_auto", r->is_chosen);
    tt_json_f64(&json, "us", r->seconds * 1e6);
    tt_json_f64(&json, "bus_bytes_per_second",
                bytes / r->seconds * 2 * (n - 1) / n);
    if (r->limit > 0)
        tt_json_f64(&json, "limit_fraction", r->limit / r->seconds);
    tt_json_i64(&json, "messages", r->messages);
    tt_json_i64(&json, "bytes_sent", r->bytes);
    tt_json_i64(&json, "rounds", r->rounds);
    tt_json_close(&json, '}');
    if (b->rows->n > 0 && b->rows->n < ROOM)
        b->rows->text[b->rows->n++] = ',';
    if (tt_str_status(&text) != TT_OK || b->rows->n + text.n > ROOM)
        b->rows->is_lost = true;
    else
        memcpy(b->rows->text + b->rows->n, tt_str_text(&text), (size_t)text.n);
    b->rows->n += b->rows->is_lost ? 0 : text.n;
    tt_str_fini(&text);
}

// One JSON document, when everything has been measured.
static tt_status print_rows(const rows *r)
{
    if (r->is_lost)
        return tt_fail(TT_ERR_NOMEM, "no memory for so many results; measure "
                                     "fewer sizes at a time");
    printf("[%.*s]\n", (int)r->n, r->text);
    return TT_OK;
}

// ---- sweeping ------------------------------------------------------------

static tt_status bench_one(const bench *b, int64_t count, result *r)
{
    TT_TRY(measure(b, r->def, count, r));
    if (b->comm->rank == 0)
        (b->is_json ? print_json : print_text)(b, count, r);
    return TT_OK;
}

static tt_status sweep(bench *b)
{
    int n = 0;
    const char *wanted = b->o->algorithm;
    const bool is_auto = strcmp(wanted, "auto") == 0;
    const tt_coll_def *const *all = tt_coll_all(&n);
    const tt_group group = group_of(b);
    const tt_calibrate_options fresh = {.host = b->host};
    if (is_auto)
        TT_TRY(tt_calibrate(b->comm, &fresh, &b->links));
    print_heading(b);
    for (int64_t k = 0; k < b->o->bytes.n; k++) {
        const int64_t count = b->o->bytes.v[k] / 4;
        result r = {.is_chosen = is_auto};
        TT_TRY(find_limit(b, count, &r.limit));
        for (int i = 0; i < n && !is_auto; i++) {
            r.def = all[i];
            if (all[i]->way[TT_ALL_REDUCE].run != NULL &&
                (wanted[0] == '\0' || strcmp(wanted, all[i]->name) == 0))
                TT_TRY(bench_one(b, count, &r));
        }
        if (!is_auto)
            continue;
        r.def = tt_coll_choose(&b->links, TT_ALL_REDUCE, 4 * count, &group);
        TT_TRY(bench_one(b, count, &r));
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

// Shared memory of a rank: the array, and the scratch of algorithms.
static int64_t memory_of(const options *o)
{
    return (1 + MOST_SCRATCH) * largest(o) + 4096;
}

// Memory that peers can read in place, if it is wanted and there is some; else
// ordinary.
static tt_status sweep_in(bench b)
{
    const int64_t bytes = largest(b.o);
    void *own = NULL;
    if (b.o->memory == SHARED) {
        b.data = tt_comm_alloc(b.comm, bytes);
        b.scratch = tt_comm_alloc(b.comm, MOST_SCRATCH * bytes);
    }
    if (b.data == NULL || b.scratch == NULL) {
        own = tt_alloc_aligned((1 + MOST_SCRATCH) * bytes, 64);
        b.data = own;
        b.scratch = own == NULL ? NULL : b.data + bytes / 4;
    }
    const tt_status status =
        b.data == NULL ? tt_fail(TT_ERR_NOMEM, "no memory for %lld bytes",
                                 (long long)bytes)
                       : sweep(&b);
    tt_free_aligned(own);
    return status;
}

// Measures over a transport, which is closed in the end.
static tt_status bench_over(const bench *b, tt_comm *comm)
{
    bench mine = *b;
    tt_status status = TT_OK;
    mine.comm = comm;
    if (b->o->transport == SLOW)
        status = tt_slow_open(comm, &b->o->slow, &mine.comm);
    if (status == TT_OK)
        status = sweep_in(mine);
    tt_comm_close(mine.comm);
    return status;
}

static tt_status be_rank(const tt_launch_rank *r, void *user)
{
    tt_comm *comm = NULL;
    TT_TRY(tt_shm_open(r->world, r->rank, r->deadline, &comm));
    return bench_over(user, comm);
}

// The ranks of a launcher, over its transport.
static tt_status bench_team(const tt_world *world, bench b)
{
    tt_team *team = NULL;
    const tt_team_options wanted = {.rank_bytes = memory_of(b.o)};
    if (b.o->transport == SLOW)
        return tt_fail(TT_ERR_ARG, "a slow link is for ranks that tutti "
                                   "starts: leave mpirun away");
    TT_TRY(tt_cli_join(world, wanted, &team));
    b.comm = team->comm;
    b.host = team->host;
    b.is_network = team->n_hosts > 1;
    const tt_status status = sweep_in(b);
    tt_team_leave(team, status);
    return status;
}

static tt_status measure_all(const options *o, bench *b)
{
    tt_world world;
    TT_TRY(tt_cli_world(&world));
    if (world.size > 1)
        TT_TRY(bench_team(&world, *b));
    for (int64_t i = 0; i < o->ranks.n && world.size <= 1; i++) {
        const tt_launch_options launch = {.n_ranks = (int32_t)o->ranks.v[i],
                                          .rank_bytes = memory_of(o),
                                          .pin = true};
        TT_TRY(tt_launch(&launch, be_rank, b));
    }
    return b->is_json && (world.size <= 1 || world.rank == 0)
               ? print_rows(b->rows)
               : TT_OK;
}

tt_status tt_bench_allreduce(tt_cli *cli)
{
    options o;
    TT_TRY(tt_cli_options(cli, table, &o));
    if (o.algorithm[0] != '\0' && strcmp(o.algorithm, "auto") != 0 &&
        tt_coll_find(o.algorithm) == NULL)
        return tt_fail(TT_ERR_ARG,
                       "unknown algorithm \"%s\"; `tutti list collectives` "
                       "names them",
                       o.algorithm);
    bench b = {.o = &o, .is_json = tt_cli_has(cli, "--json")};
    b.rows = mmap(NULL, sizeof *b.rows, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (b.rows == MAP_FAILED)
        return tt_fail(TT_ERR_NOMEM, "no memory for results");
    const tt_status status = measure_all(&o, &b);
    (void)munmap(b.rows, sizeof *b.rows);
    return status;
}
