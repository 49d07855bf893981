// signals - the handler, which only raises a flag and says so.

#include "cli/signals.h"

#include <string.h>
#include <unistd.h>

enum { KILLED_BY_SIGINT = 128 + SIGINT };

// A handler has no other way to tell anybody.
static volatile sig_atomic_t is_raised;

static void say(const char *text)
{
    const ssize_t n = write(STDERR_FILENO, text, strlen(text));
    (void)n; // nobody reads it: fine
}

static void handle(int signal)
{
    if (signal == SIGINT && is_raised != 0) {
        say("\n");
        _exit(KILLED_BY_SIGINT);
    }
    if (signal == SIGINT)
        say("\ntutti: finishing the step and saving; Ctrl-C again stops at "
            "once\n");
    is_raised = 1;
}

const volatile sig_atomic_t *tt_signals_catch(void)
{
    static const int caught[] = {SIGINT, SIGTERM, SIGUSR1};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    (void)sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++)
        (void)sigaction(caught[i], &action, NULL);
    // A limit on file sizes is a write that fails, like that on a full disk.
    action.sa_handler = SIG_IGN;
    (void)sigaction(SIGXFSZ, &action, NULL);
    return &is_raised;
}
