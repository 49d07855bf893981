// launch - `tutti -n`: fork the ranks, watch them, report.
//
// The launcher is the parent of all ranks, so it learns at once when one ends, and
// how. It also looks at heartbeats in the shared memory: a rank that is stopped or
// hangs in the kernel does not end. A thread of each rank gives the beats, so a long
// computation does not look like a hang.
//
// When one rank fails, the others fail soon after, because they waited for it. The
// message must name the first one, the *culprit*. A rank that failed only because it
// waited says so by its exit status (2) and is a follower; it is blamed only if nobody
// else is. Of several that end at the same time, one that a signal killed comes first.
//
// The others then get half a second to end by themselves, and are killed after that.
// When only followers have ended so far, they get five seconds, since the rank that
// knows the reason may be slow. When the launcher itself dies, the kernel kills the
// ranks (PR_SET_PDEATHSIG), so that none is left over.

#include "comm/launch.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "comm/transport/shm_world.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BEAT_MS = 100, LOOK_MS = 20, MAX_CPUS = 1024 };
static const double grace = 0.5; // for the others to end by themselves
// The same while only ranks that waited for others have ended: the rank that knows the
// reason may be slow to end.
static const double patience = 5;
static const double usual_deadline = 30;

typedef struct child {
    pid_t pid;
    bool is_gone;
    int status; // of waitpid
    unsigned beats;
    double beat_at, gone_at;
} child;

typedef struct launch {
    const tt_launch_options *options;
    double deadline;
    tt_shm_world *world;
    child *child;
    int32_t n_gone;
    int32_t culprit; // the first that failed; -1: none
    bool is_frozen;  // the culprit gave no sign of life
    double failed_at;
    bool is_killed;
    double looked_at;      // at the ranks
    sigset_t before;       // the signals that the caller had blocked
    double interrupted_at; // first SIGINT; 0: none
    bool is_interrupted;   // by a second one
} launch;

// ---- the child -----------------------------------------------------------

static void *beat(void *user)
{
    tt__seat *seat = user;
    const struct timespec pause = {.tv_nsec = BEAT_MS * 1000000L};
    for (;;) {
        (void)atomic_fetch_add(&seat->beats, 1);
        (void)nanosleep(&pause, NULL);
    }
    return NULL;
}

// The rank's share of the cores that this process may use; returns how many.
static int32_t share_cores(int32_t rank, int32_t n_ranks, bool pin)
{
    cpu_set_t all, mine;
    CPU_ZERO(&mine);
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return 1;
    const int32_t n = CPU_COUNT(&all);
    const int32_t share = n / n_ranks > 0 ? n / n_ranks : 1;
    const int32_t first = rank * share % n;
    for (int32_t cpu = 0, k = 0; cpu < MAX_CPUS; cpu++)
        if (CPU_ISSET(cpu, &all) && k++ >= first && k <= first + share)
            CPU_SET(cpu, &mine);
    if (pin)
        (void)sched_setaffinity(0, sizeof mine, &mine); // a hint: may fail
    return share;
}

static tt_status start_beating(tt__seat *seat)
{
    pthread_t thread;
    TT_TRY(tt_thread_start(&thread, beat, seat, "the heartbeat"));
    (void)pthread_detach(thread);
    return TT_OK;
}

// The rank's own deadline is longer than the launcher's, so that the launcher, which
// sees all ranks, is the first to say who is silent.
static _Noreturn void be_rank(const launch *l, int32_t rank, pid_t parent,
                              tt_launch_fn *fn, void *user)
{
    tt__seat *seat = &l->world->seat[rank];
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)sigprocmask(SIG_SETMASK, &l->before, NULL);
    if (getppid() != parent) // it died before we asked
        _exit(1);
    const tt_launch_rank r = {
        .world = l->world,
        .rank = rank,
        .n_ranks = l->options->n_ranks,
        .cores = share_cores(rank, l->options->n_ranks, l->options->pin),
        .deadline = 2 * l->deadline + 5};
    tt_status status = start_beating(seat);
    if (status == TT_OK)
        status = fn(&r, user);
    if (status != TT_OK) {
        snprintf(seat->message, sizeof seat->message, "%s", tt_error_message());
        if (seat->failed_at == 0)
            seat->failed_at = tt_clock_seconds();
    }
    (void)fflush(NULL);
    const bool waited = status == TT_ERR_PEER || status == TT_ERR_TIMEOUT;
    _exit(status == TT_OK ? 0 : waited ? 2 : 1);
}

// ---- the launcher --------------------------------------------------------

static tt_status fork_all(launch *l, tt_launch_fn *fn, void *user)
{
    const pid_t parent = getpid();
    const double now = tt_clock_seconds();
    (void)fflush(NULL); // or children print what is left in the buffers too
    for (int32_t r = 0; r < l->options->n_ranks; r++) {
        const pid_t pid = fork();
        if (pid == 0)
            be_rank(l, r, parent, fn, user);
        if (pid < 0)
            return tt_fail(TT_ERR_NOMEM, "cannot start rank %d: %s", r,
                           strerror(errno));
        l->child[r] = (child){.pid = pid, .beat_at = now};
    }
    return TT_OK;
}

static void tell_all(const launch *l, int signal)
{
    for (int32_t r = 0; r < l->options->n_ranks; r++)
        if (l->child[r].pid > 0 && !l->child[r].is_gone)
            (void)kill(l->child[r].pid, signal);
}

// Marks the rank as failed, which wakes all that wait for it. The first one is the
// culprit.
static void blame(launch *l, int32_t rank)
{
    tt_shm_world_fail(l->world, rank);
    if (l->culprit >= 0)
        return;
    l->culprit = rank;
    // Others that learnt of its end may be gone by now.
    l->failed_at =
        l->child[rank].is_gone ? l->child[rank].gone_at : tt_clock_seconds();
}

// A rank that only reports that it waited for another is not the culprit, unless no
// other rank turns out to be.
static bool is_follower(const child *c)
{
    return WIFEXITED(c->status) && WEXITSTATUS(c->status) == 2;
}

// Of those that end at the same time, one that was killed is more likely to be the
// reason than one that gave up.
static void reap(launch *l)
{
    int32_t first = -1;
    for (int32_t r = 0; r < l->options->n_ranks; r++) {
        child *c = &l->child[r];
        if (c->is_gone || c->pid <= 0 ||
            waitpid(c->pid, &c->status, WNOHANG) != c->pid)
            continue;
        c->is_gone = true;
        c->gone_at = tt_clock_seconds();
        l->n_gone++;
        if (c->status == 0) {
            tt_shm_world_leave(l->world, r);
            continue;
        }
        tt_shm_world_fail(l->world, r);
        if (!l->is_killed && !is_follower(c) &&
            (first < 0 ||
             (WIFSIGNALED(c->status) && !WIFSIGNALED(l->child[first].status))))
            first = r;
    }
    if (first >= 0)
        blame(l, first);
}

static void listen_to_beats(launch *l)
{
    const double now = tt_clock_seconds();
    // After a long pause it was this process that was stopped, perhaps with all:
    // Ctrl-Z.
    const bool was_stopped = now - l->looked_at > l->deadline / 2;
    l->looked_at = now;
    for (int32_t r = 0; r < l->options->n_ranks; r++) {
        child *c = &l->child[r];
        const unsigned beats = atomic_load(&l->world->seat[r].beats);
        if (c->is_gone)
            continue;
        if (beats != c->beats || was_stopped) {
            c->beats = beats;
            c->beat_at = now;
        } else if (now - c->beat_at > l->deadline && l->culprit < 0) {
            l->is_frozen = true;
            blame(l, r);
        }
    }
}

// Of those that only say that they waited, the first to give up knows most.
static int32_t first_failed(const launch *l)
{
    const tt__seat *seat = l->world->seat;
    int32_t first = -1;
    for (int32_t r = 0; r < l->options->n_ranks; r++)
        if (l->child[r].is_gone && is_follower(&l->child[r]) &&
            (first < 0 || seat[r].failed_at < seat[first].failed_at))
            first = r;
    return first;
}

// The first SIGINT asks the ranks to end well, a second one kills them. Two that come
// within a moment are one key press that reached this process twice.
static void pass_on(launch *l, int signal)
{
    const double now = tt_clock_seconds();
    if (signal != SIGINT || l->interrupted_at == 0) {
        tell_all(l, signal);
        l->interrupted_at = signal == SIGINT ? now : l->interrupted_at;
        return;
    }
    if (now - l->interrupted_at < TT_LAUNCH_ONE_KEY)
        return;
    l->is_interrupted = l->is_killed = true;
    tell_all(l, SIGKILL);
}

static void watch(launch *l, const sigset_t *waited)
{
    const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
    while (l->n_gone < l->options->n_ranks) {
        const int signal = sigtimedwait(waited, NULL, &pause);
        if (signal > 0 && signal != SIGCHLD)
            pass_on(l, signal);
        reap(l);
        listen_to_beats(l);
        const double now = tt_clock_seconds();
        if (l->culprit < 0 && first_failed(l) >= 0 && l->failed_at == 0)
            l->failed_at = now; // followers only, so far
        if (l->failed_at > 0 && !l->is_killed &&
            now - l->failed_at > (l->culprit < 0 ? patience : grace)) {
            l->is_killed = true;
            tell_all(l, SIGKILL);
        }
    }
    if (l->culprit < 0)
        l->culprit = first_failed(l);
}

// ---- the report ----------------------------------------------------------

static void say_why(const launch *l, tt_str *out)
{
    const child *c = &l->child[l->culprit];
    const char *message = l->world->seat[l->culprit].message;
    if (l->is_frozen)
        tt_str_addf(out, "no sign of life for %.0f s", l->deadline);
    else if (WIFSIGNALED(c->status))
        tt_str_addf(out, "killed by signal %d (%s)", WTERMSIG(c->status),
                    strsignal(WTERMSIG(c->status)));
    else if (message[0] != '\0')
        tt_str_add(out, message);
    else
        tt_str_addf(out, "it ended with status %d", WEXITSTATUS(c->status));
}

// Since the culprit was last known to work.
static void say_others(const launch *l, tt_str *out)
{
    const double since =
        l->is_frozen ? l->child[l->culprit].beat_at : l->failed_at;
    double longest = 0;
    int n = 0;
    for (int32_t r = 0; r < l->options->n_ranks; r++)
        n += r != l->culprit && l->child[r].gone_at >= l->failed_at;
    const char *between = n == 1 ? "; rank " : "; ranks ";
    for (int32_t r = 0; r < l->options->n_ranks; r++) {
        const child *c = &l->child[r];
        if (r == l->culprit || c->gone_at < l->failed_at)
            continue;
        tt_str_addf(out, "%s%d", between, r);
        between = ", ";
        longest = c->gone_at - since > longest ? c->gone_at - since : longest;
    }
    if (n > 0)
        tt_str_addf(out, " waited %.1f s", longest);
}

static tt_status report(const launch *l)
{
    char host[65] = "?";
    tt_str text = {0};
    if (l->culprit < 0)
        return TT_OK;
    (void)gethostname(host, sizeof host - 1);
    tt_str_addf(&text, "rank %d (host %s, pid %d) stopped", l->culprit, host,
                (int)l->child[l->culprit].pid);
    tt_journal_print_last(&l->world->seat[l->culprit].journal, &text);
    tt_str_add(&text, ": ");
    say_why(l, &text);
    say_others(l, &text);
    const tt_status status = tt_fail(TT_ERR_PEER, "%s", tt_str_text(&text));
    tt_str_fini(&text);
    return status;
}

static tt_status run(launch *l, tt_launch_fn *fn, void *user)
{
    sigset_t waited;
    struct sigaction by_default = {.sa_handler = SIG_DFL}, before;
    (void)sigaction(SIGCHLD, &by_default,
                    &before); // ignored, nobody is waited for
    (void)sigemptyset(&waited);
    (void)sigaddset(&waited, SIGCHLD);
    (void)sigaddset(&waited, SIGTERM);
    (void)sigaddset(&waited, SIGINT);
    (void)sigaddset(&waited, SIGUSR1);
    (void)sigaddset(&waited, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &waited, &l->before);
    tt_status status = fork_all(l, fn, user);
    if (status != TT_OK) {
        l->is_killed = true;
        tell_all(l, SIGKILL);
        for (int32_t r = 0; r < l->options->n_ranks; r++)
            if (l->child[r].pid > 0)
                (void)waitpid(l->child[r].pid, NULL, 0);
    } else {
        watch(l, &waited);
        status = l->is_interrupted ? TT_OK : report(l);
        if (l->options->interrupted != NULL)
            *l->options->interrupted = l->is_interrupted;
    }
    (void)sigprocmask(SIG_SETMASK, &l->before, NULL);
    (void)sigaction(SIGCHLD, &before, NULL);
    return status;
}

tt_status tt_launch(const tt_launch_options *options, tt_launch_fn *fn,
                    void *user)
{
    launch l = {.options = options,
                .deadline =
                    options->deadline > 0 ? options->deadline : usual_deadline,
                .culprit = -1};
    if (options->n_ranks < 1)
        return tt_fail(TT_ERR_ARG, "%d ranks cannot be started",
                       options->n_ranks);
    TT_TRY(
        tt_shm_world_create(options->n_ranks, options->rank_bytes, &l.world));
    l.child = tt_alloc(options->n_ranks * (int64_t)sizeof *l.child);
    const tt_status status =
        l.child == NULL ? tt_fail(TT_ERR_NOMEM, "no memory for the launcher")
                        : run(&l, fn, user);
    tt_free(l.child);
    tt_shm_world_destroy(l.world);
    return status;
}
