// Settings: overriding, typing through option tables, and what nobody used.

#include "base/alloc.h"
#include "base/settings/settings.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

typedef struct params {
    int64_t layers;
    double rate;
} params;

static const tt_opt table[] = {
    {"layers", "12", "blocks", TT_OPT_I64, offsetof(params, layers), NULL, 1,
     100},
    {"rate", "0.1", "rate", TT_OPT_F64, offsetof(params, rate), NULL, 0, 0},
    {0},
};

static void set(tt_settings *s, const char *key, const char *value,
                const char *origin, tt_arena *arena)
{
    CHECK(tt_settings_set(s, key, value, origin, arena) == TT_OK);
}

static bool says(const char *message)
{
    return strcmp(tt_error_message(), message) == 0;
}

TEST(settings_override_in_place)
{
    tt_arena *arena = tt_arena_create();
    tt_settings s = {0};
    set(&s, "a", "1", "f.yaml:1:1", arena);
    set(&s, "b", "2", "f.yaml:2:1", arena);
    CHECK(tt_settings_assign(&s, "a=x=y", "command line", arena) == TT_OK);
    CHECK(s.n == 2 && strcmp(s.v[0].key, "a") == 0);
    CHECK(strcmp(s.v[0].value, "x=y") == 0);
    CHECK(strcmp(s.v[0].origin, "command line") == 0);
    CHECK(tt_settings_assign(&s, "c=", "command line", arena) == TT_OK);
    CHECK(strcmp(tt_settings_get(&s, "c"), "") == 0);
    CHECK(tt_settings_assign(&s, "=3", "command line", arena) == TT_ERR_ARG);
    CHECK(tt_settings_assign(&s, "abc", "command line", arena) == TT_ERR_ARG);
    CHECK(says("command line: \"abc\" is not of the form key=value"));
    tt_arena_destroy(arena);
}

TEST(settings_get_marks_find_does_not)
{
    tt_arena *arena = tt_arena_create();
    tt_settings s = {0};
    CHECK(tt_settings_get(&s, "a") == NULL);
    set(&s, "a", "1", "here", arena);
    CHECK(!tt_settings_find(&s, "a")->used);
    CHECK(strcmp(tt_settings_get(&s, "a"), "1") == 0);
    CHECK(tt_settings_find(&s, "a")->used);
    CHECK(tt_settings_find(&s, "b") == NULL);
    tt_arena_destroy(arena);
}

TEST(settings_apply_below_a_prefix)
{
    tt_arena *arena = tt_arena_create();
    tt_settings s = {0};
    params p = {0};
    set(&s, "model", "gpt", "f.yaml:1:1", arena);
    set(&s, "model.layers", "6", "f.yaml:2:3", arena);
    set(&s, "model.sub.rate", "6", "f.yaml:3:3", arena);
    set(&s, "modelrate", "6", "f.yaml:4:3", arena);
    set(&s, "rate", "0.5", "f.yaml:5:3", arena);
    CHECK(tt_settings_apply(&s, "model", table, &p, arena) == TT_OK);
    CHECK(p.layers == 6 && p.rate == 0);
    CHECK(tt_settings_apply(&s, "", table, &p, arena) == TT_OK);
    CHECK(p.layers == 6 && p.rate == 0.5);
    const bool used[] = {false, true, false, false, true};
    for (int i = 0; i < 5; i++)
        CHECK(s.v[i].used == used[i]);
    tt_arena_destroy(arena);
}

TEST(settings_apply_names_the_place)
{
    tt_arena *arena = tt_arena_create();
    tt_settings s = {0};
    params p = {.layers = 7};
    set(&s, "model.layers", "3", "gpt.yaml:2:7", arena);
    set(&s, "model.layrs", "6", "gpt.yaml:3:7", arena);
    CHECK(tt_settings_apply(&s, "model", table, &p, arena) == TT_ERR_ARG);
    CHECK(says("gpt.yaml:3:7: model.layrs: unknown option; did you mean "
               "\"layers\"?"));
    CHECK(p.layers == 7 && !s.v[0].used);
    s.n = 1;
    set(&s, "model.layers", "101", "command line", arena);
    CHECK(tt_settings_apply(&s, "model", table, &p, arena) == TT_ERR_ARG);
    CHECK(says("command line: model.layers=101: must be at most 100"));
    set(&s, "model.a:b", "1", "command line", arena);
    set(&s, "model.layers", "1", "command line", arena);
    CHECK(tt_settings_apply(&s, "model", table, &p, arena) == TT_ERR_ARG);
    CHECK(says("command line: model.a:b: unknown option; there are: layers, "
               "rate"));
    tt_arena_destroy(arena);
}

TEST(settings_nobody_used_are_errors)
{
    static const char *const known[] = {"model", "model.layers", "batch"};
    tt_arena *arena = tt_arena_create();
    tt_settings s = {0};
    CHECK(tt_settings_check_unused(&s, known, 3) == TT_OK);
    set(&s, "batch", "1", "f.yaml:1:1", arena);
    set(&s, "modl.layers", "1", "f.yaml:2:1", arena);
    tt_settings_get(&s, "batch");
    CHECK(tt_settings_check_unused(&s, known, 3) == TT_ERR_ARG);
    CHECK(says("f.yaml:2:1: modl.layers: unknown setting; did you mean "
               "\"model.layers\"?"));
    CHECK(tt_settings_check_unused(&s, known, 1) == TT_ERR_ARG);
    CHECK(says("f.yaml:2:1: modl.layers: unknown setting"));
    tt_settings_get(&s, "modl.layers");
    CHECK(tt_settings_check_unused(&s, known, 3) == TT_OK);
    tt_arena_destroy(arena);
}

TEST(settings_grow_up_to_their_limit)
{
    tt_arena *arena = tt_arena_create();
    tt_settings s = {0};
    char key[32];
    for (int i = 0; i < TT_SETTINGS_MAX; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        set(&s, key, key, "here", arena);
    }
    CHECK(strcmp(tt_settings_get(&s, "k4000"), "k4000") == 0);
    CHECK(tt_settings_set(&s, "more", "1", "here", arena) == TT_ERR_ARG);
    CHECK(says("here: there are more than 4096 settings"));
    tt_arena_destroy(arena);
}
