// ranks - who starts the ranks, what carries their messages, and what the user is
// told when it goes wrong.

#include "cli/ranks_parts.h"
#include "cli/signals.h"
#include "cli/team.h"
#include "comm/launch.h"
#include "comm/witness.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RANKS = 256, MESSAGE = 4096, KILLED_BY_SIGINT = 128 + 2 };

// Memory that the launcher shares with its ranks.
struct tt_notice {
    volatile sig_atomic_t was_interrupted; // twice: all end at once
    volatile int32_t n_started;
    int exit_status;       // rank 0's
    char message[MESSAGE]; // rank 0's own failure; "": none
};

static int32_t count_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

// ---- how many ------------------------------------------------------------

static tt_status read_flag(const tt_cli *cli, int64_t *n_out)
{
    static const tt_opt table[] = {
        {"-n", "0", "", TT_OPT_I64, 0, NULL, 1, MOST_RANKS}, {0}};
    const char *text = tt_cli_value(cli, "-n");
    *n_out = 0;
    return text == NULL ? TT_OK
                        : tt_opt_set(table, n_out, "-n", text, cli->arena);
}

typedef struct found {
    tt_world world;
    bool is_started; // by a launcher; else it is for us to start `n`
    int32_t n;
} found;

static tt_status find(const tt_cli *cli, found *out)
{
    int64_t n = 0;
    TT_TRY(read_flag(cli, &n));
    TT_TRY(tt_cli_world(&out->world));
    out->is_started = strcmp(out->world.launcher, "none") != 0;
    if (out->is_started && n > 0 && n != out->world.size)
        return tt_fail(TT_ERR_ARG,
                       "-n %lld, but %s has started %d rank%s (%s); leave -n "
                       "out",
                       (long long)n, out->world.launcher, out->world.size,
                       out->world.size == 1 ? "" : "s", out->world.why);
    out->n = out->is_started ? out->world.size : n > 0 ? (int32_t)n : 1;
    return TT_OK;
}

tt_status tt_cli_ranks_count(tt_cli *cli, int32_t *n_out)
{
    found f;
    TT_TRY(find(cli, &f));
    *n_out = f.n;
    return TT_OK;
}

static tt_status check_transport(const found *f, const tt_where *where)
{
    const bool has_mpi = f->is_started && f->world.has_mpi;
    if (where->transport == TT_TRANSPORT_SELF && f->n > 1)
        return tt_fail(TT_ERR_ARG,
                       "transport=self is for one rank and there are %d; "
                       "leave it out, or set %s",
                       f->n, has_mpi ? "mpi" : "shm");
    if (where->transport == TT_TRANSPORT_MPI && !has_mpi)
        return tt_fail(TT_ERR_ARG,
                       "transport=mpi wants a launcher of MPI's: mpirun -n %d "
                       "tutti ...; ranks that -n starts use shm",
                       f->n);
    return TT_OK;
}

// ---- ranks that are started here -----------------------------------------

// Whether a failure is another rank's, so that this one has nothing to say.
static bool is_others(tt_status status)
{
    return status == TT_ERR_PEER || status == TT_ERR_TIMEOUT;
}

static tt_status be_rank(const tt_launch_rank *rank, void *user)
{
    const tt_starting *s = user;
    int exit_status = TT_EXIT_OK;
    tt_comm *comm = NULL;
    s->notice->n_started = 1;
    tt_signals_be_rank(rank->rank == 0, &s->notice->was_interrupted);
    TT_TRY(tt_shm_open(rank->world, rank->rank, rank->deadline, &comm));
    const char *cores =
        tt__ranks_cores(s->cli->arena, s->n_cores, rank->n_ranks, rank->cores);
    tt_peers peers = {
        .rank = rank->rank,
        .size = rank->n_ranks,
        .on_host = rank->n_ranks,
        .local = rank->rank,
        .cores = rank->cores,
        .comm = comm,
        .text = tt_arena_printf(
            s->cli->arena,
            "%d ranks on 1 host (tutti -n %d), shared memory%s, %s; "
            "collective %s",
            rank->n_ranks, rank->n_ranks, tt__ranks_spoilt(s->where), cores,
            s->where->collective)};
    const tt_status status = tt__ranks_work(s, NULL, &peers, &exit_status);
    if (status != TT_OK && rank->rank == 0 && !is_others(status))
        snprintf(s->notice->message, MESSAGE, "%s", tt_error_message());
    if (rank->rank == 0)
        s->notice->exit_status = exit_status;
    tt_comm_close(peers.comm);
    return status;
}

// Of the machine: that much is shared by each rank, since addresses cost nothing.
// Where they are limited (ulimit -v) a quarter of them, for all ranks together.
static int64_t memory_bytes(int32_t n)
{
    const int64_t all =
        (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) != 0 ||
        space.rlim_cur / 4 / (rlim_t)n >= (rlim_t)all)
        return all;
    return (int64_t)(space.rlim_cur / 4 / (rlim_t)n);
}

// Where even addresses are counted, with less.
static tt_status launch(const tt_starting *s, int32_t n)
{
    tt_launch_options options = {.n_ranks = n,
                                 .deadline = s->where->deadline,
                                 .rank_bytes = memory_bytes(n),
                                 .pin = true};
    tt_starting user = *s;
    tt_status status = tt_launch(&options, be_rank, &user);
    while (status == TT_ERR_NOMEM && s->notice->n_started == 0 &&
           options.rank_bytes > 64 << 20) {
        options.rank_bytes /= 2;
        status = tt_launch(&options, be_rank, &user);
    }
    return status;
}

static tt_status start(tt_cli *cli, tt_cli_ranks_fn *fn, const tt_where *where,
                       int32_t n, int *exit_out)
{
    tt_notice *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return tt_fail(TT_ERR_NOMEM, "no memory to start ranks");
    const tt_starting s = {cli, fn, where, shared, count_cores()};
    tt_status status = launch(&s, n);
    if (shared->was_interrupted != 0) {
        *exit_out = KILLED_BY_SIGINT;
        status = TT_OK;
    } else if (status != TT_OK && shared->message[0] != '\0') {
        status = tt_fail(status, "%s", shared->message);
    } else if (status == TT_OK) {
        *exit_out = shared->exit_status;
    }
    (void)munmap(shared, sizeof *shared);
    return status;
}

// ---- ranks of another launcher -------------------------------------------

// A launcher that divides the cores gives every rank some of them.
static int32_t cores_of(int32_t on_host, int32_t mine)
{
    const long all = sysconf(_SC_NPROCESSORS_ONLN);
    if (mine < all || on_host <= 1)
        return mine;
    return mine / on_host > 0 ? mine / on_host : 1;
}

static tt_peers peers_of(const tt_starting *s, const tt_world *world,
                         const tt_team *team)
{
    int32_t on_host = 0, local = 0;
    for (int32_t r = 0; r < world->size; r++) {
        if (team->host[r] != team->host[world->rank])
            continue;
        on_host++;
        local += r < world->rank;
    }
    const int32_t cores = cores_of(on_host, s->n_cores);
    const long all = sysconf(_SC_NPROCESSORS_ONLN);
    return (tt_peers){
        .rank = world->rank,
        .size = world->size,
        .on_host = on_host,
        .local = local,
        .cores = cores,
        .comm = team->comm,
        .text = tt_arena_printf(
            s->cli->arena,
            "%d ranks on %d host%s (%s: %s), %s (%s)%s, %s; collective %s",
            world->size, team->n_hosts, team->n_hosts == 1 ? "" : "s",
            world->launcher, world->why,
            strcmp(team->transport, "shm") == 0 ? "shared memory" : "MPI",
            team->why, tt__ranks_spoilt(s->where),
            tt__ranks_cores(s->cli->arena, (int32_t)all, on_host, cores),
            s->where->collective)};
}

// The launcher prints what every rank prints: so only one of them speaks of what
// is the same for all. It may end all ranks as soon as one fails: so rank 0 comes
// first. `team` is NULL when it was not joined.
static tt_status speak(const tt_world *world, const tt_team *team,
                       tt_status status, int *exit_out)
{
    const struct timespec pause = {.tv_nsec = 300000000};
    if (status == TT_OK || world->rank == 0)
        return status;
    const bool is_next =
        world->rank == 1 && team != NULL && tt_team_has_lost_first(team);
    if (!is_others(status) || is_next)
        fprintf(stderr, "[rank%d]: %s\n", world->rank, tt_error_message());
    else
        (void)nanosleep(&pause, NULL);
    *exit_out = TT_EXIT_ERROR;
    return TT_OK;
}

// In one write, so that it stays whole beside what others print.
static void say_death(const char *text)
{
    char line[1024];
    const int n = snprintf(line, sizeof line, "tutti: %.1000s\n", text);
    const ssize_t written = write(STDERR_FILENO, line, (size_t)n);
    (void)written; // nobody reads it: fine
}

static tt_status join(const tt_starting *s, const tt_world *world,
                      tt_witness *witness, int *exit_out)
{
    static const char *const names[] = {"auto", "self", "shm", "mpi", "auto"};
    const tt_team_options options = {.transport = names[s->where->transport],
                                     .deadline = s->where->deadline,
                                     .rank_bytes = memory_bytes(world->size)};
    tt_team *team = NULL;
    if (world->rank > 0)
        tt_signals_be_silent();
    tt_status status = tt_cli_join(world, options, &team);
    if (status == TT_OK) {
        if (team->comm->journal == NULL && witness != NULL)
            team->comm->journal = tt_witness_journal(witness);
        tt_peers peers = peers_of(s, world, team);
        status = tt__ranks_work(s, team->host, &peers, exit_out);
        team->comm = peers.comm;
    }
    const tt_status said = speak(world, team, status, exit_out);
    tt_team_leave(team, status);
    return said;
}

// Ranks over shared memory look after each other; of MPI's, each has a witness.
static tt_status join_watched(const tt_starting *s, const tt_world *world,
                              int *exit_out)
{
    tt_witness *witness = NULL;
    if (world->has_mpi)
        TT_TRY(tt_witness_start(world, say_death, &witness));
    const tt_status status = join(s, world, witness, exit_out);
    tt_witness_stop(witness);
    return status;
}

// ---- all of it -----------------------------------------------------------

tt_status tt_cli_ranks_run(tt_cli *cli, tt_cli_ranks_fn *fn, int *exit_out)
{
    tt_where where;
    found f;
    TT_TRY(find(cli, &f));
    TT_TRY(tt_where_read(&cli->settings, cli->arena, &where));
    TT_TRY(check_transport(&f, &where));
    if (f.n == 1)
        return fn(cli, &(tt_peers){.size = 1, .on_host = 1}, exit_out);
    if (!f.is_started)
        return start(cli, fn, &where, f.n, exit_out);
    const tt_starting s = {cli, fn, &where, NULL, count_cores()};
    return join_watched(&s, &f.world, exit_out);
}
