// settings - a flat list, searched from the front: there are dozens, not thousands.
//
// A setting that nobody asked for is a typo. So each one remembers whether it was used,
// and tt_settings_check_unused names the first that was not. Tables are applied twice:
// first everything is checked, then stored.

#include "base/settings/settings.h"

#include <string.h>

tt_setting *tt_settings_find(const tt_settings *settings, const char *key)
{
    for (int64_t i = 0; i < settings->n; i++)
        if (strcmp(settings->v[i].key, key) == 0)
            return &settings->v[i];
    return NULL;
}

// Makes room for one more; the old array stays in the arena.
static tt_status grow(tt_settings *settings, tt_arena *arena)
{
    if (settings->n < settings->capacity)
        return TT_OK;
    const int64_t capacity = settings->n < 16 ? 16 : 2 * settings->n;
    tt_setting *v =
        tt_arena_alloc(arena, capacity * (int64_t)sizeof(tt_setting));
    if (v == NULL)
        return TT_ERR_NOMEM;
    if (settings->n > 0)
        memcpy(v, settings->v, (size_t)settings->n * sizeof(*v));
    settings->v = v;
    settings->capacity = capacity;
    return TT_OK;
}

tt_status tt_settings_set(tt_settings *settings, const char *key,
                          const char *value, const char *origin,
                          tt_arena *arena)
{
    const tt_setting copy = {
        .key = tt_arena_strdup(arena, key),
        .value = tt_arena_strdup(arena, value),
        .origin = tt_arena_strdup(arena, origin),
    };
    if (copy.key == NULL || copy.value == NULL || copy.origin == NULL)
        return TT_ERR_NOMEM;
    tt_setting *old = tt_settings_find(settings, key);
    if (old != NULL) {
        *old = copy;
        return TT_OK;
    }
    if (settings->n == TT_SETTINGS_MAX)
        return tt_fail(TT_ERR_ARG, "%s: there are more than %d settings",
                       origin, TT_SETTINGS_MAX);
    TT_TRY(grow(settings, arena));
    settings->v[settings->n++] = copy;
    return TT_OK;
}

tt_status tt_settings_assign(tt_settings *settings, const char *text,
                             const char *origin, tt_arena *arena)
{
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text)
        return tt_fail(TT_ERR_ARG, "%s: \"%s\" is not of the form key=value",
                       origin, text);
    const int64_t n = equals - text;
    char *key = tt_arena_alloc(arena, n + 1);
    if (key == NULL)
        return TT_ERR_NOMEM;
    memcpy(key, text, (size_t)n);
    return tt_settings_set(settings, key, equals + 1, origin, arena);
}

const char *tt_settings_get(tt_settings *settings, const char *key)
{
    tt_setting *setting = tt_settings_find(settings, key);
    if (setting == NULL)
        return NULL;
    setting->used = true;
    return setting->value;
}

// The part of `key` after "prefix.", or NULL when it is not below it.
static const char *name_below(const char *key, const char *prefix)
{
    const size_t n = strlen(prefix);
    if (n == 0)
        return key;
    return strncmp(key, prefix, n) == 0 && key[n] == '.' ? key + n + 1 : NULL;
}

// With `params` the value is stored, without it is only checked.
static tt_status apply_one(tt_setting *setting, const char *name,
                           const tt_opt *table, void *params, tt_arena *arena)
{
    const tt_opt *opt = tt_opt_find(table, name);
    if (opt == NULL) { // says what there is, under the short name
        const tt_status status = tt_opt_set(table, NULL, name, "", arena);
        const char *rest = strstr(tt_error_message(), ": unknown option");
        return tt_fail(status, "%s: %s%s", setting->origin, setting->key,
                       rest != NULL ? rest : "");
    }
    tt_opt full[2] = {*opt, {0}}; // so that messages give the whole key
    full[0].name = setting->key;
    const tt_status status =
        tt_opt_set(full, params, setting->key, setting->value, arena);
    if (status != TT_OK)
        return tt_fail_context(status, "%s", setting->origin);
    setting->used = setting->used || params != NULL;
    return TT_OK;
}

static tt_status apply_all(tt_settings *settings, const char *prefix,
                           const tt_opt *table, void *params, tt_arena *arena)
{
    for (int64_t i = 0; i < settings->n; i++) {
        tt_setting *setting = &settings->v[i];
        const char *name = name_below(setting->key, prefix);
        if (name == NULL)
            continue;
        const bool is_elsewhere = prefix[0] == '\0' || strchr(name, '.');
        if (is_elsewhere && tt_opt_find(table, name) == NULL)
            continue;
        TT_TRY(apply_one(setting, name, table, params, arena));
    }
    return TT_OK;
}

tt_status tt_settings_apply(tt_settings *settings, const char *prefix,
                            const tt_opt *table, void *params, tt_arena *arena)
{
    TT_TRY(apply_all(settings, prefix, table, NULL, arena));
    return apply_all(settings, prefix, table, params, arena);
}

// "data=text: ..." is no word about `data`: what is wrong with the data follows.
static bool is_about(const tt_setting *s, const char *message)
{
    const size_t n = strlen(s->key), m = strlen(s->value);
    if (strcmp(s->key, "data") == 0 || strncmp(message, s->key, n) != 0)
        return false;
    return strncmp(message + n, ": ", 2) == 0 ||
           (message[n] == '=' && strncmp(message + n + 1, s->value, m) == 0);
}

tt_status tt_settings_fail_context(const tt_settings *settings,
                                   tt_status status)
{
    const bool is_settled = status == TT_OK || status == TT_ERR_NOMEM ||
                            status == TT_ERR_PEER || status == TT_ERR_TIMEOUT;
    for (int64_t i = 0; i < settings->n && !is_settled; i++)
        if (is_about(&settings->v[i], tt_error_message()))
            return tt_fail_context(status, "%s", settings->v[i].origin);
    return status;
}

tt_status tt_settings_check_unused(const tt_settings *settings,
                                   const char *const *known, int n)
{
    for (int64_t i = 0; i < settings->n; i++) {
        const tt_setting *s = &settings->v[i];
        if (s->used)
            continue;
        const char *near = tt_nearest(s->key, known, n);
        if (near == NULL)
            return tt_fail(TT_ERR_ARG, "%s: %s: unknown setting", s->origin,
                           s->key);
        return tt_fail(TT_ERR_ARG,
                       "%s: %s: unknown setting; did you mean \"%s\"?",
                       s->origin, s->key, near);
    }
    return TT_OK;
}
