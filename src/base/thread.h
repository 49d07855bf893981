// thread - threads of our own, which no signal reaches.
//
// A signal goes to any thread of the process that does not block it. It is for the
// thread that trains, which knows what to do; so a thread begins with all signals
// blocked, and the thread that starts it keeps its own mask.

#ifndef TT_BASE_THREAD_H
#define TT_BASE_THREAD_H

#include "base/status.h"

#include <pthread.h>

typedef void *tt_thread_fn(void *user);

// `purpose` completes "no thread for ..." in the message of a failure.
tt_status tt_thread_start(pthread_t *thread, tt_thread_fn *run, void *user,
                          const char *purpose);

#endif
