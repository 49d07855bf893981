// keys - which settings exist, and what a misspelt one meant.
//
// Settings have no central list. Each model, optimiser and source has its own table
// of options, and the training loop and the distribution have theirs. Which tables
// count depends on the settings themselves (model, optim, data). tt_keys_each
// visits them; checking, resolving and printing are all done by such visits.
//
// All settings are checked before any is used, and each must be known. A misspelt
// key that is silently ignored costs a day of training. So the error names the
// place and the key that was probably meant.

#include "config/keys.h"

#include "base/utf8.h"
#include "config/aliases.h"
#include "config/distribution.h"
#include "config/job_options.h"
#include "config/options.h"
#include "data/data.h"
#include "model/model.h"
#include "ops/optim/optim.h"

#include <string.h>

static const char *value_of(const tt_settings *settings, const char *key,
                            const char *fallback)
{
    const tt_setting *s = tt_settings_find(settings, key);
    return s != NULL ? s->value : fallback;
}

static const char *default_of(const tt_opt *table, const char *name)
{
    const tt_opt *opt = tt_opt_find(table, name);
    return opt != NULL && opt->fallback != NULL ? opt->fallback : "";
}

// Adds the place of a setting (file and line) to an error about its value.
static tt_status with_place(tt_status status, const tt_settings *settings,
                            const char *key)
{
    const tt_setting *s = tt_settings_find(settings, key);
    return status == TT_OK || s == NULL
               ? status
               : tt_fail_context(status, "%s", s->origin);
}

static tt_status visit_model(const tt_settings *settings, tt_keys_fn *visit,
                             void *user)
{
    const tt_model_def *def = NULL;
    const tt_model_preset *preset = NULL;
    const char *name =
        value_of(settings, "model", default_of(tt_job_option_table, "model"));
    TT_TRY(with_place(tt_model_find(name, &def, &preset), settings, "model"));
    return visit(user, "model", def->options);
}

static tt_status visit_optim(const tt_settings *settings, tt_arena *arena,
                             tt_keys_fn *visit, void *user)
{
    const tt_opt *table = NULL;
    const tt_optim_def *def = NULL;
    const char *name =
        value_of(settings, "optim", default_of(tt_job_option_table, "optim"));
    TT_TRY(with_place(tt_job_find_optim(name, &def), settings, "optim"));
    TT_TRY(tt_job_optim_table(def, arena, &table));
    return visit(user, "optim", table);
}

static const tt_opt data_itself[] = {
    {"data", "", "what to train on: see `tutti list sources`", TT_OPT_STR, 0},
    {0},
};

// Without a source, only the options that all sources have are known.
static tt_status visit_data(const tt_settings *settings, tt_arena *arena,
                            tt_keys_fn *visit, void *user)
{
    const tt_opt *table = NULL;
    const tt_setting *source = tt_settings_find(settings, "data");
    TT_TRY(visit(user, "", data_itself));
    if (source == NULL) {
        TT_TRY(visit(user, "data", tt_data_option_table));
        return visit(user, "data", tt_transform_options);
    }
    TT_TRY(with_place(tt_data_known(source->value, arena, &table), settings,
                      "data"));
    return visit(user, "data", table);
}

tt_status tt_keys_each(const tt_settings *settings, tt_arena *arena,
                       tt_keys_fn *visit, void *user)
{
    TT_TRY(visit(user, "", tt_job_option_table));
    TT_TRY(visit_model(settings, visit, user));
    TT_TRY(visit_optim(settings, arena, visit, user));
    TT_TRY(visit_data(settings, arena, visit, user));
    for (const tt_section *s = tt_train_sections; s->table != NULL; s++)
        TT_TRY(visit(user, s->prefix, s->table));
    for (const tt_section *s = tt_distribution_sections; s->table != NULL; s++)
        TT_TRY(visit(user, s->prefix, s->table));
    return TT_OK;
}

enum { MAX_KNOWN = 512 };

typedef struct known {
    tt_arena *arena;
    int n;
    const char *key[MAX_KNOWN];
    const tt_opt *opt[MAX_KNOWN];
} known;

static tt_status collect(void *user, const char *prefix, const tt_opt *table)
{
    known *k = user;
    for (; table != NULL && table->name != NULL; table++) {
        const char *key =
            prefix[0] == '\0'
                ? table->name
                : tt_arena_printf(k->arena, "%s.%s", prefix, table->name);
        if (key == NULL)
            return TT_ERR_NOMEM;
        if (k->n == MAX_KNOWN)
            return tt_fail(TT_ERR_STATE, "more than %d settings are known",
                           MAX_KNOWN);
        k->key[k->n] = key;
        k->opt[k->n++] = table;
    }
    return TT_OK;
}

static const char *last_word(const char *key)
{
    const char *dot = strrchr(key, '.');
    return dot != NULL ? dot + 1 : key;
}

// The key that was probably meant. First, keys that end with the same word: "lr"
// and "train.lr" mean optim.lr. Then the words of other programs (aliases.c). Then
// what is spelled similarly.
static const char *nearest(const known *k, const char *key)
{
    const char *same[MAX_KNOWN];
    int n = 0;
    for (int i = 0; i < k->n; i++)
        if (strcmp(last_word(k->key[i]), last_word(key)) == 0)
            same[n++] = k->key[i];
    const char *near = tt_nearest(key, same, n);
    if (near != NULL || n > 0)
        return near != NULL ? near : same[0];
    near = tt_alias_key(key);
    return near != NULL ? near : tt_nearest(key, k->key, k->n);
}

// The error for an unknown key. A suggestion that begins with "-" is an option of
// the command line, not a setting.
static tt_status unknown(const tt_setting *s, const char *near)
{
    if (near == NULL)
        return tt_fail(TT_ERR_ARG,
                       "%s: %s: unknown setting; `tutti list settings` names "
                       "them",
                       s->origin, s->key);
    return tt_fail(TT_ERR_ARG, "%s: %s: unknown setting; did you mean %s%s%s?",
                   s->origin, s->key, near[0] == '-' ? "" : "\"", near,
                   near[0] == '-' ? " on the command line" : "\"");
}

// Finds values as other programs write them ("bfloat16"), before the option's own
// reader says only that they are unknown.
static tt_status check_meant(const tt_setting *s)
{
    const char *meant = tt_alias_value(s->key, s->value);
    return meant == NULL
               ? TT_OK
               : tt_fail(TT_ERR_ARG, "%s: %s=%s: unknown; did you mean %s=%s?",
                         s->origin, s->key, s->value, s->key, meant);
}

static tt_status check_one(const known *k, const tt_setting *s)
{
    if (tt_distribution_is_rule(s->key))
        return tt_distribution_check_rule(s);
    for (int i = 0; i < k->n; i++)
        if (strcmp(k->key[i], s->key) == 0) {
            tt_opt full[2] = {*k->opt[i], {0}};
            full[0].name = s->key;
            const tt_status status =
                tt_opt_set(full, NULL, s->key, s->value, k->arena);
            return status == TT_OK ? status
                                   : tt_fail_context(status, "%s", s->origin);
        }
    return unknown(s, nearest(k, s->key));
}

// Values must be UTF-8: they are written to YAML and JSON.
static tt_status check_text(const tt_setting *s)
{
    const int64_t n = (int64_t)strlen(s->value);
    const int64_t valid = tt_utf8_valid(s->value, n);
    return valid == n ? TT_OK
                      : tt_fail(TT_ERR_ARG,
                                "%s: byte %lld of its value, 0x%02x, is not "
                                "UTF-8; give the file or folder another name",
                                s->key, (long long)valid + 1,
                                (unsigned)(unsigned char)s->value[valid]);
}

tt_status tt_keys_check(const tt_settings *settings, const tt_opt *extra,
                        tt_arena *arena)
{
    known *k = tt_arena_alloc(arena, sizeof *k);
    if (k == NULL)
        return TT_ERR_NOMEM;
    k->arena = arena;
    for (int64_t i = 0; i < settings->n; i++) {
        TT_TRY(check_text(&settings->v[i]));
        TT_TRY(check_meant(&settings->v[i]));
    }
    TT_TRY(collect(k, "", extra));
    TT_TRY(tt_keys_each(settings, arena, collect, k));
    for (int64_t i = 0; i < settings->n; i++)
        TT_TRY(check_one(k, &settings->v[i]));
    return TT_OK;
}
