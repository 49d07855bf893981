// signals - the first SIGINT, SIGTERM, SIGUSR1 or SIGHUP (the terminal is closed) raises
// a flag, so that training finishes its step and saves; a second SIGINT ends the program
// at once.

#ifndef TT_CLI_SIGNALS_H
#define TT_CLI_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

// Not 0 from the first of them on.
const volatile sig_atomic_t *tt_signals_catch(void);

void tt_signals_be_silent(void); // another rank says what a signal does

// This process is one of several that a launcher passes signals on to. Here every signal
// only raises the flag, however often and from wherever it comes; what a second SIGINT
// means is the launcher's affair. Only one of the processes `speaks`.
void tt_signals_be_rank(bool speaks);

// Until tt_signals_catch: Ctrl-C says these words and ends with status 130, as there is
// nothing to save. The words must stay.
void tt_signals_end_at_once(const char *words);

#endif
