// world - reading what launchers say.
//
// Launchers nest: mpirun starts its daemons with srun, srun starts torchrun. So
// Slurm's variables are not always about this process, and are read last.

#include "comm/world.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 1 << 20 };

// What one launcher says.
typedef struct word {
    const char *launcher, *why; // launcher NULL: it says nothing
    int32_t rank, size, local_rank, local_size;
} word;

// How a launcher names its numbers.
typedef struct speaker {
    const char *launcher, *why;
    const char *rank, *size, *local_rank, *local_size;
} speaker;

enum { BY_HAND, TORCHRUN, OPEN_MPI, HYDRA, N_SPEAKERS };

// In the order of belief.
static const speaker speakers[N_SPEAKERS] = {
    [BY_HAND] = {"tutti", "TUTTI_RANK is set", "TUTTI_RANK", "TUTTI_WORLD_SIZE",
                 "TUTTI_LOCAL_RANK", "TUTTI_LOCAL_WORLD_SIZE"},
    [TORCHRUN] = {"torchrun", "RANK and WORLD_SIZE are set", "RANK",
                  "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    [OPEN_MPI] = {"mpirun", "OMPI_COMM_WORLD_RANK is set",
                  "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                  "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    [HYDRA] = {"mpiexec", "PMI_RANK is set", "PMI_RANK", "PMI_SIZE",
               "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
};

static const char *text_of(tt_env_fn *get, const char *name)
{
    const char *text = get(name);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

// A whole number from 0; `fallback` when the variable is not set.
static tt_status number(tt_env_fn *get, const char *name, int32_t fallback,
                        int32_t *out)
{
    const char *text = text_of(get, name);
    *out = fallback;
    if (text == NULL)
        return TT_OK;
    char *end = NULL;
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (errno != 0 || *end != '\0' || value < 0 || value > MOST_RANKS)
        return tt_fail(TT_ERR_ARG,
                       "%s=%s in the environment is not a number of ranks",
                       name, text);
    *out = (int32_t)value;
    return TT_OK;
}

static tt_status check(const word *w)
{
    if (w->rank < w->size &&
        (w->local_size == 0 || w->local_rank < w->local_size))
        return TT_OK;
    return tt_fail(TT_ERR_ARG,
                   "%s: the environment says rank %d of %d, %d of %d on this "
                   "host, which cannot be",
                   w->launcher, w->rank, w->size, w->local_rank, w->local_size);
}

static tt_status listen(tt_env_fn *get, const speaker *s, word *out)
{
    word w = {.launcher = s->launcher, .why = s->why};
    const bool has_rank = text_of(get, s->rank) != NULL;
    if (has_rank != (text_of(get, s->size) != NULL))
        return tt_fail(TT_ERR_ARG,
                       "%s is set in the environment and %s is not: set both "
                       "or none",
                       has_rank ? s->rank : s->size,
                       has_rank ? s->size : s->rank);
    *out = (word){0};
    if (!has_rank)
        return TT_OK;
    TT_TRY(number(get, s->rank, 0, &w.rank));
    TT_TRY(number(get, s->size, 0, &w.size));
    TT_TRY(number(get, s->local_rank, 0, &w.local_rank));
    TT_TRY(number(get, s->local_size, 0, &w.local_size));
    TT_TRY(check(&w));
    *out = w;
    return TT_OK;
}

// ---- Slurm ---------------------------------------------------------------

// Tasks on node `node` from "4(x2),1": two nodes of four, one of one. 0: not said.
static int32_t tasks_on(const char *text, int32_t node)
{
    while (text != NULL && *text != '\0') {
        char *end = NULL;
        const long tasks = strtol(text, &end, 10);
        long times = 1;
        if (end == text || tasks < 0 || tasks > MOST_RANKS)
            return 0;
        if (end[0] == '(' && end[1] == 'x') {
            times = strtol(end + 2, &end, 10);
            end += *end == ')';
        }
        if (node < times)
            return (int32_t)tasks;
        node -= (int32_t)(times < MOST_RANKS ? times : MOST_RANKS);
        text = *end == ',' ? end + 1 : NULL;
    }
    return 0;
}

// Only inside a step: a batch script has SLURM_NTASKS too, and is one process.
static tt_status listen_to_slurm(tt_env_fn *get, word *out)
{
    word w = {.launcher = "srun", .why = "SLURM_STEP_ID is set"};
    int32_t node = 0;
    *out = (word){0};
    if (text_of(get, "SLURM_STEP_ID") == NULL ||
        text_of(get, "SLURM_STEP_NUM_TASKS") == NULL ||
        text_of(get, "SLURM_PROCID") == NULL)
        return TT_OK;
    TT_TRY(number(get, "SLURM_PROCID", 0, &w.rank));
    TT_TRY(number(get, "SLURM_STEP_NUM_TASKS", 0, &w.size));
    TT_TRY(number(get, "SLURM_LOCALID", 0, &w.local_rank));
    TT_TRY(number(get, "SLURM_NODEID", 0, &node));
    w.local_size = tasks_on(text_of(get, "SLURM_STEP_TASKS_PER_NODE"), node);
    TT_TRY(check(&w));
    *out = w;
    return TT_OK;
}

// srun starts one torchrun per node, which starts ranks.
static tt_status is_torchruns_step(tt_env_fn *get, const word *slurm, bool *out)
{
    int32_t node = -1, nodes = -1;
    TT_TRY(number(get, "GROUP_RANK", -1, &node));
    TT_TRY(number(get, "GROUP_WORLD_SIZE", -1, &nodes));
    *out = node == slurm->rank && nodes == slurm->size;
    return TT_OK;
}

// ---- all of them ---------------------------------------------------------

static bool is_same(const word *a, const word *b)
{
    return a->rank == b->rank && a->size == b->size;
}

static tt_status disagree(const word *a, const word *b)
{
    return tt_fail(TT_ERR_ARG,
                   "%s says rank %d of %d (%s) but %s says rank %d of %d (%s): "
                   "start the ranks with one launcher",
                   a->launcher, a->rank, a->size, a->why, b->launcher, b->rank,
                   b->size, b->why);
}

// Whether the step of Slurm is about this process, when another launcher spoke too. If
// it is and the two disagree, that is an error: it would be wrong to guess.
static tt_status hear_slurm(tt_env_fn *get, const word *said, const word *slurm,
                            const word *winner)
{
    bool is_outer = false;
    // Daemons of mpirun and proxies of hydra are steps of their own.
    if (slurm->launcher == NULL || said[OPEN_MPI].launcher != NULL ||
        text_of(get, "MPI_LOCALRANKID") != NULL || is_same(slurm, winner))
        return TT_OK;
    TT_TRY(is_torchruns_step(get, slurm, &is_outer));
    return is_outer ? TT_OK : disagree(winner, slurm);
}

static bool has_pmi(tt_env_fn *get)
{
    return text_of(get, "PMIX_RANK") != NULL ||
           text_of(get, "PMI_RANK") != NULL || text_of(get, "PMI_FD") != NULL ||
           text_of(get, "PMI2_FD") != NULL;
}

tt_status tt_world_find(tt_env_fn *get, tt_world *world_out)
{
    const word alone = {.launcher = "none",
                        .why = "no launcher is in the environment",
                        .size = 1,
                        .local_size = 1};
    word said[N_SPEAKERS], slurm;
    const word *winner = NULL;
    for (int i = 0; i < N_SPEAKERS; i++) {
        TT_TRY(listen(get, &speakers[i], &said[i]));
        if (said[i].launcher == NULL)
            continue;
        winner = winner == NULL ? &said[i] : winner;
        if (!is_same(winner, &said[i]))
            return disagree(winner, &said[i]);
    }
    TT_TRY(listen_to_slurm(get, &slurm));
    if (winner != NULL)
        TT_TRY(hear_slurm(get, said, &slurm, winner));
    // srun speaks PMI itself; hydra also says which rank of the host this is.
    if (slurm.launcher != NULL &&
        (winner == NULL || (winner == &said[HYDRA] && is_same(winner, &slurm) &&
                            text_of(get, "MPI_LOCALRANKID") == NULL)))
        winner = &slurm;
    const bool has_mpi = said[OPEN_MPI].launcher != NULL ||
                         said[HYDRA].launcher != NULL ||
                         (winner == &slurm && has_pmi(get));
    winner = winner == NULL ? &alone : winner;
    *world_out = (tt_world){.launcher = winner->launcher,
                            .why = winner->why,
                            .rank = winner->rank,
                            .size = winner->size,
                            .local_rank = winner->local_rank,
                            .local_size = winner->local_size,
                            .has_mpi = has_mpi};
    return TT_OK;
}
