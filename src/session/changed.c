// changed - the settings that the user gave and that are not the defaults: the
// short description of a run, for its report and for TensorBoard.

#include "session/changed.h"

#include "config/keys.h"

#include <string.h>

typedef struct list {
    const tt_session *session;
    tt_arena *arena;
    tt_report_row *row;
    int64_t n, most;
} list;

static const char *default_text(const tt_opt *opt, tt_arena *arena)
{
    tt_opt alone[2] = {*opt, {0}};
    double room[2 + TT_I64S_MAX];
    tt_str text = {0};
    const char *copy = NULL;
    alone[0].offset = 0;
    if (tt_opt_defaults(alone, room, arena) == TT_OK)
        tt_opt_print_value(alone, room, &text);
    if (tt_str_status(&text) == TT_OK)
        copy = tt_arena_strdup(arena, tt_str_text(&text));
    tt_str_fini(&text);
    return copy != NULL ? copy : "";
}

// The folder of the run is not counted, nor what follows from the data.
static bool is_given(const tt_session *s, const char *key)
{
    const tt_setting *set = tt_settings_find(&s->settings, key);
    return set != NULL && strcmp(key, "run") != 0 &&
           strcmp(set->origin, tt_session_from_data) != 0;
}

static tt_status add_table(void *user, const char *prefix, const tt_opt *table,
                           void *params)
{
    (void)params;
    list *l = user;
    for (; table != NULL && table->name != NULL; table++) {
        const char *key =
            tt_arena_printf(l->arena, "%s%s%s", prefix,
                            prefix[0] != '\0' ? "." : "", table->name);
        if (key == NULL)
            return TT_ERR_NOMEM;
        const tt_setting *now = tt_settings_find(&l->session->resolved, key);
        if (now == NULL || !is_given(l->session, key) ||
            strcmp(now->value, default_text(table, l->arena)) == 0 ||
            l->n == l->most)
            continue;
        l->row[l->n++] = (tt_report_row){key, now->value};
    }
    return TT_OK;
}

const tt_report_row *tt_session_changed(const tt_session *session,
                                        tt_arena *arena)
{
    list l = {.session = session, .arena = arena, .most = session->settings.n};
    l.row = tt_arena_alloc(arena, (l.most + 1) * (int64_t)sizeof *l.row);
    if (l.row == NULL ||
        tt_keys_each(&session->settings, NULL, arena, add_table, &l) != TT_OK)
        return NULL;
    l.row[l.n] = (tt_report_row){NULL, NULL};
    return l.row;
}

static bool has_row(const tt_report_row *row, int64_t n, const char *name)
{
    for (int64_t i = 0; i < n; i++)
        if (strcmp(row[i].name, name) == 0)
            return true;
    return false;
}

static bool is_about_training(const char *name)
{
    static const char *const others[] = {"log.", "checkpoint.", "sample.",
                                         "threads", "comm."};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strncmp(name, others[i], strlen(others[i])) == 0)
            return false;
    return true;
}

const tt_report_row *tt_session_hparams(const tt_session *session,
                                        tt_arena *arena)
{
    static const char *const always[] = {
        "model", "optim", "optim.lr", "batch", "seq", "precision", "seed"};
    enum { N_ALWAYS = sizeof always / sizeof *always };
    const tt_report_row *changed = tt_session_changed(session, arena);
    const int64_t most = session->settings.n + N_ALWAYS + 1;
    tt_report_row *row = tt_arena_alloc(arena, most * (int64_t)sizeof *row);
    int64_t n = 0;
    if (row == NULL || changed == NULL)
        return NULL;
    for (int i = 0; i < N_ALWAYS; i++) {
        const tt_setting *s = tt_settings_find(&session->resolved, always[i]);
        if (s != NULL)
            row[n++] = (tt_report_row){s->key, s->value};
    }
    for (; changed->name != NULL; changed++)
        if (!has_row(row, n, changed->name) && is_about_training(changed->name))
            row[n++] = *changed;
    row[n] = (tt_report_row){NULL, NULL};
    return row;
}
