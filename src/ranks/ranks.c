// ranks - who starts the ranks, what carries their messages, and what the user is
// told when it goes wrong.

#include "comm/launch.h"
#include "comm/transport/transport.h"
#include "comm/witness.h"
#include "ranks/ranks_parts.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE = 4096 };

// Memory that the launcher shares with its ranks.
struct tt__notice {
    volatile int32_t n_started;
    int exit_status;  // rank 0's
    tt_status status; // rank 0's own failure; TT_OK: none
    char message[MESSAGE];
};

static int32_t count_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

// ---- how many ------------------------------------------------------------

typedef struct found {
    tt_world world;
    bool is_started; // by a launcher; else it is for us to start `n`
    int32_t n;
} found;

static tt_status find(const tt_ranks_request *request, found *out)
{
    const int32_t n = request->n;
    TT_TRY(tt_world_find(request->program->get, &out->world));
    out->is_started = strcmp(out->world.launcher, "none") != 0;
    if (out->is_started && n > 0 && n != out->world.size)
        return tt_fail(TT_ERR_ARG,
                       "%s %d, but %s has started %d rank%s (%s); leave the "
                       "number out",
                       request->program->name, n, out->world.launcher,
                       out->world.size, out->world.size == 1 ? "" : "s",
                       out->world.why);
    out->n = out->is_started ? out->world.size : n > 0 ? n : 1;
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

// Who they are, and whether they could be started.
static tt_status find_checked(const tt_ranks_request *request, found *f,
                              tt_where *where)
{
    TT_TRY(find(request, f));
    TT_TRY(tt_where_read(request->settings, request->arena, where));
    TT_TRY(check_transport(f, where));
    if (f->n == 1 || where->fault[0] == '\0')
        return TT_OK;
    const tt_status status = tt_fault_check(where->fault, f->n);
    return status == TT_OK ? status : tt_fail_context(status, "comm.fault");
}

tt_status tt_ranks_count(const tt_ranks_request *request, int32_t *n_out)
{
    found f;
    tt_where where;
    TT_TRY(find_checked(request, &f, &where));
    *n_out = f.n;
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
    const tt__starting *s = user;
    const tt_ranks_program *program = s->request->program;
    int exit_status = 0;
    tt_comm *comm = NULL;
    s->notice->n_started = 1;
    if (program->be_rank != NULL)
        program->be_rank(rank->rank == 0);
    TT_TRY(tt_shm_open(rank->world, rank->rank, rank->deadline, &comm));
    const char *cores = tt__ranks_cores(s->request->arena, s->n_cores,
                                        rank->n_ranks, rank->cores);
    tt_peers peers = {
        .rank = rank->rank,
        .size = rank->n_ranks,
        .on_host = rank->n_ranks,
        .local = rank->rank,
        .cores = rank->cores,
        .comm = comm,
        .text = tt_arena_printf(
            s->request->arena,
            "%d ranks on 1 host (%s %d), shared memory%s, %s; collective %s",
            rank->n_ranks, program->name, rank->n_ranks,
            tt__ranks_spoilt(s->where), cores, s->where->collective)};
    const tt_status status = tt__ranks_work(s, NULL, &peers, &exit_status);
    if (status != TT_OK && rank->rank == 0 && !is_others(status)) {
        snprintf(s->notice->message, MESSAGE, "%s", tt_error_message());
        s->notice->status = status;
    }
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
static tt_status launch(const tt__starting *s, int32_t n, bool *interrupted)
{
    tt_launch_options options = {.n_ranks = n,
                                 .deadline = s->where->deadline,
                                 .rank_bytes = memory_bytes(n),
                                 .pin = true,
                                 .interrupted = interrupted};
    tt__starting user = *s;
    tt_status status = tt_launch(&options, be_rank, &user);
    while (status == TT_ERR_NOMEM && s->notice->n_started == 0 &&
           options.rank_bytes > 64 << 20) {
        options.rank_bytes /= 2;
        status = tt_launch(&options, be_rank, &user);
    }
    return status;
}

static tt_status start(tt__starting *s, int32_t n, int *exit_out)
{
    tt__notice *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return tt_fail(TT_ERR_NOMEM, "no memory to start ranks");
    s->notice = shared;
    bool is_interrupted = false;
    tt_status status = launch(s, n, &is_interrupted);
    if (is_interrupted) {
        *exit_out = TT_RANKS_INTERRUPTED;
        status = TT_OK;
    } else if (status != TT_OK && shared->status != TT_OK) {
        status = tt_fail(shared->status, "%s", shared->message);
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

static tt_peers peers_of(const tt__starting *s, const tt_world *world,
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
            s->request->arena,
            "%d ranks on %d host%s (%s: %s), %s (%s)%s, %s; collective %s",
            world->size, team->n_hosts, team->n_hosts == 1 ? "" : "s",
            world->launcher, world->why,
            strcmp(team->transport, "shm") == 0 ? "shared memory" : "MPI",
            team->why, tt__ranks_spoilt(s->where),
            tt__ranks_cores(s->request->arena, (int32_t)all, on_host, cores),
            s->where->collective)};
}

// A launcher prints what every rank prints: so only one of them speaks of what is the
// same for all. It may end all ranks as soon as one fails: so rank 0 comes first.
// `team` is NULL when it was not joined.
static void speak(const tt__starting *s, const tt_world *world,
                  const tt_team *team, tt_status status)
{
    const struct timespec pause = {.tv_nsec = 300000000};
    if (status == TT_OK || world->rank == 0)
        return;
    const bool is_next =
        world->rank == 1 && team != NULL && tt_team_has_lost_first(team);
    if (is_others(status) && !is_next)
        (void)nanosleep(&pause, NULL);
    else if (s->request->program->say != NULL) {
        char host[65] = "?";
        (void)gethostname(host, sizeof host - 1);
        s->request->program->say(
            tt_arena_printf(s->request->arena, "rank %d (host %s): %s",
                            world->rank, host, tt_error_message()));
    }
}

static tt_status join(const tt__starting *s, const tt_world *world,
                      tt_witness *witness, int *exit_out)
{
    static const char *const names[] = {"auto", "self", "shm", "mpi", "auto"};
    const tt_ranks_program *program = s->request->program;
    const tt_team_options options = {.get = program->get,
                                     .plugins = program->plugins,
                                     .transport = names[s->where->transport],
                                     .deadline = s->where->deadline,
                                     .rank_bytes = memory_bytes(world->size)};
    tt_team *team = NULL;
    if (world->rank > 0 && program->be_silent != NULL)
        program->be_silent();
    tt_status status = tt_team_join(world, &options, &team);
    if (status == TT_OK) {
        if (team->comm->journal == NULL && witness != NULL)
            team->comm->journal = tt_witness_journal(witness);
        tt_peers peers = peers_of(s, world, team);
        status = tt__ranks_work(s, team->host, &peers, exit_out);
        team->comm = peers.comm;
    }
    speak(s, world, team, status);
    tt_team_leave(team, status);
    return status;
}

// Ranks over shared memory look after each other; of MPI's, each has a witness.
static tt_status join_watched(const tt__starting *s, const tt_world *world,
                              int *exit_out)
{
    tt_witness *witness = NULL;
    if (world->has_mpi && s->request->program->say != NULL)
        TT_TRY(tt_witness_start(world, s->request->program->say, &witness));
    const tt_status status = join(s, world, witness, exit_out);
    tt_witness_stop(witness);
    return status;
}

// ---- all of it -----------------------------------------------------------

tt_status tt_ranks_run(const tt_ranks_request *request, tt_ranks_fn *fn,
                       void *user, int *exit_out)
{
    tt_where where;
    found f;
    TT_TRY(find_checked(request, &f, &where));
    if (f.n == 1)
        return fn(&(tt_peers){.size = 1, .on_host = 1}, user, exit_out);
    tt__starting s = {request, fn, user, &where, NULL, count_cores()};
    return f.is_started ? join_watched(&s, &f.world, exit_out)
                        : start(&s, f.n, exit_out);
}
