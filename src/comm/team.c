// team - the choice of transport: MPI where the launcher starts MPI programs, otherwise
// shared memory where all ranks are on this host. Between hosts only MPI will do, and
// the message says so.

#include "comm/team.h"

#include "base/alloc.h"
#include "comm/transport/meet.h"
#include "comm/transport/mpi.h"
#include "comm/transport/shm_guard.h"

#include <string.h>

static const double usual_deadline = 30;

typedef struct team {
    tt_team base;
    tt_shm_world *world; // NULL: MPI
    tt_shm_guard *guard;
    int32_t *host; // of ranks that share it
} team;

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
    j->base.host = tt_mpi_hosts(comm, &j->base.n_hosts);
    return TT_OK;
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
    j->host = tt_alloc(world->size * (int64_t)sizeof *j->host);
    if (j->host == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %d ranks", world->size);
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
    j->base.host = j->host;
    j->base.n_hosts = 1;
    return TT_OK;
}

static tt_status open_any(const tt_world *world, const tt_team_options *o,
                          team *j)
{
    const double deadline = o->deadline > 0 ? o->deadline : usual_deadline;
    const char *wanted = o->transport == NULL ? "auto" : o->transport;
    const bool is_auto = strcmp(wanted, "auto") == 0;
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
