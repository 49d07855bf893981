// signals - masks of this thread and of its OpenMP team. The header says why.

#include "exec/signals.h"

#include <pthread.h>

// All but those that a thread raises by its own fault.
static sigset_t held_set(void)
{
    static const int faults[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
                                 SIGTRAP, SIGABRT, SIGSYS};
    sigset_t set;
    (void)sigfillset(&set);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        (void)sigdelset(&set, faults[i]);
    return set;
}

void tt__exec_signals_hold(int n_threads, sigset_t *before_out)
{
    const sigset_t held = held_set();
    (void)pthread_sigmask(SIG_BLOCK, &held, before_out);
    // The library may have started threads of the team at any time, and with another
    // mask: so all of them are asked, each time.
    if (n_threads > 1) {
#pragma omp parallel num_threads(n_threads)
        (void)pthread_sigmask(SIG_BLOCK, &held, NULL);
    }
}

void tt__exec_signals_release(const sigset_t *before)
{
    (void)pthread_sigmask(SIG_SETMASK, before, NULL);
}
