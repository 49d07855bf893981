// config - reads the tables, one after another, into the struct.

#include "config/config.h"

#include "config/keys.h"

#include <string.h>

const char *tt_config_text(const tt_settings *settings, const char *key)
{
    const tt_setting *s = tt_settings_find(settings, key);
    const tt_opt *opt = tt_opt_find(tt_job_option_table, key);
    if (s != NULL)
        return s->value;
    return opt != NULL && opt->fallback != NULL ? opt->fallback : "";
}

tt_status tt_config_find_model(const tt_settings *settings,
                               const tt_model_def **model_out,
                               const tt_model_preset **preset_out)
{
    const tt_setting *s = tt_settings_find(settings, "model");
    const tt_status status =
        tt_model_find(tt_config_text(settings, "model"), model_out, preset_out);
    return status == TT_OK || s == NULL
               ? status
               : tt_fail_context(status, "%s", s->origin);
}

int64_t tt_config_model_i64(const tt_config *config, const char *name)
{
    const tt_opt *opt = tt_opt_find(config->model->options, name);
    int64_t value = 0;
    if (opt != NULL && opt->type == TT_OPT_I64)
        memcpy(&value, (const char *)config->model_params + opt->offset,
               sizeof value);
    return value;
}

// What is read, and how far.
typedef struct reading {
    tt_settings *settings;
    tt_arena *arena;
    tt_config *config;
    const tt_setting *only; // of tt_config_set,
    bool is_found;          // and whether a table has it
} reading;

static tt_status read_table(void *user, const char *prefix, const tt_opt *table,
                            void *params)
{
    const reading *r = user;
    const tt_config *c = r->config;
    if (params == NULL) // read by the data
        return TT_OK;
    TT_TRY(tt_opt_defaults(table, params, r->arena));
    if (params == c->model_params && c->preset != NULL)
        TT_TRY(tt_opt_parse(table, params, c->preset->options, r->arena));
    return tt_settings_apply(r->settings, prefix, table, params, r->arena);
}

tt_status tt_config_read(tt_settings *settings, const tt_opt *extra,
                         tt_arena *arena, tt_config *config_out)
{
    tt_config c = {0};
    reading r = {settings, arena, &c, NULL, false};
    TT_TRY(tt_keys_check(settings, extra, arena));
    TT_TRY(tt_config_find_model(settings, &c.model, &c.preset));
    TT_TRY(tt_job_find_optim(tt_config_text(settings, "optim"), &c.optim));
    c.model_params = tt_arena_alloc(arena, c.model->params_bytes + 1);
    if (c.model_params == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt_exchange_room(settings, arena, &c.exchange));
    TT_TRY(tt_distribution_codec_room(settings, arena, &c.distribution));
    TT_TRY(tt_keys_each(settings, &c, arena, read_table, &r));
    TT_TRY(tt_distribution_finish(settings, arena, &c.distribution));
    *config_out = c;
    return TT_OK;
}

static tt_status set_one(void *user, const char *prefix, const tt_opt *table,
                         void *params)
{
    reading *r = user;
    const char *key = r->only->key;
    const size_t n = strlen(prefix);
    const char *name = n == 0 ? key : key + n + 1;
    if (params == NULL ||
        (n > 0 && (strncmp(key, prefix, n) != 0 || key[n] != '.')))
        return TT_OK;
    if (tt_opt_find(table, name) == NULL)
        return TT_OK;
    r->is_found = true;
    return tt_opt_set(table, params, name, r->only->value, r->arena);
}

tt_status tt_config_set(tt_config *config, tt_settings *settings,
                        const tt_setting *setting, tt_arena *arena)
{
    reading r = {settings, arena, config, setting, false};
    TT_TRY(tt_settings_set(settings, setting->key, setting->value,
                           setting->origin, arena));
    TT_TRY(tt_keys_each(settings, config, arena, set_one, &r));
    return r.is_found ? TT_OK
                      : tt_fail(TT_ERR_ARG, "%s: %s: unknown setting",
                                setting->origin, setting->key);
}
