// compare_child - one run of a comparison, in a process of its own.
//
// It is this program, started again as `tutti train`: the same launcher, the same
// checks, the same resuming. So a comparison measures what users get, and a rank that
// dies takes its own run with it and no other. With --launch another program starts the
// ranks (mpirun, srun, tools/netns). The parent waits, looks at the metrics now and then
// where a loss or a time ends the run, and hands signals on.

#include "base/clock.h"
#include "base/file.h"
#include "base/json_read.h"
#include "cli/compare/compare_parts.h"
#include "store/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_EVERY = 5, POINTS = 3 };
static const int64_t output_max = 64 << 20;

const char *tt_compare_path(const tt_compare *c, const char *name,
                            const char *ending)
{
    return tt_arena_printf(c->cli->arena, "%s/%s%s", c->folder, name, ending);
}

bool tt_compare_is_done(const tt_compare *c, const char *name)
{
    const char *said = tt_compare_path(c, name, ".json");
    const char *metrics = tt_compare_path(c, name, "/metrics.jsonl");
    return said != NULL && metrics != NULL && tt_file_exists(said) &&
           tt_file_exists(metrics); // its folder may have been removed since
}

// ---- the process ---------------------------------------------------------

static int open_as(int number, const char *path, int flags)
{
    const int fd = open(path, flags, 0644);
    return fd < 0 ? errno : dup2(fd, number) < 0 ? errno : 0;
}

// In the child: becomes the program, or says through `tell` why it cannot. If this program
// is killed, it ends too, at once: else it would be in the way of the same command that
// comes next. A launcher is asked to, since its ranks may be elsewhere.
static _Noreturn void become(const tt__compare_run *p, pid_t parent, int tell)
{
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    char *argv[TT_COMPARE_ARGS];
    for (int i = 0; i <= p->n; i++) // exec changes none of them
        memcpy(&argv[i], &p->arg[i], sizeof argv[i]);
    (void)prctl(PR_SET_PDEATHSIG, p->of->launch[0] == NULL ? SIGKILL : SIGTERM);
    if (getppid() != parent) // it died before we asked
        _exit(1);
    int error = open_as(STDIN_FILENO, "/dev/null", O_RDONLY);
    if (error == 0)
        error = open_as(STDOUT_FILENO, p->out, flags);
    if (error == 0)
        error = open_as(STDERR_FILENO, p->log, flags);
    if (error == 0) {
        (void)execvp(p->program, argv);
        error = errno;
    }
    (void)!write(tell, &error, sizeof error);
    _exit(1);
}

static tt_status start(tt__compare_run *p)
{
    const pid_t parent = getpid();
    int tell[2];
    int error = pipe2(tell, O_CLOEXEC) != 0 ? errno : 0;
    if (error == 0) {
        (void)fflush(
            NULL); // or the child prints what is left in the buffers too
        p->pid = fork();
        if (p->pid == 0)
            become(p, parent, tell[1]);
        error = p->pid < 0 ? errno : 0;
        (void)close(tell[1]);
        if (error == 0 && read(tell[0], &error, sizeof error) > 0)
            (void)waitpid(p->pid, NULL, 0);
        (void)close(tell[0]);
    }
    return error == 0
               ? TT_OK
               : tt_fail(TT_ERR_IO, "%s: cannot be started: %s",
                         p->of->launch[0] != NULL ? p->program : p->folder,
                         strerror(error));
}

// The mean of the last few logged losses.
static double newest_loss(const tt_metrics *m)
{
    const tt_metric_series *s = tt_metrics_find(m, "train/loss");
    double sum = 0;
    int n = 0;
    for (int64_t i = s != NULL ? s->n - 1 : -1; i > 0 && n < POINTS; i--, n++)
        sum += s->value[i];
    return n == POINTS ? sum / n : (double)NAN;
}

// Whether its metrics have grown since they were looked at last.
static bool has_news(tt__compare_run *p)
{
    struct stat info;
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s/metrics.jsonl", p->folder);
    if (n < 0 || n >= (int)sizeof path || stat(path, &info) != 0 ||
        info.st_size == p->seen)
        return false;
    p->seen = info.st_size;
    return true;
}

// Whether what ends a run has come about.
static bool is_reached(tt__compare_run *p)
{
    const tt_compare *c = p->of;
    tt_metrics m;
    if ((isnan(c->until_loss) && isnan(c->until_seconds)) || !has_news(p))
        return false;
    tt_arena *arena = tt_arena_create();
    const bool is_read =
        arena != NULL && tt_metrics_read(p->folder, arena, &m) == TT_OK;
    const bool is_it = is_read && (newest_loss(&m) <= c->until_loss ||
                                   m.last_seconds >= c->until_seconds);
    tt_arena_destroy(arena);
    return is_it;
}

static void look(tt__compare_run *p)
{
    if (*p->of->stop != 0 && !p->is_asked) {
        p->is_asked = true;
        (void)kill(p->pid, SIGTERM);
    } else if (!p->is_over && !p->is_asked && is_reached(p)) {
        p->is_over = true;
        (void)kill(p->pid, SIGTERM);
    }
}

// Waits for its end; returns its exit status, -1 where a signal killed it.
static int wait_for(tt__compare_run *p)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    for (int turn = 1;; turn++) {
        int status = 0;
        const pid_t pid = waitpid(p->pid, &status, WNOHANG);
        if (pid == p->pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        if (pid < 0 && errno != EINTR)
            return -1;
        (void)nanosleep(&pause, NULL);
        if (turn % LOOK_EVERY == 0)
            look(p);
    }
}

// ---- what it said --------------------------------------------------------

// A file of JSON; NULL: it is not there, or is none.
static const tt_json_value *read_json(const char *path, tt_arena *arena)
{
    tt_str text = {0};
    const tt_json_value *root = NULL;
    if (tt_file_read(path, output_max, &text) != TT_OK ||
        tt_json_read(tt_str_text(&text), text.n, path, arena, &root) != TT_OK)
        root = NULL;
    tt_str_fini(&text);
    return root;
}

// The sentence of a failure: of the JSON on its standard output.
static const char *sentence(const tt__compare_run *p)
{
    tt_arena *arena = p->of->cli->arena;
    const char *said =
        tt_json_text(tt_json_get(read_json(p->out, arena), "error"), NULL);
    return said != NULL ? said
                        : tt_arena_printf(arena,
                                          "it ended without a word; %s "
                                          "has what it said before",
                                          p->log);
}

// It is finished when what it said at its end is under its final name.
static tt_status keep(const tt__compare_run *p, const char *name)
{
    const char *path = tt_compare_path(p->of, name, ".json");
    return path != NULL ? tt_file_rename(p->out, path) : TT_ERR_NOMEM;
}

// Whether it says itself that it stopped in good order. A launcher that was sent a signal
// has an exit status of its own.
static bool has_stopped(const tt__compare_run *p)
{
    tt_arena *arena = p->of->cli->arena;
    const char *path = tt_arena_printf(arena, "%s/facts.json", p->folder);
    if (path == NULL)
        return false;
    const char *outcome =
        tt_json_text(tt_json_get(read_json(path, arena), "outcome"), "");
    return strcmp(outcome, "stopped") == 0 || strcmp(outcome, "done") == 0;
}

static tt_status begin(const tt_compare *c, const char *name,
                       tt__compare_run *out)
{
    *out = (tt__compare_run){.of = c,
                             .folder = tt_compare_path(c, name, ""),
                             .out = tt_compare_path(c, name, ".out"),
                             .log = tt_compare_path(c, name, ".log")};
    return out->folder != NULL && out->out != NULL && out->log != NULL
               ? TT_OK
               : TT_ERR_NOMEM;
}

tt_status tt_compare_child(const tt_compare *c, const tt_compare_one *one,
                           const char *name, bool is_trace,
                           tt_compare_outcome *outcome_out,
                           const char **why_out)
{
    tt__compare_run p;
    TT_TRY(begin(c, name, &p));
    TT_TRY(tt__compare_args(&p, one,
                            is_trace ? TT__COMPARE_TRACE : TT__COMPARE_RUN));
    TT_TRY(start(&p));
    const int status = wait_for(&p);
    *outcome_out = TT_COMPARE_DONE;
    if (status == TT_EXIT_STOPPED && p.is_asked)
        *outcome_out = TT_COMPARE_STOPPED;
    else if (status != TT_EXIT_OK &&
             !(p.is_over && (status == TT_EXIT_STOPPED || has_stopped(&p))))
        *outcome_out = *c->stop != 0 ? TT_COMPARE_STOPPED : TT_COMPARE_REFUSED;
    if (*outcome_out == TT_COMPARE_REFUSED)
        *why_out = sentence(&p);
    if (*outcome_out == TT_COMPARE_DONE)
        return keep(&p, name);
    (void)tt_file_remove(p.out);
    return TT_OK;
}

// ---- samples -------------------------------------------------------------

// The samples of a federation's step, which its data say; 0: a dry run refuses it, and
// so will the run.
static tt_status ask_samples(const tt_compare *c, const tt_compare_one *one,
                             double *samples_out)
{
    const char *name = tt_arena_printf(c->cli->arena, "%s-dry", one->name);
    tt__compare_run p;
    if (name == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(begin(c, name, &p));
    TT_TRY(tt__compare_args(&p, one, TT__COMPARE_DRY));
    TT_TRY(start(&p));
    (void)wait_for(&p);
    *samples_out = tt_json_number(
        tt_json_get(read_json(p.out, c->cli->arena), "samples_per_step"), 0);
    (void)tt_file_remove(p.out);
    (void)tt_file_remove(p.log);
    return TT_OK;
}

tt_status tt_compare_find_steps(const tt_compare *c, tt_compare_one *one)
{
    tt_settings all = {0};
    double samples = 0;
    if (isnan(c->until_samples) || one->steps > 0 ||
        tt__compare_settings(c, one, &all) != TT_OK)
        return TT_OK;
    const tt_setting *batch = tt_settings_find(&all, "batch");
    const tt_setting *policy = tt_settings_find(&all, "exchange.policy");
    if (policy != NULL && strcmp(policy->value, "federated") == 0)
        TT_TRY(ask_samples(c, one, &samples));
    else if (batch != NULL)
        samples = strtod(batch->value, NULL);
    if (samples > 0)
        one->steps = (int64_t)fmin(ceil(c->until_samples / samples),
                                   (double)TT_COMPARE_NO_END);
    return TT_OK;
}
