// signals - ending training in good order.
//
// The first SIGINT, SIGTERM, SIGUSR1 or SIGHUP (the terminal was closed) raises a
// flag. Training looks at it after each step, saves and exits with 3. A second SIGINT
// ends the program at once, without saving.
//
//   Ctrl-C       -> flag -> finish the step -> checkpoint -> exit 3
//   Ctrl-C again -> exit 130 now

#ifndef TT_CLI_SIGNALS_H
#define TT_CLI_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

// Installs the handlers. The flag is not 0 after the first of these signals.
const volatile sig_atomic_t *tt_signals_catch(void);

void tt_signals_be_silent(void); // another rank says what a signal does

// This process is one of several to which a launcher forwards signals. Here a signal
// only raises the flag, however often it comes: what a second SIGINT means is decided
// by the process that launched the ranks. Only one of the ranks `speaks`.
void tt_signals_be_rank(bool speaks);

// Until tt_signals_catch is called, Ctrl-C prints these words and exits with 130, as
// there is nothing to save yet. The text must stay valid.
void tt_signals_end_at_once(const char *words);

#endif
