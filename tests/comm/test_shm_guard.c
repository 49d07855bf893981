// Ranks without a launcher of ours know when one of them is gone.

#include "base/clock.h"
#include "comm/transport/shm_guard.h"
#include "test.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct end { // one rank
    tt_shm_guard *guard;
    tt_comm *comm;
} end;

static end open_end(tt_shm_world *world, int32_t rank, double deadline)
{
    end e = {0};
    CHECK_OK(tt_shm_guard_start(world, rank, deadline, &e.guard));
    CHECK_OK(tt_shm_open(world, rank, 60, &e.comm));
    return e;
}

static void close_end(end *e)
{
    tt_comm_close(e->comm);
    tt_shm_guard_stop(e->guard);
}

// Rank 1 says hello and then waits for what never comes.
static void be_guest(tt_shm_world *world, double deadline)
{
    char byte = 1;
    end e = open_end(world, 1, deadline);
    tt_msg out = {.peer = 0, .tag = 1, .data = &byte, .bytes = 1};
    tt_msg in = {.peer = 0, .tag = 2, .data = &byte, .bytes = 1};
    CHECK_OK(tt_comm_swap(e.comm, &out, NULL));
    const tt_status status = tt_comm_swap(e.comm, NULL, &in);
    const bool knows =
        strstr(tt_error_message(), "rank 1 gave no sign of life, so the others "
                                   "gave it up") != NULL;
    close_end(&e);
    _exit(status == TT_ERR_PEER && knows ? 0 : 1);
}

// Seconds until rank 0 knows what became of rank 1.
static double lose(int number, double deadline, const char *words)
{
    char byte = 0;
    tt_shm_world *world = NULL;
    int status = 0;
    CHECK_OK(tt_shm_world_create(2, 1 << 16, &world));
    const pid_t pid = fork();
    if (pid == 0)
        be_guest(world, deadline);
    end e = open_end(world, 0, deadline);
    tt_msg first = {.peer = 1, .tag = 1, .data = &byte, .bytes = 1};
    tt_msg second = first;
    CHECK_OK(tt_comm_swap(e.comm, NULL, &first));
    const double start = tt_clock_seconds();
    CHECK(kill(pid, number) == 0);
    const tt_status lost = tt_comm_swap(e.comm, NULL, &second);
    CHECK_MSG(lost == TT_ERR_PEER, "%d: %s", (int)lost, tt_error_message());
    const double took = tt_clock_seconds() - start;
    CHECK_MSG(strstr(tt_error_message(), words) != NULL, "%s",
              tt_error_message());
    CHECK(tt_shm_world_has_lost(world, 1) && !tt_shm_world_has_lost(world, 0));
    (void)kill(pid, SIGCONT);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(number == SIGKILL ? WIFSIGNALED(status) : status == 0);
    close_end(&e);
    tt_shm_world_destroy(world);
    return took;
}

TEST(guard_notices_a_death_at_once)
{
    CHECK(lose(SIGKILL, 30, "rank 1 died while rank 0 waited") < 1);
}

TEST(guard_notices_a_rank_that_stopped)
{
    const double took = lose(SIGSTOP, 2, "rank 1 gave no sign of life");
    CHECK_MSG(took > 1.5 && took < 6, "%.2f s", took);
}

// Rank 1 works for longer than a wait may last in which nobody does.
TEST(guarded_ranks_wait_for_one_that_works)
{
    char byte = 7;
    tt_shm_world *world = NULL;
    int status = 1;
    CHECK_OK(tt_shm_world_create(2, 1 << 16, &world));
    const pid_t pid = fork();
    end e = open_end(world, pid == 0, 5);
    e.comm->deadline = 0.4;
    tt_msg msg = {.peer = pid != 0, .tag = 1, .data = &byte, .bytes = 1};
    if (pid == 0) {
        (void)usleep(1500000);
        const tt_status sent = tt_comm_swap(e.comm, &msg, NULL);
        close_end(&e);
        _exit(sent == TT_OK ? 0 : 1);
    }
    CHECK_OK(tt_comm_swap(e.comm, NULL, &msg));
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    close_end(&e);
    tt_shm_world_destroy(world);
}

TEST(guard_lets_ranks_leave)
{
    tt_shm_world *world = NULL;
    CHECK_OK(tt_shm_world_create(2, 1 << 16, &world));
    end a = open_end(world, 0, 0.3);
    end b = open_end(world, 1, 0.3);
    close_end(&b);
    (void)usleep(600000);
    CHECK(!tt_shm_world_has_lost(world, 0) && !tt_shm_world_has_lost(world, 1));
    close_end(&a);
    tt_shm_world_destroy(world);
}
