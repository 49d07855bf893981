#include "base/thread.h"

#include <signal.h>
#include <string.h>

tt_status tt_thread_start(pthread_t *thread, tt_thread_fn *run, void *user,
                          const char *purpose)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(thread, NULL, run, user);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0 ? TT_OK
                      : tt_fail(TT_ERR_NOMEM, "no thread for %s: %s", purpose,
                                strerror(error));
}
