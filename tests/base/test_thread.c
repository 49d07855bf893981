#include "base/thread.h"
#include "test.h"

#include <signal.h>

static void *read_mask(void *user)
{
    (void)pthread_sigmask(SIG_SETMASK, NULL, user);
    return NULL;
}

// SIGKILL and SIGSTOP cannot be blocked.
TEST(a_thread_begins_with_signals_blocked_and_its_starter_keeps_its_own)
{
    static const int some[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGALRM};
    sigset_t mine, before, after, inside;
    pthread_t thread;
    sigemptyset(&mine);
    sigaddset(&mine, SIGUSR2);
    (void)pthread_sigmask(SIG_SETMASK, &mine, &before);
    CHECK(tt_thread_start(&thread, read_mask, &inside, "a test") == TT_OK);
    (void)pthread_join(thread, NULL);
    (void)pthread_sigmask(SIG_SETMASK, &before, &after);
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        CHECK(sigismember(&inside, some[i]) == 1);
        CHECK(sigismember(&after, some[i]) == 0);
    }
    CHECK(sigismember(&after, SIGUSR2) == 1);
}
