// Ranks that were started apart find each other's memory, or say who is missing.

#include "comm/transport/meet.h"
#include "comm/transport/shm.h"
#include "test.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char port[32];

static const char *get(const char *name)
{
    return strcmp(name, "MASTER_PORT") == 0 ? port : NULL;
}

static tt_meet_options options_of(int32_t rank, int32_t size, double deadline)
{
    return (tt_meet_options){.get = get,
                             .rank = rank,
                             .size = size,
                             .rank_bytes = 1 << 20,
                             .deadline = deadline};
}

// Tests run at the same time; each has its own name.
static void name_job(const char *what)
{
    snprintf(port, sizeof port, "%.12s%d", what, (int)getpid());
}

enum { RANKS = 4 };

// Every rank sends its number to all, from memory that is read in place.
static tt_status talk(int32_t rank)
{
    const tt_meet_options o = options_of(rank, RANKS, 20);
    tt_shm_world *world = NULL;
    tt_comm *comm = NULL;
    TT_TRY(tt_meet(&o, &world));
    TT_TRY(tt_shm_open(world, rank, 20, &comm));
    enum { BYTES = 64 << 10 };
    char *mine = tt_comm_alloc(comm, BYTES),
         *theirs = tt_comm_alloc(comm, BYTES);
    if (mine == NULL || theirs == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory");
    memset(mine, 'a' + rank, BYTES);
    for (int32_t s = 1; s < RANKS; s++) {
        const int32_t to = (rank + s) % RANKS,
                      from = (rank + RANKS - s) % RANKS;
        tt_msg out = {.peer = to, .data = mine, .bytes = BYTES};
        tt_msg in = {.peer = from, .data = theirs, .bytes = BYTES};
        TT_TRY(tt_comm_swap(comm, &out, &in));
        if (theirs[0] != 'a' + from || theirs[BYTES - 1] != 'a' + from)
            return tt_fail(TT_ERR_STATE, "other bytes from rank %d", from);
    }
    tt_comm_close(comm);
    tt_shm_world_destroy(world);
    return TT_OK;
}

TEST(ranks_meet_in_any_order)
{
    pid_t pid[RANKS];
    name_job("any");
    for (int32_t i = 0; i < RANKS; i++) {
        const int32_t rank = RANKS - 1 - i; // rank 0 comes last
        pid[rank] = fork();
        CHECK(pid[rank] >= 0);
        if (pid[rank] == 0) {
            const tt_status status = talk(rank);
            if (status != TT_OK)
                fprintf(stderr, "rank %d: %s\n", rank, tt_error_message());
            _exit(status != TT_OK);
        }
        usleep(30000);
    }
    for (int32_t r = 0; r < RANKS; r++) {
        int status = 0;
        CHECK(waitpid(pid[r], &status, 0) == pid[r]);
        CHECK_MSG(status == 0, "rank %d ended with %d", r, status);
    }
}

TEST(ranks_do_not_wait_for_ever_for_each_other)
{
    tt_shm_world *world = NULL;
    name_job("late");
    const tt_meet_options first = options_of(0, 3, 0.3);
    CHECK(tt_meet(&first, &world) == TT_ERR_TIMEOUT);
    CHECK_MSG(strstr(tt_error_message(), "for rank 1 to start") != NULL, "%s",
              tt_error_message());
    const tt_meet_options other = options_of(2, 3, 0.3);
    CHECK(tt_meet(&other, &world) == TT_ERR_TIMEOUT);
    CHECK_MSG(strstr(tt_error_message(), "for rank 0 to start") != NULL, "%s",
              tt_error_message());
}

// What rank 0 says when a process comes that it does not expect.
static void meets_stranger(tt_meet_options stranger, const char *says)
{
    tt_shm_world *world = NULL;
    const tt_meet_options o = options_of(0, 2, 10);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        const tt_status status = tt_meet(&stranger, &world);
        _exit(status == TT_ERR_PEER ? 0 : 1);
    }
    CHECK(tt_meet(&o, &world) == TT_ERR_PEER);
    CHECK_MSG(strstr(tt_error_message(), says) != NULL, "%s",
              tt_error_message());
    int status = 1;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

TEST(a_rank_of_another_job_is_not_let_in)
{
    name_job("size");
    meets_stranger(options_of(1, 3, 10), "MASTER_PORT");
    name_job("bytes");
    tt_meet_options other = options_of(1, 2, 10);
    other.rank_bytes = 2 << 20;
    meets_stranger(other, "other settings");
}

TEST(two_jobs_of_one_name_are_told_apart)
{
    tt_shm_world *world = NULL;
    name_job("two");
    const tt_meet_options o = options_of(0, 2, 2);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        _exit(tt_meet(&o, &world) != TT_ERR_TIMEOUT);
    usleep(300000);
    CHECK(tt_meet(&o, &world) == TT_ERR_PEER);
    CHECK_MSG(strstr(tt_error_message(), "another MASTER_PORT") != NULL, "%s",
              tt_error_message());
    int status = 1;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}
