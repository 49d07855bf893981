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
#include "config/config.h"
#include "config/exchange.h"
#include "data/data.h"

#include <string.h>

// Where each table is read to. A table whose struct is not there has NULL.
typedef struct visitor {
    const tt_settings *settings;
    tt_config *config; // may be NULL
    tt_arena *arena;
    tt_keys_fn *visit;
    void *user;
} visitor;

// Adds the place of a setting (file and line) to an error about its value.
static tt_status with_place(tt_status status, const tt_settings *settings,
                            const char *key)
{
    const tt_setting *s = tt_settings_find(settings, key);
    return status == TT_OK || s == NULL
               ? status
               : tt_fail_context(status, "%s", s->origin);
}

static tt_status visit_model(const visitor *v)
{
    const tt_model_def *def = NULL;
    const tt_model_preset *preset = NULL;
    TT_TRY(tt_config_find_model(v->settings, &def, &preset));
    return v->visit(v->user, "model", def->options,
                    v->config != NULL ? v->config->model_params : NULL);
}

static tt_status visit_optim(const visitor *v)
{
    const tt_opt *table = NULL;
    const tt_optim_def *def = NULL;
    const char *name = tt_config_text(v->settings, "optim");
    TT_TRY(with_place(tt_job_find_optim(name, &def), v->settings, "optim"));
    TT_TRY(tt_job_optim_table(def, v->arena, &table));
    return v->visit(v->user, "optim", table,
                    v->config != NULL ? &v->config->optim_params : NULL);
}

const tt_opt tt_keys_data[] = {
    {"data", "", "what to train on: see `tutti list sources`", TT_OPT_STR, 0},
    {0},
};

// Without a source, only the options that all sources have are known.
static tt_status visit_data(const visitor *v)
{
    const tt_opt *table = NULL;
    const tt_setting *source = tt_settings_find(v->settings, "data");
    TT_TRY(v->visit(v->user, "", tt_keys_data, NULL));
    if (source == NULL) {
        TT_TRY(v->visit(v->user, "data", tt_data_option_table, NULL));
        return v->visit(v->user, "data", tt_transform_options, NULL);
    }
    TT_TRY(with_place(tt_data_known(source->value, v->arena, &table),
                      v->settings, "data"));
    return v->visit(v->user, "data", table, NULL);
}

static tt_status visit_sections(const visitor *v, const tt_section *section,
                                void *params)
{
    for (; section->table != NULL; section++)
        TT_TRY(v->visit(v->user, section->prefix, section->table, params));
    return TT_OK;
}

// Options of a codec.
static tt_status visit_own(const visitor *v, const char *prefix,
                           const tt_opt *options, void *params)
{
    return options == NULL ? TT_OK : v->visit(v->user, prefix, options, params);
}

static tt_status visit_exchange(const visitor *v)
{
    const tt_opt *table = NULL;
    tt_exchange *e = v->config != NULL ? &v->config->exchange : NULL;
    TT_TRY(tt_exchange_table(tt_exchange_policy_of(v->settings), v->arena,
                             &table));
    TT_TRY(v->visit(v->user, "exchange", table, e));
    TT_TRY(tt_exchange_outer_table(tt_exchange_outer_of(v->settings), v->arena,
                                   &table));
    TT_TRY(v->visit(v->user, "exchange.outer", table,
                    e != NULL ? &e->outer : NULL));
    return visit_own(v, "exchange.codec",
                     tt_exchange_codec_of(v->settings)->options,
                     e != NULL ? e->codec_params : NULL);
}

tt_status tt_keys_each(const tt_settings *settings, tt_config *config,
                       tt_arena *arena, tt_keys_fn *visit, void *user)
{
    const visitor v = {settings, config, arena, visit, user};
    TT_TRY(visit(user, "", tt_job_option_table,
                 config != NULL ? &config->top : NULL));
    TT_TRY(visit_model(&v));
    TT_TRY(visit_optim(&v));
    TT_TRY(visit_data(&v));
    TT_TRY(visit_sections(&v, tt_train_sections,
                          config != NULL ? &config->train : NULL));
    TT_TRY(visit_sections(&v, tt_distribution_sections,
                          config != NULL ? &config->distribution : NULL));
    TT_TRY(visit_own(
        &v, "layout.codec", tt_distribution_codec_of(settings)->options,
        config != NULL ? config->distribution.codec_params : NULL));
    return visit_exchange(&v);
}

enum { MAX_KNOWN = 512 };

typedef struct known {
    tt_arena *arena;
    int n;
    const char *key[MAX_KNOWN];
    const tt_opt *opt[MAX_KNOWN];
} known;

static tt_status collect(void *user, const char *prefix, const tt_opt *table,
                         void *params)
{
    (void)params;
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
    TT_TRY(tt_exchange_check_options(settings));
    TT_TRY(collect(k, "", extra, NULL));
    TT_TRY(tt_keys_each(settings, NULL, arena, collect, k));
    for (int64_t i = 0; i < settings->n; i++)
        TT_TRY(check_one(k, &settings->v[i]));
    return TT_OK;
}
