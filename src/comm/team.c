// team - the choice of transport, and which ranks share a host.

#include "comm/team.h"

#include "base/alloc.h"
#include "comm/coll/coll.h"
#include "comm/transport/meet.h"
#include "comm/transport/mpi.h"
#include "comm/transport/shm_guard.h"

#include <string.h>

static const double usual_deadline = 30;

typedef struct team {
    tt_team base;
    tt_shm_world *world; // NULL: MPI
    tt_shm_guard *guard;
    int32_t *host;
} team;

// ---- hosts ---------------------------------------------------------------

static int64_t hash_of(const char *text)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; *text != '\0'; text++)
        h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return (int64_t)h;
}

// Ranks whose machines have the same name are on one host.
static tt_status number_hosts(team *j, int64_t *names)
{
    tt_comm *comm = j->base.comm;
    const int64_t mine = hash_of(tt_mpi_host(comm));
    const tt_coll_call call = {.kind = TT_ALL_GATHER,
                               .group = {.n = comm->size, .me = comm->rank},
                               .fold = {TT_FOLD_COPY, TT_NUM_I64},
                               .count = comm->size,
                               .in = &mine,
                               .out = names};
    TT_TRY(tt_coll_run(tt_coll_find("naive"), comm, &call));
    for (int32_t r = 0; r < comm->size; r++) {
        int32_t same = 0;
        while (names[same] != names[r])
            same++;
        j->host[r] = same < r ? j->host[same] : j->base.n_hosts++;
    }
    return TT_OK;
}

static tt_status find_hosts(team *j)
{
    const int64_t n = j->base.comm->size;
    int64_t *names = tt_alloc(n * (int64_t)sizeof *names);
    const tt_status status =
        names == NULL ? tt_fail(TT_ERR_NOMEM, "no memory for %d ranks", (int)n)
                      : number_hosts(j, names);
    tt_free(names);
    return status;
}

// ---- transports ----------------------------------------------------------

static tt_status join_mpi(const tt_world *world, const tt_team_options *o,
                          double deadline, team *j)
{
    const char *flavour = tt_mpi_flavour(o->get);
    if (flavour == NULL)
        return tt_fail(TT_ERR_ARG,
                       "transport=mpi, but %s speaks no PMI: start the ranks "
                       "with mpirun, or with srun --mpi=pmix",
                       world->launcher);
    TT_TRY(tt_mpi_open(o->plugins, flavour, deadline, &j->base.comm));
    const tt_comm *comm = j->base.comm;
    if (comm->rank != world->rank || comm->size != world->size)
        return tt_fail(TT_ERR_ARG,
                       "%s says rank %d of %d, but MPI says %d of %d: is "
                       "another MPI's launcher in front in PATH?",
                       world->launcher, world->rank, world->size, comm->rank,
                       comm->size);
    j->base.transport = "mpi";
    j->base.why = tt_mpi_about(comm);
    return find_hosts(j);
}

static tt_status join_shm(const tt_world *world, const tt_team_options *o,
                          double deadline, team *j)
{
    if (world->local_size != world->size)
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "%s started %d ranks on this host and others elsewhere: "
                       "between hosts ranks need MPI, so start them with "
                       "mpirun or srun --mpi=pmix",
                       world->launcher, world->local_size);
    const tt_meet_options meet = {.get = o->get,
                                  .rank = world->rank,
                                  .size = world->size,
                                  .rank_bytes = o->rank_bytes,
                                  .deadline = deadline};
    TT_TRY(tt_meet(&meet, &j->world));
    TT_TRY(tt_shm_guard_start(j->world, world->rank, deadline, &j->guard));
    TT_TRY(tt_shm_open(j->world, world->rank, 2 * deadline + 5, &j->base.comm));
    j->base.transport = "shm";
    j->base.why = "all ranks are on this host";
    j->base.n_hosts = 1;
    return TT_OK;
}

static tt_status open_any(const tt_world *world, const tt_team_options *o,
                          team *j)
{
    const double deadline = o->deadline > 0 ? o->deadline : usual_deadline;
    const char *wanted = o->transport == NULL ? "auto" : o->transport;
    const bool is_auto = strcmp(wanted, "auto") == 0;
    j->host = tt_alloc(world->size * (int64_t)sizeof *j->host);
    if (j->host == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %d ranks", world->size);
    j->base.host = j->host;
    if (strcmp(wanted, "mpi") == 0 || (is_auto && world->has_mpi))
        return join_mpi(world, o, deadline, j);
    if (is_auto || strcmp(wanted, "shm") == 0)
        return join_shm(world, o, deadline, j);
    return tt_fail(TT_ERR_ARG,
                   "transport=%s does not join the ranks of %s; say auto",
                   wanted, world->launcher);
}

tt_status tt_team_join(const tt_world *world, const tt_team_options *options,
                       tt_team **team_out)
{
    team *j = tt_alloc(sizeof *j);
    if (j == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to join the other ranks");
    const tt_status status = open_any(world, options, j);
    if (status != TT_OK) {
        tt_team_leave(&j->base, status);
        return status;
    }
    *team_out = &j->base;
    return TT_OK;
}

bool tt_team_has_lost_first(const tt_team *team_in)
{
    const team *j = (const team *)team_in;
    return j->world != NULL ? tt_shm_world_has_lost(j->world, 0)
                            : tt_mpi_has_lost_first(j->base.comm);
}

void tt_team_leave(tt_team *team_in, tt_status status)
{
    team *j = (team *)team_in;
    if (j == NULL)
        return;
    if (status != TT_OK && j->base.comm != NULL)
        j->base.comm->def->abandon(j->base.comm);
    tt_comm_close(j->base.comm);
    tt_shm_guard_stop(j->guard);
    tt_shm_world_destroy(j->world);
    tt_free(j->host);
    tt_free(j);
}
