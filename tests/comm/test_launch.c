// Ranks as processes: they meet, and whatever ends one of them is told.

#include "base/clock.h"
#include "comm/coll/coll.h"
#include "comm/launch.h"
#include "test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void nap(double seconds)
{
    const struct timespec t = {
        .tv_sec = (time_t)seconds,
        .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    (void)nanosleep(&t, NULL);
}

// Sums 1 + 2 + ... over the ranks, again and again.
static tt_status sum_up(const tt_launch_rank *r, int times)
{
    tt_comm *comm = NULL;
    TT_TRY(tt_shm_open(r->world, r->rank, r->deadline, &comm));
    for (int k = 0; k < times; k++) {
        int32_t sum = r->rank + 1;
        tt_event e = {.step = 12, .number = k + 1};
        tt_journal_text(&e, "all_reduce", "h.3.mlp");
        tt_journal_add(comm->journal, &e);
        const tt_coll_call call = {.kind = TT_ALL_REDUCE,
                                   .group = {.n = r->n_ranks, .me = r->rank},
                                   .fold = {TT_FOLD_SUM, TT_NUM_I32},
                                   .count = 1,
                                   .in = &sum,
                                   .out = &sum};
        tt_status status = tt_coll_run(tt_coll_find("ring"), comm, &call);
        if (status == TT_OK && sum != r->n_ranks * (r->n_ranks + 1) / 2)
            status = tt_fail(TT_ERR_STATE, "the sum is %d", sum);
        if (status != TT_OK) {
            tt_comm_close(comm);
            return status;
        }
    }
    tt_comm_close(comm);
    return TT_OK;
}

static tt_status agree(const tt_launch_rank *r, void *user)
{
    return sum_up(r, *(const int *)user);
}

TEST(launch_runs_ranks_that_agree)
{
    int times = 200;
    for (int n = 1; n <= 5; n++) {
        const tt_launch_options o = {.n_ranks = n, .pin = true};
        CHECK_OK(tt_launch(&o, agree, &times));
    }
}

static tt_status fail_at_two(const tt_launch_rank *r, void *user)
{
    (void)user;
    TT_TRY(sum_up(r, 5));
    if (r->rank == 2)
        return tt_fail(TT_ERR_IO, "no space left for rank 2");
    return sum_up(r, 1000000);
}

TEST(launch_tells_which_rank_failed_and_why)
{
    const tt_launch_options o = {.n_ranks = 4};
    CHECK(tt_launch(&o, fail_at_two, NULL) == TT_ERR_PEER);
    const char *m = tt_error_message();
    CHECK_MSG(strncmp(m, "rank 2 ", 7) == 0, "%s", m);
    CHECK_MSG(strstr(m, "no space left for rank 2") != NULL, "%s", m);
}

static tt_status kill_self(const tt_launch_rank *r, void *user)
{
    TT_TRY(sum_up(r, 183));
    if (r->rank == 1)
        (void)kill(getpid(), *(const int *)user);
    return sum_up(r, 1000000);
}

TEST(launch_ends_within_a_second_when_a_rank_is_killed)
{
    int signal = SIGKILL;
    const tt_launch_options o = {.n_ranks = 3};
    const double start = tt_clock_seconds();
    CHECK(tt_launch(&o, kill_self, &signal) == TT_ERR_PEER);
    CHECK(tt_clock_seconds() - start < 3);
    const char *m = tt_error_message();
    CHECK_MSG(strncmp(m, "rank 1 ", 7) == 0, "%s", m);
    CHECK_MSG(strstr(m, "all_reduce 183 of step 12 (h.3.mlp): killed by "
                        "signal 9") != NULL,
              "%s", m);
    CHECK_MSG(strstr(m, "ranks 0, 2 waited") != NULL, "%s", m);
}

TEST(launch_gives_up_a_rank_that_is_stopped)
{
    int signal = SIGSTOP;
    const tt_launch_options o = {.n_ranks = 3, .deadline = 1.5};
    const double start = tt_clock_seconds();
    CHECK(tt_launch(&o, kill_self, &signal) == TT_ERR_PEER);
    CHECK(tt_clock_seconds() - start < 5);
    const char *m = tt_error_message();
    CHECK_MSG(strncmp(m, "rank 1 ", 7) == 0, "%s", m);
    CHECK_MSG(strstr(m, "no sign of life") != NULL, "%s", m);
}

static tt_status work_on(const tt_launch_rank *r, void *user)
{
    int *pipe_out = user;
    const int pid = getpid();
    if (write(*pipe_out, &pid, sizeof pid) != sizeof pid)
        return tt_fail(TT_ERR_IO, "the pipe is closed");
    return sum_up(r, 100000000);
}

TEST(launch_leaves_no_rank_when_it_is_killed)
{
    int ends[2], pid[3];
    CHECK(pipe(ends) == 0);
    const pid_t launcher = fork();
    if (launcher == 0) {
        const tt_launch_options o = {.n_ranks = 3};
        (void)tt_launch(&o, work_on, &ends[1]);
        _exit(0);
    }
    for (int i = 0; i < 3; i++)
        CHECK(read(ends[0], &pid[i], sizeof pid[i]) == sizeof pid[i]);
    CHECK(kill(launcher, SIGKILL) == 0);
    CHECK(waitpid(launcher, NULL, 0) == launcher);
    for (int i = 0; i < 3; i++) {
        int left = 200; // they are nobody's children now: only looked at
        while (kill(pid[i], 0) == 0 && left-- > 0)
            nap(0.01);
        char path[64], state = 'Z';
        snprintf(path, sizeof path, "/proc/%d/stat", pid[i]);
        FILE *f = fopen(path, "r");
        if (f != NULL) {
            CHECK(fscanf(f, "%*d %*s %c", &state) == 1);
            fclose(f);
        }
        CHECK_MSG(state == 'Z', "rank %d runs on", i);
    }
}
