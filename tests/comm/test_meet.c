// Ranks that were started apart find each other's memory, or say who is missing.

#include "comm/transport/meet.h"
#include "comm/transport/shm.h"
#include "test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
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

// ---- strangers -----------------------------------------------------------

// What is listened at under the name of a job; -1: nobody does.
static int knock(void)
{
    char line[512], name[108] = "";
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char own[32];
    snprintf(own, sizeof own, "@tutti-%u-", (unsigned)getuid());
    FILE *f = fopen("/proc/net/unix", "r");
    CHECK(f != NULL);
    // Tests run at the same time: the strangers go to all of them.
    while (fgets(line, sizeof line, f) != NULL) {
        const char *found = strstr(line, own);
        if (found != NULL && sscanf(found, "@%100s", name) == 1 &&
            strcmp(name, "") != 0)
            break;
        name[0] = '\0';
    }
    (void)fclose(f);
    if (name[0] == '\0')
        return -1;
    memcpy(at.sun_path + 1, name, strlen(name));
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    const socklen_t n =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    if (connect(fd, (const struct sockaddr *)&at, n) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

typedef void strange_fn(int fd, int turn);

static void says_nothing(int fd, int turn)
{
    (void)turn, (void)fd; // and stays
}

static void talks_garbage(int fd, int turn)
{
    char noise[4096];
    memset(noise, 0x5a + turn, sizeof noise);
    (void)send(fd, noise, (size_t)(turn * 37 % 4096), MSG_NOSIGNAL);
}

static void goes_away(int fd, int turn)
{
    if (turn % 2 == 0)
        (void)send(fd, "tutti", 5, MSG_NOSIGNAL);
    (void)close(fd);
}

// As long as ranks have not met, many come that are none.
static pid_t let_in(strange_fn *stranger)
{
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid != 0)
        return pid;
    for (int turn = 0; turn < 400; turn++) {
        const int fd = knock();
        if (fd >= 0)
            stranger(fd, turn);
        usleep(1000);
    }
    pause();
    _exit(0);
}

static void meets_despite(strange_fn *stranger, const char *name)
{
    pid_t pid[RANKS];
    name_job(name);
    const pid_t other = let_in(stranger);
    for (int32_t rank = 0; rank < RANKS; rank++) {
        pid[rank] = fork();
        CHECK(pid[rank] >= 0);
        if (pid[rank] == 0) {
            usleep(rank == 0 ? 0 : 300000); // strangers come first
            const tt_status status = talk(rank);
            if (status != TT_OK)
                fprintf(stderr, "rank %d: %s\n", rank, tt_error_message());
            _exit(status != TT_OK);
        }
    }
    for (int32_t r = 0; r < RANKS; r++) {
        int status = 0;
        CHECK(waitpid(pid[r], &status, 0) == pid[r]);
        CHECK_MSG(status == 0, "%s: rank %d ended with %d", name, r, status);
    }
    CHECK(kill(other, SIGKILL) == 0 && waitpid(other, NULL, 0) == other);
}

TEST(ranks_meet_while_strangers_say_nothing)
{
    meets_despite(says_nothing, "mute");
}

TEST(ranks_meet_while_strangers_talk_garbage)
{
    meets_despite(talks_garbage, "noise");
}

TEST(ranks_meet_while_strangers_come_and_go)
{
    meets_despite(goes_away, "gone");
}

// Another user's process has the name of the socket, and may knock.
static void be_nobody(int fd, int turn)
{
    (void)fd;
    if (turn == 0 && setresuid(54321, 54321, 54321) != 0)
        _exit(1);
}

TEST(ranks_meet_while_another_user_knocks)
{
    if (geteuid() != 0)
        tt_test_skip("needs root, to become somebody else");
    meets_despite(be_nobody, "user");
}

// A rank that was started, ended and was started again before all were there.
TEST(a_rank_may_come_again)
{
    name_job("again");
    const tt_meet_options first = options_of(0, 3, 20),
                          late = options_of(1, 3, 20);
    tt_shm_world *world = NULL;
    pid_t pid[3];
    for (int i = 0; i < 3; i++) { // rank 0, rank 1, and rank 1 again
        pid[i] = fork();
        CHECK(pid[i] >= 0);
        if (pid[i] == 0)
            _exit(tt_meet(i == 0 ? &first : &late, &world) != TT_OK);
        usleep(300000);
        if (i == 1)
            CHECK(kill(pid[1], SIGKILL) == 0 &&
                  waitpid(pid[1], NULL, 0) == pid[1]);
    }
    const tt_meet_options last = options_of(2, 3, 20);
    CHECK_OK(tt_meet(&last, &world));
    for (int i = 0; i < 3; i += 2) {
        int status = 0;
        CHECK(waitpid(pid[i], &status, 0) == pid[i]);
        CHECK_MSG(status == 0, "%d: %d", i, status);
    }
    tt_shm_world_destroy(world);
}
