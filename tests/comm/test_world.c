// What launchers leave in the environment is understood, traps included.

#include "comm/world.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

static const char *const *fake; // "NAME=value", ..., NULL

static const char *get(const char *name)
{
    const size_t n = strlen(name);
    for (const char *const *v = fake; *v != NULL; v++)
        if (strncmp(*v, name, n) == 0 && (*v)[n] == '=')
            return *v + n + 1;
    return NULL;
}

static tt_status find(const char *const *env, tt_world *out)
{
    fake = env;
    return tt_world_find(get, out);
}

#define ENV(...) ((const char *const[]){__VA_ARGS__, NULL})

#define SAYS(what)                                                             \
    CHECK_MSG(strstr(tt_error_message(), what) != NULL, "%s",                  \
              tt_error_message())

TEST(world_is_one_process_without_a_launcher)
{
    tt_world w;
    CHECK_OK(find(ENV("HOME=/"), &w));
    CHECK(strcmp(w.launcher, "none") == 0 && !w.has_mpi);
    CHECK(w.rank == 0 && w.size == 1 && w.local_rank == 0 && w.local_size == 1);
}

TEST(world_obeys_torchrun)
{
    tt_world w;
    CHECK_OK(
        find(ENV("RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4",
                 "GROUP_RANK=1", "GROUP_WORLD_SIZE=2"),
             &w));
    CHECK(strcmp(w.launcher, "torchrun") == 0 && !w.has_mpi);
    CHECK(w.rank == 5 && w.size == 8 && w.local_rank == 1 && w.local_size == 4);
}

TEST(world_obeys_mpirun_and_mpiexec)
{
    tt_world w;
    CHECK_OK(
        find(ENV("OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=3",
                 "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=1",
                 "OMPI_COMM_WORLD_NODE_RANK=7", "PMIX_RANK=2"),
             &w));
    CHECK(strcmp(w.launcher, "mpirun") == 0 && w.has_mpi);
    CHECK(w.rank == 2 && w.size == 3 && w.local_rank == 0 && w.local_size == 1);
    CHECK_OK(find(ENV("PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALRANKID=1",
                      "MPI_LOCALNRANKS=2", "PMI_FD=6"),
                  &w));
    CHECK(strcmp(w.launcher, "mpiexec") == 0 && w.has_mpi);
    CHECK(w.rank == 1 && w.size == 2 && w.local_rank == 1 && w.local_size == 2);
}

TEST(world_obeys_srun_only_inside_a_step)
{
    tt_world w;
    CHECK_OK(
        find(ENV("SLURM_JOB_ID=9", "SLURM_NTASKS=8", "SLURM_PROCID=0"), &w));
    CHECK(w.size == 1 && strcmp(w.launcher, "none") == 0);
    CHECK_OK(
        find(ENV("SLURM_JOB_ID=9", "SLURM_NTASKS=9", "SLURM_STEP_ID=0",
                 "SLURM_STEP_NUM_TASKS=9", "SLURM_PROCID=8", "SLURM_LOCALID=0",
                 "SLURM_NODEID=2", "SLURM_STEP_TASKS_PER_NODE=4(x2),1"),
             &w));
    CHECK(strcmp(w.launcher, "srun") == 0 && !w.has_mpi);
    CHECK(w.rank == 8 && w.size == 9 && w.local_rank == 0 && w.local_size == 1);
}

TEST(world_counts_the_tasks_of_its_own_node)
{
    static const char *const per_node[] = {"2,3", "2(x1),3(x4)", "1,3"};
    static const char *const wrong[] = {"", "x", "4(x1)", "3,"};
    tt_world w;
    for (int i = 0; i < 3; i++) {
        char tasks[64];
        snprintf(tasks, sizeof tasks, "SLURM_STEP_TASKS_PER_NODE=%s",
                 per_node[i]);
        CHECK_OK(find(ENV("SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=5",
                          "SLURM_PROCID=3", "SLURM_LOCALID=1", "SLURM_NODEID=1",
                          tasks),
                      &w));
        CHECK(w.local_size == 3);
    }
    for (int i = 0; i < 4; i++) {
        char tasks[64];
        snprintf(tasks, sizeof tasks, "SLURM_STEP_TASKS_PER_NODE=%s", wrong[i]);
        CHECK_OK(find(ENV("SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=5",
                          "SLURM_PROCID=3", "SLURM_NODEID=1", tasks),
                      &w));
        CHECK(w.local_size == 0);
    }
}

TEST(world_knows_whether_srun_speaks_for_mpi)
{
    tt_world w;
    CHECK_OK(find(ENV("SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=2",
                      "SLURM_PROCID=1", "PMIX_RANK=1"),
                  &w));
    CHECK(strcmp(w.launcher, "srun") == 0 && w.has_mpi && w.rank == 1);
    CHECK_OK(find(ENV("SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=2",
                      "SLURM_PROCID=1", "PMI_RANK=1", "PMI_SIZE=2", "PMI_FD=5"),
                  &w));
    CHECK(strcmp(w.launcher, "srun") == 0 && w.has_mpi && w.rank == 1);
}

TEST(world_believes_in_order)
{
    tt_world w;
    CHECK_OK(
        find(ENV("TUTTI_RANK=1", "TUTTI_WORLD_SIZE=2", "RANK=1", "WORLD_SIZE=2",
                 "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"),
             &w));
    CHECK(strcmp(w.launcher, "tutti") == 0 && w.has_mpi);
    CHECK_OK(find(ENV("RANK=1", "WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=1",
                      "OMPI_COMM_WORLD_SIZE=2"),
                  &w));
    CHECK(strcmp(w.launcher, "torchrun") == 0 && w.has_mpi);
}

TEST(world_refuses_launchers_that_disagree)
{
    tt_world w;
    CHECK(find(ENV("RANK=3", "WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=0",
                   "OMPI_COMM_WORLD_SIZE=1"),
               &w) == TT_ERR_ARG);
    SAYS("torchrun says rank 3 of 4");
    SAYS("mpirun says rank 0 of 1");
    CHECK(find(ENV("TUTTI_RANK=0", "TUTTI_WORLD_SIZE=2", "PMI_RANK=1",
                   "PMI_SIZE=2"),
               &w) == TT_ERR_ARG);
    CHECK(find(ENV("RANK=1", "WORLD_SIZE=2", "SLURM_STEP_ID=0",
                   "SLURM_STEP_NUM_TASKS=4", "SLURM_PROCID=1"),
               &w) == TT_ERR_ARG);
    SAYS("srun says rank 1 of 4");
}

TEST(world_lets_srun_start_other_launchers)
{
    tt_world w;
    // One torchrun per node.
    CHECK_OK(
        find(ENV("RANK=5", "WORLD_SIZE=8", "GROUP_RANK=1", "GROUP_WORLD_SIZE=2",
                 "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID=1"),
             &w));
    CHECK(strcmp(w.launcher, "torchrun") == 0 && w.rank == 5);
    // mpirun's daemons, hydra's proxies.
    CHECK_OK(
        find(ENV("OMPI_COMM_WORLD_RANK=6", "OMPI_COMM_WORLD_SIZE=8",
                 "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=1", "SLURM_PROCID=0"),
             &w));
    CHECK(strcmp(w.launcher, "mpirun") == 0 && w.rank == 6);
    CHECK_OK(find(ENV("PMI_RANK=6", "PMI_SIZE=8", "MPI_LOCALRANKID=2",
                      "MPI_LOCALNRANKS=4", "SLURM_STEP_ID=0",
                      "SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID=1"),
                  &w));
    CHECK(strcmp(w.launcher, "mpiexec") == 0 && w.rank == 6);
}

TEST(world_refuses_half_a_launcher_and_nonsense)
{
    tt_world w;
    CHECK(find(ENV("RANK=3"), &w) == TT_ERR_ARG);
    SAYS("WORLD_SIZE is not");
    CHECK(find(ENV("PMI_SIZE=3"), &w) == TT_ERR_ARG);
    SAYS("PMI_RANK is not");
    CHECK(find(ENV("RANK=x", "WORLD_SIZE=2"), &w) == TT_ERR_ARG);
    SAYS("RANK=x");
    CHECK(find(ENV("RANK=2", "WORLD_SIZE=2"), &w) == TT_ERR_ARG);
    CHECK(find(ENV("RANK=-1", "WORLD_SIZE=2"), &w) == TT_ERR_ARG);
    CHECK(find(ENV("RANK=0", "WORLD_SIZE=99999999999999999999"), &w) ==
          TT_ERR_ARG);
    CHECK(find(ENV("RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=2",
                   "LOCAL_WORLD_SIZE=2"),
               &w) == TT_ERR_ARG);
}
