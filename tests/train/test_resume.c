// What a checkpoint knows besides tensors, and which settings may change.

#include "base/settings/yaml.h"
#include "runs.h"
#include "test.h"
#include "train/run_state.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const tiny[] = {"model=mlp",      "model.width=4",
                                   "data=synthetic", "data.size=40",
                                   "data.image=4",   "batch=4",
                                   "train.steps=6",  "threads=1",
                                   "log.every=2",    NULL};

static tt_session *open_session(const char *more, tt_arena *arena)
{
    tt_settings settings = {0};
    tt_session *session = NULL;
    for (const char *const *s = tiny; *s != NULL; s++)
        CHECK_OK(tt_settings_assign(&settings, *s, "test", arena));
    if (more != NULL)
        CHECK_OK(tt_settings_assign(&settings, more, "test", arena));
    CHECK_OK(tt_session_open(&settings, NULL, true, &session));
    return session;
}

static tt_train_state some_state(void)
{
    tt_train_state s;
    tt_train_state_init(&s);
    s.began = 3;
    s.step = 1234567890123;
    s.position = 9876543210;
    s.seconds = 0.1;
    s.best_loss = 1.0 / 3;
    s.best_step = 17;
    s.since_best = 2;
    s.loss = 1e-300;
    s.count = 64;
    s.judge.n = 1;
    s.judge.window[0] = 2.0 / 3;
    s.threads = 2;
    return s;
}

TEST(the_state_of_a_run_survives_as_text)
{
    tt_arena *arena = tt_arena_create();
    tt_session *session = open_session(NULL, arena);
    const tt_train_state s = some_state();
    tt_train_state r;
    tt_settings then = {0};
    tt_str text = {0};
    tt_train_state_print(&s, session, &text);
    CHECK_OK(tt_train_state_read(tt_str_text(&text), "t", arena, &r, &then));
    CHECK(r.began == s.began && r.step == s.step && r.position == s.position);
    CHECK(r.seconds == s.seconds && r.best_loss == s.best_loss);
    CHECK(r.best_step == 17 && r.since_best == 2 && r.evaluated == -1);
    CHECK(isnan(r.val_loss) && isnan(r.train_loss) && r.loss == 1e-300);
    CHECK(memcmp(&r.judge, &s.judge, sizeof r.judge) == 0);
    CHECK(then.n == session->resolved.n + 2); // and both data
    CHECK_OK(tt_train_state_compare(session, &then, NULL, "run"));
    CHECK(tt_train_state_read("{}", "t", arena, &r, &then) == TT_ERR_IO);
    CHECK(tt_train_state_read("{", "t", arena, &r, &then) != TT_OK);
    tt_str_fini(&text);
    tt_session_close(session);
    tt_arena_destroy(arena);
}

// Numbers that a run cannot reach are refused before anybody counts on from them.
TEST(the_state_of_a_run_is_not_believed_beyond_reason)
{
    static const char *const keys[] = {
        "began",      "step",   "position",     "best_step",
        "since_best", "ranks",  "skips_in_row", "rollbacks",
        "furthest",   "skips",  "evaluated",    "rollbacks_in_row",
        "anchor",     "threads"};
    static const char *const values[] = {"9223372036854775807",
                                         "-9223372036854775808",
                                         "9223372036854775000", "-2"};
    tt_arena *arena = tt_arena_create();
    tt_session *session = open_session(NULL, arena);
    const tt_train_state s = some_state();
    tt_train_state r;
    tt_str text = {0}, forged = {0};
    tt_train_state_print(&s, session, &text);
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            char key[64];
            tt_settings then = {0};
            snprintf(key, sizeof key, "\"%s\": ", keys[k]);
            const char *at = strstr(tt_str_text(&text), key);
            CHECK_MSG(at != NULL, "%s", keys[k]);
            at += strlen(key);
            tt_str_clear(&forged);
            tt_str_addf(&forged, "%.*s%s%s", (int)(at - text.text), text.text,
                        values[v], at + strcspn(at, ",}"));
            CHECK_MSG(tt_train_state_read(tt_str_text(&forged), "t", arena, &r,
                                          &then) == TT_ERR_IO,
                      "%s%s", key, values[v]);
        }
    tt_str_fini(&text);
    tt_str_fini(&forged);
    tt_session_close(session);
    tt_arena_destroy(arena);
}

// A policy decides what is computed. Those of a later version are unknown here, and
// going on under another one is refused all the same.
TEST(a_run_goes_on_under_the_policy_that_it_began_with)
{
    tt_arena *arena = tt_arena_create();
    tt_session *session = open_session(NULL, arena);
    tt_settings then = {0};
    for (int64_t i = 0; i < session->resolved.n; i++)
        CHECK_OK(tt_settings_set(&then, session->resolved.v[i].key,
                                 session->resolved.v[i].value, "then", arena));
    CHECK_OK(tt_train_state_compare(session, &then, NULL, "run"));
    CHECK_OK(tt_settings_set(&then, "exchange.bucket", "99", "then", arena));
    CHECK_OK(
        tt_settings_set(&then, "exchange.order", "priority", "then", arena));
    CHECK_OK(tt_train_state_compare(session, &then, NULL, "run"));
    CHECK_OK(tt_settings_set(&then, "exchange.policy", "other", "then", arena));
    CHECK(tt_train_state_compare(session, &then, NULL, "run") == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "exchange.policy  other  allreduce"));
    CHECK(strstr(tt_error_message(), "--fork") != NULL);
    CHECK_OK(
        tt_settings_set(&then, "exchange.policy", "allreduce", "then", arena));
    CHECK_OK(tt_settings_set(&then, "exchange.every", "8", "then", arena));
    CHECK(tt_train_state_compare(session, &then, NULL, "run") == TT_ERR_ARG);
    tt_session_close(session);
    tt_arena_destroy(arena);
}

// The verdict on going on with `now` what was begun with `then`.
static tt_status compare(const char *then, const char *now)
{
    tt_arena *arena = tt_arena_create();
    tt_session *old = open_session(then, arena);
    tt_session *new = open_session(now, arena);
    tt_train_state s = some_state();
    tt_settings settings = {0};
    tt_str text = {0};
    tt_train_state_print(&s, old, &text);
    CHECK_OK(
        tt_train_state_read(tt_str_text(&text), "t", arena, &s, &settings));
    const tt_status status =
        tt_train_state_compare(new, &settings, NULL, "run");
    tt_str_fini(&text);
    tt_session_close(old);
    tt_session_close(new);
    tt_arena_destroy(arena);
    return status;
}

TEST(settings_that_decide_what_is_computed_may_not_change)
{
    static const char *const matter[] = {
        "optim.lr=0.5",  "seed=2",         "batch=8",       "model.width=5",
        "train.ema=0.5", "optim=sgd",      "eval.every=3",  "accumulate=2",
        "data.size=44",  "data.noise=0.2", "train.nan=skip"};
    static const char *const free[] = {
        "log.every=3",     "checkpoint.every=2", "sample.tokens=3",
        "run=x",           "train.stop=3",       "data.workers=2",
        "data.ahead=2",    "train.steps=9",      "log.tensorboard=false",
        "zero=0",          "exchange.bucket=9",  "exchange.order=priority",
        "exchange.meet=9", "comm.deadline=9"};
    for (size_t i = 0; i < sizeof matter / sizeof *matter; i++) {
        CHECK_MSG(compare(NULL, matter[i]) == TT_ERR_ARG, "%s", matter[i]);
        CHECK(strstr(tt_error_message(), "--fork") != NULL);
    }
    for (size_t i = 0; i < sizeof free / sizeof *free; i++)
        CHECK_MSG(compare(NULL, free[i]) == TT_OK, "%s: %s", free[i],
                  tt_error_message());
}

TEST(resolved_settings_read_back_to_themselves)
{
    static const char *const odd[] = {NULL,
                                      "sample.prompt=a \"b\"\n\t\\ : # é",
                                      "data.mean=0.5",
                                      "train.freeze=[layers.0.*, *.b?as]",
                                      "run= x",
                                      "optim.lr=1e-7"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        tt_arena *arena = tt_arena_create();
        tt_session *one = open_session(odd[i], arena), *two = NULL;
        tt_settings read = {0};
        tt_str first = {0}, second = {0};
        tt_settings_print(&one->resolved, &first);
        CHECK_OK(
            tt_yaml_parse(tt_str_text(&first), first.n, "text", arena, &read));
        CHECK_OK(tt_session_open(&read, NULL, true, &two));
        tt_settings_print(&two->resolved, &second);
        CHECK_MSG(strcmp(tt_str_text(&first), tt_str_text(&second)) == 0,
                  "%s\n---\n%s", tt_str_text(&first), tt_str_text(&second));
        tt_str_fini(&first);
        tt_str_fini(&second);
        tt_session_close(one);
        tt_session_close(two);
        tt_arena_destroy(arena);
    }
}
