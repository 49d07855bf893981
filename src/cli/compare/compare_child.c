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
#include "cli/compare/compare.h"
#include "policy/policy.h"
#include "store/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ARGS_MAX = 512, LOOK_EVERY = 5, TRACE_STEPS = 6, POINTS = 3 };
static const int64_t output_max = 64 << 20;

typedef struct child {
    const tt_compare *of;
    const char *folder; // of the run
    const char *out, *log;
    const char *program; // what is started: this one, or a launcher
    const char *arg[ARGS_MAX];
    int n;
    pid_t pid;
    bool is_over;  // its end was reached: a signal was sent by us
    bool is_asked; // the user's signal was handed on
} child;

const char *tt_compare_path(const tt_compare *c, const char *name,
                            const char *ending)
{
    return tt_arena_printf(c->cli->arena, "%s/%s%s", c->folder, name, ending);
}

bool tt_compare_is_done(const tt_compare *c, const char *name)
{
    const char *path = tt_compare_path(c, name, ".json");
    return path != NULL && tt_file_exists(path);
}

// ---- what it is called with ----------------------------------------------

static void add(child *p, const char *arg)
{
    if (arg != NULL && p->n < ARGS_MAX - 1)
        p->arg[p->n++] = arg;
}

static bool is_own_key(const char *word)
{
    return strncmp(word, "run=", 4) == 0 || strncmp(word, "system=", 7) == 0;
}

// Files and settings as they were typed; flags and their values are not for it.
static void add_given(child *p)
{
    const tt_cli *cli = p->of->cli;
    for (int i = 0; i < cli->n_given; i++) {
        const char *word = cli->given[i];
        bool is_value = false;
        for (int k = 0; k < cli->n_flags; k++)
            is_value = is_value || cli->flag_value[k] == word;
        const bool is_file =
            tt_ends_with(word, ".yaml") || tt_ends_with(word, ".yml");
        if (word[0] != '-' && !is_value && !is_own_key(word) &&
            (is_file || strchr(word, '=') != NULL))
            add(p, word);
    }
}

// The launcher's words, and this program by its path, which ranks elsewhere need too.
static tt_status add_program(child *p)
{
    const char *const *word = p->of->launch;
    char path[PATH_MAX];
    p->program = "/proc/self/exe";
    if (word[0] == NULL) {
        add(p, "tutti");
        return TT_OK;
    }
    const ssize_t n = readlink(p->program, path, sizeof path - 1);
    if (n < 0)
        return tt_fail(TT_ERR_IO, "/proc/self/exe: cannot be read: %s",
                       strerror(errno));
    path[n] = '\0';
    p->program = word[0];
    for (; *word != NULL; word++)
        add(p, *word);
    add(p, tt_arena_strdup(p->of->cli->arena, path));
    return TT_OK;
}

// A server's clocks and proxies that only a drawn clock knows.
static bool is_drawn(const tt_settings *s)
{
    const tt_setting *clock = tt_settings_find(s, "exchange.clock");
    const tt_setting *proxies = tt_settings_find(s, "exchange.proxies");
    return (clock != NULL && strcmp(clock->value, "absp") == 0) ||
           (proxies != NULL && strcmp(proxies->value, "0") != 0);
}

// Workers at their own pace go by the wall clock, because a comparison is about times; a
// clock that is drawn has none that could be compared. Clients of a federation have no other.
static bool is_by_wall(const child *p, const tt_compare_one *one)
{
    const tt_setting *policy =
        tt_settings_find(&one->system.settings, "exchange.policy");
    const tt_policy_def *def =
        policy != NULL ? tt_policy_find(policy->value) : NULL;
    const tt_opt *o;
    if (tt_cli_has(p->of->cli, "--seeded") || def == NULL || def->is_drawn ||
        is_drawn(&one->system.settings) ||
        tt_settings_find(&p->of->cli->settings, "exchange.schedule") != NULL ||
        tt_settings_find(&one->system.settings, "exchange.schedule") != NULL)
        return false;
    for (o = def->options; o != NULL && o->name != NULL; o++)
        if (strcmp(o->name, "schedule") == 0)
            return true;
    return false;
}

static tt_status make_args(child *p, const tt_compare_one *one, bool is_trace)
{
    tt_arena *arena = p->of->cli->arena;
    TT_TRY(add_program(p));
    add(p, "train");
    for (const char *const *s = p->of->extra; *s != NULL; s++)
        add(p, *s);
    add_given(p);
    add(p, tt_arena_printf(arena, "system=%s", one->word));
    add(p, tt_arena_printf(arena, "run=%s", p->folder));
    if (is_by_wall(p, one))
        add(p, "exchange.schedule=wall");
    if (is_trace) {
        add(p, "log.trace=true");
        add(p, "log.every=1");
        add(p, "eval.batches=1");
    }
    add(p, tt_arena_printf(arena, "train.steps=%lld",
                           (long long)(is_trace ? TRACE_STEPS : p->of->steps)));
    add(p, tt_arena_printf(arena, "-n%d", p->of->ranks));
    add(p, "--json");
    p->arg[p->n] = NULL;
    return TT_OK;
}

// ---- the process ---------------------------------------------------------

static tt_status start(child *p)
{
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    posix_spawn_file_actions_t actions;
    char *argv[ARGS_MAX];
    for (int i = 0; i <= p->n; i++) // exec changes none of them
        memcpy(&argv[i], &p->arg[i], sizeof argv[i]);
    int error = posix_spawn_file_actions_init(&actions);
    if (error == 0) {
        error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO,
                                                 "/dev/null", O_RDONLY, 0);
        if (error == 0)
            error = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO,
                                                     p->out, flags, 0644);
        if (error == 0)
            error = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO,
                                                     p->log, flags, 0644);
        if (error == 0)
            error = posix_spawnp(&p->pid, p->program, &actions, NULL, argv,
                                 environ);
        (void)posix_spawn_file_actions_destroy(&actions);
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

// Whether what ends a run has come about.
static bool is_reached(const child *p)
{
    const tt_compare *c = p->of;
    tt_metrics m;
    if (isnan(c->until_loss) && isnan(c->until_seconds))
        return false;
    tt_arena *arena = tt_arena_create();
    const bool is_read =
        arena != NULL && tt_metrics_read(p->folder, arena, &m) == TT_OK;
    const bool is_it = is_read && (newest_loss(&m) <= c->until_loss ||
                                   m.last_seconds >= c->until_seconds);
    tt_arena_destroy(arena);
    return is_it;
}

static void look(child *p)
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
static int wait_for(child *p)
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

// The sentence of a failure: of the JSON on its standard output.
static const char *sentence(const child *p)
{
    tt_arena *arena = p->of->cli->arena;
    tt_str text = {0};
    const tt_json_value *root = NULL;
    const char *said = NULL;
    if (tt_file_read(p->out, output_max, &text) == TT_OK &&
        tt_json_read(tt_str_text(&text), text.n, p->out, arena, &root) == TT_OK)
        said = tt_json_text(tt_json_get(root, "error"), NULL);
    if (said != NULL)
        said = tt_arena_strdup(arena, said);
    tt_str_fini(&text);
    return said != NULL ? said
                        : tt_arena_printf(arena,
                                          "it ended without a word; %s "
                                          "has what it said before",
                                          p->log);
}

// It is finished when what it said at its end is under its final name.
static tt_status keep(const child *p, const char *name)
{
    const char *path = tt_compare_path(p->of, name, ".json");
    return path != NULL ? tt_file_rename(p->out, path) : TT_ERR_NOMEM;
}

tt_status tt_compare_child(const tt_compare *c, const tt_compare_one *one,
                           const char *name, bool is_trace,
                           tt_compare_outcome *outcome_out,
                           const char **why_out)
{
    child p = {.of = c,
               .folder = tt_compare_path(c, name, ""),
               .out = tt_compare_path(c, name, ".out"),
               .log = tt_compare_path(c, name, ".log")};
    if (p.folder == NULL || p.out == NULL || p.log == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(make_args(&p, one, is_trace));
    TT_TRY(start(&p));
    const int status = wait_for(&p);
    *outcome_out = TT_COMPARE_DONE;
    if (status == TT_EXIT_STOPPED && p.is_asked)
        *outcome_out = TT_COMPARE_STOPPED;
    else if (status != TT_EXIT_OK && !(status == TT_EXIT_STOPPED && p.is_over))
        *outcome_out = *c->stop != 0 ? TT_COMPARE_STOPPED : TT_COMPARE_REFUSED;
    if (*outcome_out == TT_COMPARE_REFUSED)
        *why_out = sentence(&p);
    if (*outcome_out == TT_COMPARE_DONE)
        return keep(&p, name);
    (void)tt_file_remove(p.out);
    return TT_OK;
}
