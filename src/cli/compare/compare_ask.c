// compare_ask - what is to be compared, how and where: flags and words become a
// tt_compare.

#include "base/file.h"
#include "cli/compare/compare_parts.h"
#include "cli/launch/ranks.h"
#include "cli/systems/systems.h"
#include "config/config.h"
#include "train/folders.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { ONES_MAX = 512, ROUNDS_MAX = 64, EXTRA_MAX = 24, LAUNCH_MAX = 64 };

// ---- numbers with units --------------------------------------------------

typedef struct unit {
    const char *name;
    double factor;
} unit;

static tt_status read_unit(const char *flag, const char *text,
                           const unit *units, const char *example, double *out)
{
    char *end = NULL;
    const double number = strtod(text, &end);
    for (const unit *u = units; u->name != NULL; u++)
        if (end != text && strcasecmp(end, u->name) == 0 && number > 0 &&
            isfinite(number)) {
            *out = number * u->factor;
            return TT_OK;
        }
    return tt_fail(TT_ERR_ARG, "%s %s: cannot be read; it is written as %s",
                   flag, text, example);
}

// ---- settings of all runs ------------------------------------------------

typedef struct asking {
    tt_compare *c;
    const char **extra;
    int n_extra;
} asking;

static void add_extra(asking *a, const char *text)
{
    if (text != NULL && a->n_extra < EXTRA_MAX - 1)
        a->extra[a->n_extra++] = text;
    a->extra[a->n_extra] = NULL;
}

// A network and ranks that are not here: slow links, speeds of ranks.
static tt_status ask_network(asking *a)
{
    static const unit rates[] = {{"kbit", 125},
                                 {"mbit", 125e3},
                                 {"gbit", 125e6},
                                 {"kB/s", 1e3},
                                 {"MB/s", 1e6},
                                 {"GB/s", 1e9},
                                 {0}};
    static const unit times[] = {
        {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {0}};
    tt_cli *cli = a->c->cli;
    const char *link = tt_cli_value(cli, "--link");
    const char *latency = tt_cli_value(cli, "--latency");
    const char *pace = tt_cli_value(cli, "--pace");
    double number = 0;
    if (link != NULL) {
        TT_TRY(read_unit("--link", link, rates, "1gbit, 100mbit or 25MB/s",
                         &number));
        add_extra(a,
                  tt_arena_printf(cli->arena, "comm.slow_rate=%.17g", number));
    }
    if (latency != NULL) {
        TT_TRY(read_unit("--latency", latency, times, "50us or 1ms", &number));
        add_extra(
            a, tt_arena_printf(cli->arena, "comm.slow_latency=%.17g", number));
    }
    if (pace != NULL && pace[0] == '\0')
        return tt_fail(TT_ERR_ARG, "--pace is empty; it has the speeds of the "
                                   "ranks, as --pace 1,1,0.5,1");
    if (pace != NULL)
        add_extra(a, tt_arena_printf(cli->arena, "trial.pace=%s", pace));
    return TT_OK;
}

static int64_t whole(const tt_compare *c, const char *key)
{
    const tt_setting *s = tt_settings_find(&c->cli->settings, key);
    return s != NULL ? (int64_t)strtod(s->value, NULL) : 0;
}

// What ends a run: its steps, a loss, a time, a number of samples.
static tt_status ask_end(tt_compare *c)
{
    static const char example[] = "loss=2.0, time=60 (seconds) or samples=5000";
    const char *until = tt_cli_value(c->cli, "--until");
    const int64_t batch = whole(c, "batch") > 0 ? whole(c, "batch") : 8;
    const char *equals = until != NULL ? strchr(until, '=') : NULL;
    char *end = NULL;
    c->until_loss = c->until_seconds = c->until_samples = (double)NAN;
    c->steps = whole(c, "train.steps");
    const double number = equals != NULL ? strtod(equals + 1, &end) : 0;
    const bool is_number = equals != NULL && end != equals + 1 &&
                           *end == '\0' && number > 0 && isfinite(number);
    if (until != NULL && is_number && strncmp(until, "loss=", 5) == 0)
        c->until_loss = number;
    else if (until != NULL && is_number && strncmp(until, "time=", 5) == 0)
        c->until_seconds = number;
    else if (until != NULL && is_number && strncmp(until, "samples=", 8) == 0)
        c->until_samples = number;
    else if (until != NULL)
        return tt_fail(TT_ERR_ARG,
                       "--until %s: cannot be read; it is written "
                       "as %s",
                       until, example);
    if (!isnan(c->until_samples))
        c->steps = (int64_t)fmin(ceil(number / (double)batch),
                                 (double)TT_COMPARE_NO_END);
    if (!isnan(c->until_seconds) || (!isnan(c->until_loss) && c->steps == 0))
        c->steps = TT_COMPARE_NO_END;
    const tt_setting *steps =
        tt_settings_find(&c->cli->settings, "train.steps");
    if (c->steps < 1 && steps != NULL && strcmp(steps->value, "0") != 0)
        return tt_fail(TT_ERR_ARG,
                       "train.steps=%s: is no number of steps, as "
                       "train.steps=100",
                       steps->value);
    if (c->steps < 1)
        return tt_fail(TT_ERR_ARG,
                       "how long shall each run be? train.steps=N says it, or "
                       "--until %s",
                       example);
    return TT_OK;
}

static void ask_logs(asking *a)
{
    add_extra(a, "log.tensorboard=false");
    add_extra(a, "checkpoint.every=0");
    add_extra(a, "checkpoint.minutes=0");
    add_extra(a, "checkpoint.best=false");
}

// ---- systems -------------------------------------------------------------

static const tt_compare_one *find(const tt_compare *c, const char *name)
{
    for (int i = 0; i < c->n; i++)
        if (strcmp(c->one[i].name, name) == 0)
            return &c->one[i];
    return NULL;
}

// `word`: its name, or the file that it comes from. Runs are called by names, so two files
// may not share one.
static tt_status add_system(tt_compare *c, const tt_system *system,
                            const char *word)
{
    const tt_compare_one *old = find(c, system->name);
    if (old != NULL && strcmp(old->word, word) != 0)
        return tt_fail(TT_ERR_ARG,
                       "%s and %s are both called %s; a file of another name "
                       "would do",
                       old->word, word, system->name);
    if (c->n < ONES_MAX && old == NULL)
        c->one[c->n++] = (tt_compare_one){.system = *system,
                                          .is_known = true,
                                          .name = system->name,
                                          .word = word};
    return TT_OK;
}

// One that is unknown has its sentence, and the rest goes on.
static tt_status add_word(tt_compare *c, const char *word)
{
    const tt_system *found = NULL;
    int n = 0;
    const tt_status status = tt_cli_systems_find(c->cli, word, &found, &n);
    if (status == TT_ERR_NOMEM)
        return status;
    if (status != TT_OK) {
        const char *why = tt_arena_strdup(c->cli->arena, tt_error_message());
        if (c->n < ONES_MAX && find(c, word) == NULL)
            c->one[c->n++] =
                (tt_compare_one){.name = word, .word = word, .refusal = why};
        return TT_OK;
    }
    for (int i = 0; i < n; i++)
        TT_TRY(add_system(c, &found[i],
                          tt_ends_with(word, ".yaml") ? word : found[i].name));
    return TT_OK;
}

static tt_status ask_systems(tt_compare *c)
{
    tt_cli *cli = c->cli;
    bool is_wanted = true;
    for (int i = 0; i < cli->n_words; i++)
        TT_TRY(add_word(c, cli->word[i]));
    for (int i = 0; i < cli->n_flags; i++)
        if (strcmp(cli->flag[i], "--system") == 0)
            TT_TRY(add_word(c, cli->flag_value[i]));
    for (int i = 0; i < tt_system_count && tt_cli_has(cli, "--where"); i++) {
        tt_system s;
        TT_TRY(tt_system_read(tt_system_files[i].name, cli->arena, &s));
        TT_TRY(tt_cli_systems_wanted(cli, &s, &is_wanted));
        if (is_wanted)
            TT_TRY(add_system(c, &s, s.name));
    }
    if (c->n > 0)
        return TT_OK;
    if (tt_cli_has(cli, "--where"))
        return tt_cli_systems_none();
    return tt_fail(TT_ERR_ARG, "compare which systems? As in `tutti compare "
                               "FILE.yaml ddp zero-1 gpipe -n 4`; `tutti list "
                               "systems` has all");
}

// ---- all of it -----------------------------------------------------------

static tt_status ask_folder(tt_compare *c)
{
    tt_cli *cli = c->cli;
    const tt_setting *run = tt_settings_find(&cli->settings, "run");
    const char *usual = NULL;
    TT_TRY(tt_run_default_folder(cli->file,
                                 tt_config_text(&cli->settings, "model"),
                                 cli->arena, &usual));
    const char *slash = strrchr(usual, '/');
    char *folder = run != NULL && run->value[0] != '\0'
                       ? tt_arena_strdup(cli->arena, run->value)
                       : tt_arena_printf(cli->arena, "runs/compare-%s",
                                         slash != NULL ? slash + 1 : usual);
    if (folder == NULL)
        return TT_ERR_NOMEM;
    for (size_t n = strlen(folder); n > 1 && folder[n - 1] == '/';) // --fresh
        folder[--n] = '\0'; // puts an ending there
    c->folder = folder;
    return TT_OK;
}

// The words of --launch, which spaces part.
static tt_status ask_launch(tt_compare *c)
{
    tt_arena *arena = c->cli->arena;
    const char *text = tt_cli_value(c->cli, "--launch");
    char *words = tt_arena_strdup(arena, text != NULL ? text : "");
    const char **launch =
        tt_arena_alloc(arena, LAUNCH_MAX * (int64_t)sizeof *launch);
    char *next = NULL;
    int n = 0;
    if (words == NULL || launch == NULL)
        return TT_ERR_NOMEM;
    for (char *w = strtok_r(words, " ", &next); w != NULL;
         w = strtok_r(NULL, " ", &next)) {
        if (n == LAUNCH_MAX - 1)
            return tt_fail(TT_ERR_ARG,
                           "--launch has more than %d words; a script of one's "
                           "own can hold them",
                           LAUNCH_MAX - 1);
        launch[n++] = w;
    }
    launch[n] = NULL;
    c->launch = launch;
    return text == NULL || n > 0
               ? TT_OK
               : tt_fail(TT_ERR_ARG, "--launch is empty; it starts ranks, as "
                                     "--launch 'mpirun -n 4' does");
}

static tt_status ask_numbers(tt_compare *c)
{
    const char *repeat = tt_cli_value(c->cli, "--repeat");
    char *end = NULL;
    int64_t n = 0;
    TT_TRY(tt_cli_ranks_flag(c->cli, TT_RANKS_MOST, &n));
    if (n == 0)
        return tt_fail(TT_ERR_ARG, "on how many ranks? -n 4 says it");
    c->ranks = (int32_t)n;
    c->rounds = repeat == NULL ? 2 : (int)strtol(repeat, &end, 10);
    if (repeat != NULL && (end == repeat || *end != '\0' || c->rounds < 1 ||
                           c->rounds > ROUNDS_MAX))
        return tt_fail(TT_ERR_ARG,
                       "--repeat %s: rounds are a whole number from 1 to %d",
                       repeat, ROUNDS_MAX);
    return TT_OK;
}

tt_status tt__compare_ask(tt_cli *cli, tt_compare *out)
{
    tt_compare c = {.cli = cli, .is_silent = tt_cli_has(cli, "--json")};
    asking a = {.c = &c};
    c.one = tt_arena_alloc(cli->arena, ONES_MAX * (int64_t)sizeof *c.one);
    a.extra = tt_arena_alloc(cli->arena, EXTRA_MAX * (int64_t)sizeof *a.extra);
    if (c.one == NULL || a.extra == NULL)
        return TT_ERR_NOMEM;
    if (tt_settings_find(&cli->settings, "system") != NULL)
        return tt_fail(TT_ERR_ARG, "compare takes systems as words: `tutti "
                                   "compare FILE.yaml ddp gpipe -n 4`");
    TT_TRY(ask_numbers(&c));
    TT_TRY(ask_launch(&c));
    TT_TRY(ask_systems(&c));
    TT_TRY(ask_end(&c));
    ask_logs(&a);
    TT_TRY(ask_network(&a));
    TT_TRY(ask_folder(&c));
    c.extra = a.extra;
    *out = c;
    return TT_OK;
}
