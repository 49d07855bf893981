// signals - the handler only raises a flag and prints a line. It uses write and _exit,
// which are safe in a handler; printf and exit are not.

#include "cli/signals.h"

#include "comm/launch.h"

#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { KILLED_BY_SIGINT = 128 + SIGINT };

// Global, because a handler has no argument to carry state.
static volatile sig_atomic_t is_raised;

static void say(const char *text)
{
    const ssize_t n = write(STDERR_FILENO, text, strlen(text));
    (void)n; // nobody reads it: fine
}

static bool is_rank, is_silent;
static double raised_at; // when the first signal came

static double seconds(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void handle(int signal)
{
    const bool is_first = is_raised == 0;
    if (is_first)
        raised_at = seconds();
    is_raised = 1;
    if (signal == SIGINT && is_first && !is_silent)
        say("\ntutti: finishing the step and saving; Ctrl-C again stops at "
            "once\n");
    // `timeout` and similar programs send the same signal twice at once, to the
    // process and to its group. So a second one counts only after a moment.
    if (signal != SIGINT || is_first || is_rank ||
        seconds() - raised_at < TT_LAUNCH_ONE_KEY)
        return;
    if (!is_silent)
        say("\n");
    _exit(KILLED_BY_SIGINT);
}

static const char *volatile last_words;

static void end_at_once(int signal)
{
    say("\ntutti: ");
    say(last_words);
    say("\n");
    _exit(128 + signal);
}

void tt_signals_end_at_once(const char *words)
{
    struct sigaction action, before;
    last_words = words;
    memset(&action, 0, sizeof action);
    action.sa_handler = end_at_once;
    (void)sigemptyset(&action.sa_mask);
    if (sigaction(SIGINT, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        (void)sigaction(SIGINT, &action, NULL);
}

void tt_signals_be_rank(bool speaks)
{
    is_rank = true;
    is_silent = !speaks;
    (void)tt_signals_catch();
}

void tt_signals_be_silent(void)
{
    is_silent = true;
}

static void *sleep_on(void *unused)
{
    (void)unused;
    for (;;)
        (void)pause();
    return NULL;
}

// Starts a thread for the handler to run on. Threads that compute block signals during
// a step, and a second Ctrl-C must not wait for the end of a long one. A forked
// process does not have its parent's sleeper, so it starts its own.
static void start_sleeper(void)
{
    static pid_t owner;
    pthread_t thread;
    if (owner == getpid())
        return;
    owner = getpid();
    if (pthread_create(&thread, NULL, sleep_on, NULL) == 0)
        (void)pthread_detach(thread); // without one: handled after the step
}

const volatile sig_atomic_t *tt_signals_catch(void)
{
    static const int caught[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};
    struct sigaction action, before;
    memset(&action, 0, sizeof action);
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    (void)sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++) {
        const bool is_ignored = caught[i] == SIGHUP && // by nohup
                                sigaction(SIGHUP, NULL, &before) == 0 &&
                                before.sa_handler == SIG_IGN;
        if (!is_ignored)
            (void)sigaction(caught[i], &action, NULL);
    }
    // Whoever reads our output may end before us. That is no reason to stop training.
    action.sa_handler = SIG_IGN;
    (void)sigaction(SIGPIPE, &action, NULL);
    start_sleeper();
    return &is_raised;
}
