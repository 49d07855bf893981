// resolve - every setting with its final value, and as YAML.
//
// A run writes all settings down, not only those that were given. So a run can be
// repeated with a later version whose defaults are different, and a resumed run can
// be compared setting by setting. Values are printed from the structs that the
// program uses, not from the texts that were given: what is written is what was
// done.

#include "session/resolve.h"

#include "config/keys.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

// The value from the settings, or the default, in its canonical form.
static tt_status setting_text(const tt_session *s, const char *key,
                              const tt_opt *opt, tt_str *out)
{
    const tt_setting *set = tt_settings_find(&s->settings, key);
    tt_opt alone[2] = {*opt, {0}};
    double room[2 + TT_I64S_MAX];
    alone[0].offset = 0;
    TT_TRY(tt_opt_defaults(alone, room, s->arena));
    if (set != NULL)
        TT_TRY(tt_opt_set(alone, room, opt->name, set->value, s->arena));
    tt_opt_print_value(alone, room, out);
    return TT_OK;
}

static tt_status add_table(void *user, const char *prefix, const tt_opt *table,
                           void *params)
{
    tt_session *s = user;
    assert(s != NULL);
    tt_status status = TT_OK;
    tt_str value = {0}, key = {0};
    for (; table != NULL && table->name != NULL && status == TT_OK; table++) {
        tt_str_clear(&value);
        tt_str_clear(&key);
        tt_str_addf(&key, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "",
                    table->name);
        if (params != NULL)
            tt_opt_print_value(table, params, &value);
        else
            status = setting_text(s, tt_str_text(&key), table, &value);
        if (status == TT_OK)
            status = tt_str_status(&value);
        if (status == TT_OK)
            status = tt_str_status(&key);
        if (status == TT_OK)
            status = tt_settings_set(&s->resolved, tt_str_text(&key),
                                     tt_str_text(&value), "resolved", s->arena);
    }
    tt_str_fini(&value);
    tt_str_fini(&key);
    return status;
}

tt_status tt__session_resolve(tt_session *session)
{
    const tt_job *job = session->job;
    tt_config now = {.top = job->options,
                     .model_params = job->model_params,
                     .optim_params = job->optim_params,
                     .train = session->options,
                     .distribution = job->distribution,
                     .exchange = job->exchange};
    return tt_keys_each(&session->settings, &now, session->arena, add_table,
                        session);
}

static bool is_plain(const char *value)
{
    if (value[0] == '\0' || value[0] == '-')
        return value[0] == '-' && isdigit((unsigned char)value[1]);
    for (const char *p = value; *p != '\0'; p++)
        if (!isalnum((unsigned char)*p) && strchr("_./+-", *p) == NULL)
            return false;
    return true;
}

static void print_quoted(const char *value, tt_str *out)
{
    tt_str_add(out, "\"");
    for (const char *p = value; *p != '\0'; p++) {
        const unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\')
            tt_str_addf(out, "\\%c", c);
        else if (c == '\n')
            tt_str_add(out, "\\n");
        else if (c < ' ' || c == 0x7f)
            tt_str_addf(out, "\\x%02x", c);
        else
            tt_str_add_bytes(out, p, 1);
    }
    tt_str_add(out, "\"");
}

void tt_settings_print(const tt_settings *settings, tt_str *out)
{
    for (int64_t i = 0; i < settings->n; i++) {
        tt_str_addf(out, "%s: ", settings->v[i].key);
        if (is_plain(settings->v[i].value))
            tt_str_add(out, settings->v[i].value);
        else
            print_quoted(settings->v[i].value, out);
        tt_str_add(out, "\n");
    }
}
