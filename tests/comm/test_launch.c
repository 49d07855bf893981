// Ranks as processes: they meet, and whatever ends one of them is told.

#include "base/clock.h"
#include "comm/coll/coll.h"
#include "comm/launch.h"
#include "test.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
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
static tt_status sum_up(tt_comm *comm, int times)
{
    for (int k = 0; k < times; k++) {
        int32_t sum = comm->rank + 1;
        tt_journal_event e = {.step = 12, .number = k + 1};
        tt_journal_text(&e, "all_reduce", "h.3.mlp");
        tt_journal_add(comm->journal, &e);
        const tt_coll_call call = {.kind = TT_ALL_REDUCE,
                                   .group = {.n = comm->size, .me = comm->rank},
                                   .fold = {TT_FOLD_SUM, TT_NUM_I32},
                                   .count = 1,
                                   .in = &sum,
                                   .out = &sum};
        TT_TRY(tt_coll_run(tt_coll_find("ring"), comm, &call));
        if (sum != comm->size * (comm->size + 1) / 2)
            return tt_fail(TT_ERR_STATE, "the sum is %d", sum);
    }
    return TT_OK;
}

// What one rank does besides: something happens to one of them after 183 sums.
typedef struct plot {
    int32_t victim; // -1: none
    int signal;     // 0: it returns an error
    int before, after;
} plot;

static tt_status play(tt_comm *comm, const plot *p)
{
    TT_TRY(sum_up(comm, p->before));
    if (comm->rank == p->victim && p->signal == 0)
        return tt_fail(TT_ERR_IO, "no space left for rank %d", comm->rank);
    if (comm->rank == p->victim)
        (void)kill(getpid(), p->signal);
    return sum_up(comm, p->after);
}

static tt_status be_rank(const tt_launch_rank *r, void *user)
{
    tt_comm *comm = NULL;
    TT_TRY(tt_shm_open(r->world, r->rank, r->deadline, &comm));
    const tt_status status = play(comm, user);
    tt_comm_close(comm);
    return status;
}

enum { FOREVER = 100000000 };

TEST(launch_runs_ranks_that_agree)
{
    plot p = {.victim = -1, .before = 200};
    for (int n = 1; n <= 5; n++) {
        const tt_launch_options o = {.n_ranks = n, .pin = true};
        CHECK_OK(tt_launch(&o, be_rank, &p));
    }
}

TEST(launch_tells_which_rank_failed_and_why)
{
    const tt_launch_options o = {.n_ranks = 4};
    plot p = {.victim = 2, .before = 5, .after = FOREVER};
    CHECK(tt_launch(&o, be_rank, &p) == TT_ERR_PEER);
    const char *m = tt_error_message();
    CHECK_MSG(strncmp(m, "rank 2 ", 7) == 0, "%s", m);
    CHECK_MSG(strstr(m, "no space left for rank 2") != NULL, "%s", m);
}

TEST(launch_ends_within_a_second_when_a_rank_is_killed)
{
    plot p = {1, SIGKILL, 183, FOREVER};
    const tt_launch_options o = {.n_ranks = 3};
    const double start = tt_clock_seconds();
    CHECK(tt_launch(&o, be_rank, &p) == TT_ERR_PEER);
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
    plot p = {1, SIGSTOP, 183, FOREVER};
    const tt_launch_options o = {.n_ranks = 3, .deadline = 1.5};
    const double start = tt_clock_seconds();
    CHECK(tt_launch(&o, be_rank, &p) == TT_ERR_PEER);
    CHECK(tt_clock_seconds() - start < 5);
    const char *m = tt_error_message();
    CHECK_MSG(strncmp(m, "rank 1 ", 7) == 0, "%s", m);
    CHECK_MSG(strstr(m, "no sign of life") != NULL, "%s", m);
}

static tt_status say_and_work(const tt_launch_rank *r, void *user)
{
    const int *pipe_end = user, pid = getpid();
    plot p = {.victim = -1, .before = FOREVER};
    if (write(*pipe_end, &pid, sizeof pid) != sizeof pid)
        return tt_fail(TT_ERR_IO, "the pipe is closed");
    return be_rank(r, &p);
}

TEST(launch_leaves_no_rank_when_it_is_killed)
{
    int ends[2], pid[3];
    CHECK(pipe(ends) == 0);
    const pid_t launcher = fork();
    if (launcher == 0) {
        const tt_launch_options o = {.n_ranks = 3};
        (void)tt_launch(&o, say_and_work, &ends[1]);
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

// ---- nothing is left, whatever happens -----------------------------------

static bool has_children(void)
{
    return waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD;
}

typedef tt_status scene_fn(tt_comm *comm);

typedef struct scene {
    scene_fn *fn;
    int32_t n;
    const char *name, *why; // in the message; NULL: it goes well
} scene;

static tt_status act(const tt_launch_rank *r, void *user)
{
    const scene *s = user;
    tt_comm *comm = NULL;
    TT_TRY(tt_shm_open(r->world, r->rank, r->deadline, &comm));
    const tt_status status = s->fn(comm);
    tt_comm_close(comm);
    return status;
}

static void play_scene(scene s)
{
    const tt_launch_options o = {.n_ranks = s.n, .deadline = 5};
    const double start = tt_clock_seconds();
    const tt_status status = tt_launch(&o, act, &s);
    const char *m = status == TT_OK ? "" : tt_error_message();
    CHECK_MSG(tt_clock_seconds() - start < 3, "it took %g s",
              tt_clock_seconds() - start);
    CHECK_MSG((status == TT_OK) == (s.why == NULL), "%s", m);
    CHECK_MSG(s.why == NULL || strstr(m, s.why) != NULL, "%s", m);
    CHECK_MSG(s.name == NULL || strncmp(m, s.name, strlen(s.name)) == 0, "%s",
              m);
    CHECK(!has_children());
}

static tt_status leave_early(tt_comm *comm)
{
    TT_TRY(sum_up(comm, 3));
    if (comm->rank == 1)
        _exit(0); // without a word
    return sum_up(comm, FOREVER);
}

TEST(launch_ends_when_a_rank_leaves_before_the_others)
{
    play_scene((scene){leave_early, 3, NULL, "rank 1 left"});
}

static tt_status leave_well(tt_comm *comm)
{
    TT_TRY(sum_up(comm, 3));
    if (comm->rank > 0)
        _exit(0);
    nap(0.1); // works on alone
    return TT_OK;
}

TEST(launch_waits_for_the_last)
{
    play_scene((scene){leave_well, 4, NULL, NULL});
}

static tt_status fail_with_another(tt_comm *comm)
{
    TT_TRY(sum_up(comm, 3));
    if (comm->rank == 1)
        return tt_fail(TT_ERR_IO, "no space left");
    if (comm->rank == 2)
        (void)kill(getpid(), SIGKILL);
    return sum_up(comm, FOREVER);
}

static tt_status fail_all(tt_comm *comm)
{
    return tt_fail(TT_ERR_ARG, "rank %d was told nonsense", comm->rank);
}

static tt_status fail_in_all_ways(tt_comm *comm)
{
    if (comm->rank == 0)
        (void)raise(SIGSEGV);
    if (comm->rank == 1)
        _exit(7);
    if (comm->rank == 2)
        (void)kill(getpid(), SIGSTOP);
    return sum_up(comm, FOREVER);
}

TEST(launch_names_one_of_several_that_fail)
{
    for (int i = 0; i < 5; i++) {
        play_scene((scene){fail_with_another, 4, "rank ", " stopped in "});
        play_scene((scene){fail_all, 4, "rank ", "was told nonsense"});
        play_scene((scene){fail_in_all_ways, 4, "rank ", " stopped: "});
    }
}

// A slow checkpoint: rank 0 is away for much longer than any wait may last in which
// nobody works. Rank 2 waits for rank 1, which waits too.
static tt_status work_alone(tt_comm *comm)
{
    comm->deadline = 0.4;
    TT_TRY(sum_up(comm, 3));
    if (comm->rank == 0)
        nap(1.8);
    return sum_up(comm, 3);
}

TEST(launch_waits_for_a_rank_that_works)
{
    play_scene((scene){work_alone, 3, NULL, NULL});
}

// Everybody waits for what nobody sends.
static tt_status wait_in_a_circle(tt_comm *comm)
{
    char byte = 0;
    comm->deadline = 0.4;
    TT_TRY(sum_up(comm, 3));
    if (comm->rank == 0)
        nap(0.8);
    tt_msg in = {
        .peer = (comm->rank + 1) % comm->size, .data = &byte, .bytes = 1};
    return tt_comm_swap(comm, NULL, &in);
}

TEST(launch_ends_ranks_that_wait_for_each_other)
{
    play_scene((scene){wait_in_a_circle, 3, "rank ", " waited 0."});
}

static tt_status wait_for_term(tt_comm *comm)
{
    int got = 0;
    sigset_t term;
    (void)sigemptyset(&term);
    (void)sigaddset(&term, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &term, NULL);
    TT_TRY(sum_up(comm, 1)); // all are ready
    if (comm->rank == 0)
        (void)kill(getppid(), SIGTERM);
    return sigwait(&term, &got) == 0 && got == SIGTERM
               ? TT_OK
               : tt_fail(TT_ERR_STATE, "no signal came");
}

TEST(launch_passes_signals_on)
{
    play_scene((scene){wait_for_term, 3, NULL, NULL});
}

TEST(launch_works_where_children_are_ignored)
{
    CHECK(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
    play_scene((scene){leave_well, 3, NULL, NULL});
    play_scene((scene){leave_early, 3, NULL, "rank 1 left"});
}

TEST(launch_that_cannot_start_all_ranks_starts_none)
{
    const struct rlimit two = {2, 2};
    scene s = {leave_early, 6, NULL, NULL};
    const tt_launch_options o = {.n_ranks = s.n};
    if (geteuid() != 0)
        tt_test_skip("needs root, to become somebody without processes");
    CHECK(setrlimit(RLIMIT_NPROC, &two) == 0);
    CHECK(setresuid(54321, 54321, 54321) == 0);
    CHECK(tt_launch(&o, act, &s) == TT_ERR_NOMEM);
    CHECK_MSG(strstr(tt_error_message(), "cannot start rank ") != NULL, "%s",
              tt_error_message());
    CHECK(!has_children());
}
