// signals - the first SIGINT, SIGTERM or SIGUSR1 raises a flag, so that training
// finishes its step and saves; a second SIGINT ends the program at once.

#ifndef TT_CLI_SIGNALS_H
#define TT_CLI_SIGNALS_H

#include <signal.h>

// Not 0 from the first of them on.
const volatile sig_atomic_t *tt_signals_catch(void);

#endif
