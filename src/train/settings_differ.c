// settings_differ - compares the settings of a checkpoint with those of today, and
// decides which differences matter.
//
// A resumed run must compute what an uninterrupted one would. So a setting that
// decides what is computed must be the same; otherwise the start is refused, with a
// table. Settings of logging, of saving and of distribution may change, and so may where
// a server keeps weights and how many copies of them. The length of the run matters
// only if the learning rate depends on it.

#include "job/workers.h"
#include "train/run_state.h"

#include <string.h>

static const char *const never_matter[] = {
    "log.",          "checkpoint.",     "sample.",
    "run",           "train.stop",      "data.workers",
    "data.ahead",    "exchange.server", "exchange.servers",
    "exchange.chain"};

static bool matters(const tt_session *session, const char *key)
{
    for (size_t i = 0; i < sizeof never_matter / sizeof *never_matter; i++) {
        const char *free = never_matter[i];
        const size_t n = strlen(free);
        if (free[n - 1] == '.' ? strncmp(key, free, n) == 0
                               : strcmp(key, free) == 0)
            return false;
    }
    if (tt_distribution_has(key) || strcmp(key, "threads") == 0 ||
        strcmp(key, "graphs") == 0)
        return false;
    if (strcmp(key, "exchange.replicas") == 0)
        return !tt_job_workers_may_change(session->job);
    if (strcmp(key, "train.steps") == 0 || strcmp(key, "train.epochs") == 0)
        return tt_schedule_needs_end(&session->job->optim_params.schedule);
    return true;
}

static const char *shown(const tt_setting *s)
{
    return s == NULL ? "-" : s->value[0] == '\0' ? "\"\"" : s->value;
}

typedef struct differences {
    int n;
    bool
        has_data; // the files of the data are others: what follows from them is too
    size_t key_width, then_width;
    tt_str table;
} differences;

// Whether two values mean the same. cuda:0 and cuda:1 do.
static bool is_same(const char *key, const char *then, const char *now)
{
    const size_t kind = strcspn(then, ":");
    return strcmp(then, now) == 0 ||
           (strcmp(key, "device") == 0 && strcspn(now, ":") == kind &&
            strncmp(then, now, kind) == 0);
}

// Called twice for all pairs: first for the widths of the table, then for its
// lines.
static void visit(differences *d, const char *key, const tt_setting *then,
                  const tt_setting *now)
{
    if (then != NULL && now != NULL && is_same(key, then->value, now->value))
        return;
    if (d->table.n > 0) {
        tt_str_addf(&d->table, "\n  %-*s  %-*s  %s", (int)d->key_width, key,
                    (int)d->then_width, shown(then), shown(now));
        return;
    }
    const size_t key_n = strlen(key), then_n = strlen(shown(then));
    d->n++;
    d->key_width = key_n > d->key_width ? key_n : d->key_width;
    d->then_width = then_n > d->then_width ? then_n : d->then_width;
}

// Whether a setting was decided by the data. If the data have changed, that is
// reported once, not for each of these.
static bool follows_from_data(const tt_session *session, const char *key)
{
    const tt_setting *s = tt_settings_find(&session->settings, key);
    return key[0] == '(' ||
           (s != NULL && strcmp(s->origin, tt_session_from_data) == 0);
}

// A setting that did not exist then counts as changed only if the user sets it now.
static bool is_new_default(const tt_session *session, const char *key)
{
    return tt_settings_find(&session->settings, key) == NULL;
}

static void visit_all(const tt_session *session, const tt_settings *then,
                      const tt_settings *now, differences *d)
{
    for (int64_t i = 0; i < now->n; i++) {
        const char *key = now->v[i].key;
        const tt_setting *old = tt_settings_find(then, key);
        if (matters(session, key) &&
            !(d->has_data && follows_from_data(session, key)) &&
            (old != NULL || !is_new_default(session, key)))
            visit(d, key, old, &now->v[i]);
    }
    for (int64_t i = 0; i < then->n; i++)
        if (matters(session, then->v[i].key) &&
            !(d->has_data && follows_from_data(session, then->v[i].key)) &&
            tt_settings_find(now, then->v[i].key) == NULL)
            visit(d, then->v[i].key, &then->v[i], NULL);
}

// The settings as a checkpoint would keep them now.
static tt_status settings_now(const tt_session *session, tt_arena *arena,
                              tt_settings *out)
{
    tt_train_state state;
    tt_str text = {0};
    tt_train_state_init(&state);
    tt_train_state_print(&state, session, &text);
    tt_status status = tt_str_status(&text);
    if (status == TT_OK)
        status = tt_train_state_read(tt_str_text(&text), "the settings", arena,
                                     &state, out);
    tt_str_fini(&text);
    return status;
}

static bool is_changed(const tt_settings *then, const tt_settings *now,
                       const char *key)
{
    const tt_setting *a = tt_settings_find(then, key);
    const tt_setting *b = tt_settings_find(now, key);
    return a != NULL && b != NULL && strcmp(a->value, b->value) != 0;
}

tt_status tt_train_state_compare(const tt_session *session,
                                 const tt_settings *then, const char *data,
                                 const char *folder)
{
    tt_settings now = {0};
    const bool has_data = data != NULL && data[0] != '\0';
    differences d = {.key_width = 7, .then_width = 4, .has_data = has_data};
    TT_TRY(settings_now(session, session->arena, &now));
    visit_all(session, then, &now, &d);
    if (d.n == 0)
        return TT_OK;
    tt_str_addf(&d.table, "\n  %-*s  %-*s  %s", (int)d.key_width, "setting",
                (int)d.then_width, "then", "now");
    visit_all(session, then, &now, &d);
    const bool is_length = is_changed(then, &now, "train.steps") ||
                           is_changed(then, &now, "train.epochs");
    (void)tt_fail(
        TT_ERR_ARG,
        "%s was trained with other settings; --fork goes on from it "
        "in a new folder, --fresh begins again, or set them back:%s%s%s%s",
        folder, tt_str_text(&d.table),
        is_length && tt_schedule_needs_end(&session->job->optim_params.schedule)
            ? "\nthe learning rate is planned to the end of a run: to train "
              "longer, --fork goes on with the rates of the longer run"
            : "",
        has_data ? "\nand the data are others: " : "", has_data ? data : "");
    tt_str_fini(&d.table);
    return TT_ERR_ARG;
}
