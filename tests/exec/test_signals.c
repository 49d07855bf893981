// No signal handler runs on a thread that computes: see exec/signals.h.

#include "exec/signals.h"
#include "exec/world.h"
#include "test.h"

#include <omp.h>
#include <pthread.h>

static volatile sig_atomic_t n_handled;

static void handle(int signal)
{
    (void)signal;
    n_handled = n_handled + 1;
}

// Sends a signal to the thread that runs the plan, in the middle of it.
static tt_status feed(void *user, tt_exec *exec, int32_t micro)
{
    CHECK(pthread_kill(pthread_self(), SIGUSR2) == 0);
    CHECK(n_handled == 0);
    return world_feed_rows(user, exec, micro);
}

TEST(a_signal_waits_for_the_end_of_a_run)
{
    struct sigaction action = {.sa_handler = handle}, before;
    world w;
    CHECK(sigaction(SIGUSR2, &action, &before) == 0);
    n_handled = 0;
    world_init(&w);
    world_build_mlp(&w.b, 4);
    world_open(&w, NULL, &(tt_lower_options){.n_micro = 1});
    CHECK_OK(tt_exec_run(w.exec, feed, &w));
    CHECK(n_handled == 1);
    world_fini(&w);
    CHECK(sigaction(SIGUSR2, &before, NULL) == 0);
}

// Its mask is the caller's again, and that of a team is not.
TEST(threads_of_the_team_take_no_signals)
{
    enum { N = 4 };
    sigset_t before, now;
    int n_blocked = 0, n_faults = 0;
    // Threads that the library started earlier, with nothing blocked.
#pragma omp parallel num_threads(N) reduction(+ : n_blocked)
    {
        sigset_t none;
        (void)sigemptyset(&none);
        n_blocked += pthread_sigmask(SIG_SETMASK, &none, NULL) != 0;
    }
    CHECK(n_blocked == 0);
    tt__exec_signals_hold(N, &before);
#pragma omp parallel num_threads(N) reduction(+ : n_blocked, n_faults)
    {
        sigset_t own;
        (void)pthread_sigmask(SIG_BLOCK, NULL, &own);
        n_blocked += sigismember(&own, SIGTERM) == 1;
        n_faults += sigismember(&own, SIGSEGV) == 1;
    }
    CHECK(n_blocked == N && n_faults == 0);
    tt__exec_signals_release(&before);
    (void)pthread_sigmask(SIG_BLOCK, NULL, &now);
    CHECK(sigismember(&now, SIGTERM) == 0);
}
