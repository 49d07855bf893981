// ranks - who starts the ranks, what carries their messages, and what the user is told
// when it goes wrong.
//
// There are two families of ranks. They differ in who watches and who speaks.
//
//   forked here                          started by a launcher
//   -----------                          ---------------------
//   tutti -n 4                           mpirun -n 4 tutti ...
//     |                                    |      |      |      |
//   this process: watches, reports       rank 0 rank 1 rank 2 rank 3
//     |      |      |      |
//   rank 0 rank 1 rank 2 rank 3          no process of ours is above them
//
// Forked ranks leave their result in a page of shared memory (tt__notice). The parent
// reads it when all have ended and returns rank 0's failure as its own. So the message
// is printed once, by the process that the user started.
//
// Ranks of a launcher have no such parent. Each decides for itself whether it should
// speak (`speak`): one message, not one per rank. MPI's launchers end all ranks when
// one dies and do not say which it was, so each rank also gets a witness
// (comm/witness.h).

#include "comm/launch.h"
#include "comm/transport/transport.h"
#include "comm/witness.h"
#include "config/exchange.h"
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

// A page that the parent shares with the ranks it forks. Only rank 0 writes the last
// three members, and the parent reads them after the last rank has ended: no lock.
struct tt__notice {
    volatile int32_t n_started; // not 0: a rank has run, so a retry is too late
    int exit_status;            // of rank 0
    tt_status status;           // why rank 0 itself failed; TT_OK: it did not
    char message[MESSAGE];
};

// Cores that this process may use: fewer than the machine has, when a batch system or
// taskset has restricted it.
static int32_t count_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

// ---- how many ------------------------------------------------------------

// How many ranks there are, and whether they run already.
typedef struct found {
    tt_world world;
    bool is_started; // by a launcher; false: we start `n`
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

static tt_status check_transport(const found *f,
                                 const tt_distribution *distribution)
{
    const bool has_mpi = f->is_started && f->world.has_mpi;
    if (distribution->transport == TT_TRANSPORT_SELF && f->n > 1)
        return tt_fail(TT_ERR_ARG,
                       "transport=self is for one rank and there are %d; "
                       "leave it out, or set %s",
                       f->n, has_mpi ? "mpi" : "shm");
    if (distribution->transport == TT_TRANSPORT_MPI && !has_mpi)
        return tt_fail(TT_ERR_ARG,
                       "transport=mpi wants a launcher of MPI's: mpirun -n %d "
                       "tutti ...; ranks that -n starts use shm",
                       f->n);
    return TT_OK;
}

// Finds the ranks and checks that they could be started. The fault text is checked
// here too, before anything is forked: otherwise every rank would report the same
// mistake.
static tt_status find_checked(const tt_ranks_request *request, found *f,
                              tt_distribution *distribution)
{
    tt_exchange unused;
    TT_TRY(find(request, f));
    tt_status status =
        tt_distribution_read(request->settings, request->arena, distribution);
    if (status == TT_OK)
        status = tt_exchange_read(request->settings, request->arena, &unused);
    if (status == TT_OK)
        status = check_transport(f, distribution);
    if (status == TT_OK && f->n > 1 && distribution->fault[0] != '\0') {
        status = tt_fault_check(distribution->fault, f->n);
        if (status != TT_OK)
            status = tt_fail_context(status, "comm.fault");
    }
    return tt_settings_fail_context(request->settings, status);
}

tt_status tt_ranks_count(const tt_ranks_request *request, int32_t *n_out)
{
    found f;
    tt_distribution distribution;
    TT_TRY(find_checked(request, &f, &distribution));
    *n_out = f.n;
    return TT_OK;
}

// ---- ranks that are started here -----------------------------------------

// Whether a rank failed only because another one did. Such a rank stays silent: the
// other rank knows the cause.
static bool is_others(tt_status status)
{
    return status == TT_ERR_PEER || status == TT_ERR_TIMEOUT;
}

// The life of a forked rank. What rank 0 has to say goes to the notice, which outlives
// it.
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
            tt__ranks_spoilt(s->distribution), cores,
            s->distribution->collective)};
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

// How much shared memory each rank reserves: as much as the machine has. Reserving
// addresses costs nothing; pages are taken when they are touched. Where addresses are
// limited (ulimit -v), all ranks together take a quarter of the limit.
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

// Some systems count reserved addresses as used memory, so the reservation may fail.
// Then it is halved and tried again, but only while no rank has run yet.
static tt_status launch(const tt__starting *s, int32_t n, bool *interrupted)
{
    tt_launch_options options = {.n_ranks = n,
                                 .deadline = s->distribution->deadline,
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

// Forks the ranks and turns their end into this process's: an interrupt is an exit
// status, rank 0's own failure is returned with rank 0's words, and any other failure
// is the launcher's.
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

// Cores for this rank. A launcher that pins its ranks has already divided the cores,
// so fewer than all are visible and they are ours. One that does not pin leaves all of
// them visible to every rank, and then we divide.
static int32_t cores_of(int32_t on_host, int32_t mine)
{
    const long all = sysconf(_SC_NPROCESSORS_ONLN);
    if (mine < all || on_host <= 1)
        return mine;
    return mine / on_host > 0 ? mine / on_host : 1;
}

// Describes this rank: its place among the ranks of its host, its cores, and the line
// of text that the user sees at the start.
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
            team->why, tt__ranks_spoilt(s->distribution),
            tt__ranks_cores(s->request->arena, (int32_t)all, on_host, cores),
            s->distribution->collective)};
}

// Reports a failure of a rank that is not rank 0, at most once for all ranks. A
// launcher prints what every rank prints, so a rank that only saw others fail says
// nothing. It also waits a moment: some launchers end all ranks as soon as one has
// failed, and rank 0 needs the time to print. If rank 0 itself was lost, rank 1 speaks
// in its place. `team` is NULL when joining failed.
static void speak(const tt__starting *s, const tt_world *world,
                  const tt_team *team, tt_status status)
{
    const struct timespec pause = {.tv_sec = 1};
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
            s->request->program->user,
            tt_arena_printf(s->request->arena, "rank %d (host %s): %s",
                            world->rank, host, tt_error_message()),
            is_others(status));
    }
}

static tt_status join(const tt__starting *s, const tt_world *world,
                      tt_witness *witness, int *exit_out)
{
#define BETWEEN_HOSTS(id, name, between_hosts) between_hosts,
    static const char *const names[] = {"auto", TT_TRANSPORTS(BETWEEN_HOSTS)};
#undef BETWEEN_HOSTS
    const tt_ranks_program *program = s->request->program;
    const tt_team_options options = {.get = program->get,
                                     .plugins = program->plugins,
                                     .transport =
                                         names[s->distribution->transport],
                                     .deadline = s->distribution->deadline,
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

static void say_lost(void *user, const char *text)
{
    const tt_ranks_program *program = user;
    program->say(program->user, text, true);
}

// Ranks over shared memory see it themselves when one of them is gone. Ranks over MPI
// do not, so each has a witness.
static tt_status join_watched(const tt__starting *s, const tt_world *world,
                              int *exit_out)
{
    tt_witness *witness = NULL;
    tt_ranks_program program = *s->request->program;
    if (world->has_mpi && program.say != NULL)
        TT_TRY(tt_witness_start(world, say_lost, &program, &witness));
    const tt_status status = join(s, world, witness, exit_out);
    tt_witness_stop(witness);
    return status;
}

// ---- all of it -----------------------------------------------------------

tt_status tt_ranks_run(const tt_ranks_request *request, tt_ranks_fn *fn,
                       void *user, int *exit_out)
{
    tt_distribution distribution;
    found f;
    TT_TRY(find_checked(request, &f, &distribution));
    if (f.n == 1)
        return fn(&(tt_peers){.size = 1, .on_host = 1}, user, exit_out);
    tt__starting s = {request, fn, user, &distribution, NULL, count_cores()};
    return f.is_started ? join_watched(&s, &f.world, exit_out)
                        : start(&s, f.n, exit_out);
}
