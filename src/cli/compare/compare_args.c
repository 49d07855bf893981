// compare_args - what a run of a comparison is called with: a launcher's words, those of
// the command line, and what a comparison adds to them.

#include "cli/compare/compare_parts.h"
#include "config/pace.h"
#include "policy/policy.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRACE_STEPS = 6 };

static void add(tt__compare_run *p, const char *arg)
{
    if (arg != NULL && p->n < TT_COMPARE_ARGS - 1)
        p->arg[p->n++] = arg;
}

static bool is_own_key(const char *word)
{
    return strncmp(word, "run=", 4) == 0 || strncmp(word, "system=", 7) == 0;
}

// Files and settings as they were typed; flags and their values are not for it.
static void add_given(tt__compare_run *p)
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
// A dry run starts none.
static tt_status add_program(tt__compare_run *p, tt__compare_kind kind)
{
    const char *const *word = p->of->launch;
    char path[PATH_MAX];
    p->program = "/proc/self/exe";
    if (word[0] == NULL || kind == TT__COMPARE_DRY) {
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

static double number_of(const tt_settings *s, const char *key)
{
    const tt_setting *found = tt_settings_find(s, key);
    return found != NULL ? strtod(found->value, NULL) : 0;
}

// What only a drawn clock knows: federations, chains.
static bool is_drawn(const tt_policy_def *policy, const tt_settings *s)
{
    return policy->is_drawn || number_of(s, "exchange.chain") > 1;
}

// Who is next where nobody says it; NULL: the policy has nobody who waits for a turn.
static const char *usual_schedule(const tt_policy_def *policy)
{
    const tt_opt *o = tt_opt_find(policy->options, "schedule");
    return o != NULL ? o->fallback : NULL;
}

static const tt_policy_def *policy_of(const tt_settings *s)
{
    const tt_setting *policy = tt_settings_find(s, "exchange.policy");
    return policy != NULL ? tt_policy_find(policy->value) : NULL;
}

// --pace says the speeds of ranks; workers and clients, of which each of these has several,
// have that of theirs.
static const char *pace_of(const tt_compare *c, const tt_settings *all)
{
    const char *pace = tt_cli_value(c->cli, "--pace");
    const tt_policy_def *policy = policy_of(all);
    const int64_t workers = (int64_t)number_of(all, "exchange.replicas");
    tt_str text = {0};
    double speed = 0;
    tt_str_add(&text, "trial.pace=");
    if (policy == NULL || usual_schedule(policy) == NULL ||
        workers <= c->ranks || workers % c->ranks != 0)
        tt_str_add(&text, pace);
    else
        for (int64_t i = 0; i < workers; i++)
            if (tt_pace_speed(pace, c->ranks, (int32_t)(i * c->ranks / workers),
                              &speed) == TT_OK)
                tt_str_addf(&text, "%s%.9g", i > 0 ? "," : "", speed);
    return tt_str_keep(&text, c->cli->arena);
}

// Workers at their own pace go by the wall clock, because a comparison is about times; a
// clock that is drawn has none that could be compared.
static bool is_by_wall(const tt_compare *c, const tt_settings *all)
{
    const tt_policy_def *def = policy_of(all);
    return !tt_cli_has(c->cli, "--seeded") && def != NULL &&
           !is_drawn(def, all) &&
           tt_settings_find(all, "exchange.schedule") == NULL &&
           usual_schedule(def) != NULL;
}

bool tt__compare_is_drawn(const tt_compare *c, const tt_compare_one *one)
{
    tt_settings all = {0};
    if (tt__compare_settings(c, one, &all) != TT_OK)
        return false;
    const tt_policy_def *def = policy_of(&all);
    const tt_setting *said = tt_settings_find(&all, "exchange.schedule");
    const char *usual = def != NULL ? usual_schedule(def) : NULL;
    return usual != NULL && !is_by_wall(c, &all) &&
           strcmp(said != NULL ? said->value : usual, "wall") != 0;
}

// What it logs, so that curves have some forty points.
static int64_t log_every(int64_t steps)
{
    static const int64_t points = 40;
    return steps >= TT_COMPARE_NO_END ? 10
           : steps < 50               ? 1
           : steps < points * 5       ? 5
                                      : steps / points;
}

static void add_kind(tt__compare_run *p, tt__compare_kind kind)
{
    if (kind == TT__COMPARE_TRACE) {
        add(p, "log.trace=true");
        add(p, "log.every=1");
        add(p, "eval.batches=1");
    } else if (kind == TT__COMPARE_DRY) {
        add(p, "--dry-run");
    }
}

tt_status tt__compare_args(tt__compare_run *p, const tt_compare_one *one,
                           tt__compare_kind kind)
{
    tt_arena *arena = p->of->cli->arena;
    const int64_t steps = one->steps > 0 ? one->steps : p->of->steps;
    tt_settings all = {0};
    TT_TRY(add_program(p, kind));
    add(p, "train");
    add(p,
        tt_arena_printf(arena, "log.every=%lld", (long long)log_every(steps)));
    const bool is_known = tt__compare_settings(p->of, one, &all) == TT_OK;
    for (const char *const *s = p->of->extra; *s != NULL; s++)
        add(p, is_known && strncmp(*s, "trial.pace=", 11) == 0
                   ? pace_of(p->of, &all)
                   : *s);
    add_given(p);
    add(p, tt_arena_printf(arena, "system=%s", one->word));
    add(p, tt_arena_printf(arena, "run=%s", p->folder));
    if (is_known && is_by_wall(p->of, &all))
        add(p, "exchange.schedule=wall");
    add_kind(p, kind);
    add(p, tt_arena_printf(
               arena, "train.steps=%lld",
               (long long)(kind == TT__COMPARE_TRACE ? TRACE_STEPS : steps)));
    add(p, tt_arena_printf(arena, "-n%d", p->of->ranks));
    add(p, "--json");
    p->arg[p->n] = NULL;
    return TT_OK;
}
