// Option tables: reading, refusing, printing back, suggesting.

#include "base/alloc.h"
#include "base/settings/opt.h"
#include "test.h"

#include <string.h>

typedef struct params {
    int64_t layers;
    double rate;
    bool bias;
    int act;
    const char *path;
    tt_i64s kernel;
    int64_t free;
} params;

static const tt_opt table[] = {
    {"layers", "12", "blocks", TT_OPT_I64, offsetof(params, layers), NULL, 1,
     1e9},
    {"rate", "0.1", "rate", TT_OPT_F64, offsetof(params, rate), NULL, 0, -1},
    {"bias", "true", "bias", TT_OPT_BOOL, offsetof(params, bias), NULL, 0, 0},
    {"act", "gelu", "activation", TT_OPT_CHOICE, offsetof(params, act),
     "relu|gelu|none", 0, 0},
    {"path", "", "file", TT_OPT_STR, offsetof(params, path), NULL, 0, 0},
    {"kernel", "3,3", "window", TT_OPT_I64S, offsetof(params, kernel), NULL, 1,
     99},
    {"free", NULL, "any", TT_OPT_I64, offsetof(params, free), NULL, 0, 0},
    {0},
};

typedef struct fixture {
    tt_arena *arena;
    params p;
} fixture;

static fixture start(void)
{
    fixture f = {.arena = tt_arena_create()};
    CHECK(f.arena != NULL);
    CHECK(tt_opt_defaults(table, &f.p, f.arena) == TT_OK);
    return f;
}

static tt_status set(fixture *f, const char *name, const char *value)
{
    return tt_opt_set(table, &f->p, name, value, f->arena);
}

static bool refuses(fixture *f, const char *name, const char *value,
                    const char *message)
{
    const params before = f->p;
    const tt_status status = set(f, name, value);
    return status == TT_ERR_ARG && strcmp(tt_error_message(), message) == 0 &&
           memcmp(&before, &f->p, sizeof(before)) == 0;
}

TEST(opt_fills_in_defaults)
{
    fixture f = start();
    CHECK(f.p.layers == 12 && f.p.rate == 0.1 && f.p.bias && f.p.act == 1);
    CHECK(strcmp(f.p.path, "") == 0 && f.p.free == 0);
    CHECK(f.p.kernel.n == 2 && f.p.kernel.v[1] == 3);
    tt_arena_destroy(f.arena);
}

TEST(opt_reads_whole_numbers)
{
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {
        {"0", 0},
        {"-7", -7},
        {"+7", 7},
        {"1e6", 1000000},
        {"64k", 65536},
        {"1M", 1 << 20},
        {"2g", 2ll << 30},
        {"2.5e1", 25},
        {" 8 ", 8},
        {"1e18", (int64_t)1e18},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
    };
    fixture f = start();
    for (int i = 0; i < (int)(sizeof(good) / sizeof(good[0])); i++) {
        CHECK_MSG(set(&f, "free", good[i].text) == TT_OK, "%s", good[i].text);
        CHECK_MSG(f.p.free == good[i].value, "%s", good[i].text);
    }
    const char *const bad[] = {"",     "x",    "1.5", "12x",
                               "0x10", "1e19", "1kk", "--1",
                               "1 2",  "9g9",  "inf", "1e",
                               "nan",  "k",    "-",   "9223372036854775808",
                               "9e9g", "1.5k"};
    for (int i = 0; i < (int)(sizeof(bad) / sizeof(bad[0])); i++)
        CHECK_MSG(set(&f, "free", bad[i]) == TT_ERR_ARG, "%s", bad[i]);
    tt_arena_destroy(f.arena);
}

TEST(opt_names_what_is_wrong)
{
    fixture f = start();
    CHECK(refuses(&f, "layrs", "1",
                  "layrs: unknown option; did you mean \"layers\"?"));
    CHECK(refuses(&f, "zzzzzz", "1",
                  "zzzzzz: unknown option; there are: layers, rate, bias, act, "
                  "path, kernel, free"));
    CHECK(
        refuses(&f, "layers", "six", "layers: \"six\" is not a whole number"));
    CHECK(refuses(&f, "layers", "0", "layers=0: must be at least 1"));
    CHECK(refuses(&f, "layers", "1e10",
                  "layers=1e10: must be at most 1000000000"));
    CHECK(refuses(&f, "layers", "99999999999999999999",
                  "layers=99999999999999999999: must be at most 1000000000"));
    CHECK(refuses(&f, "layers", "-9e99g", "layers=-9e99g: must be at least 1"));
    CHECK(refuses(&f, "free", "1e30", "free=1e30: too large"));
    CHECK(refuses(&f, "rate", "-1", "rate=-1: must be at least 0"));
    CHECK(refuses(&f, "rate", "nan", "rate: \"nan\" is not a number"));
    CHECK(refuses(&f, "rate", "1e999", "rate=1e999: too large"));
    CHECK(refuses(&f, "rate", "1e-999",
                  "rate=1e-999: too near to 0 for a double; write 0 if "
                  "that is meant"));
    CHECK(refuses(&f, "rate", "1e-320",
                  "rate=1e-320: too near to 0 for a double; write 0 if "
                  "that is meant"));
    CHECK(refuses(&f, "bias", "maybe", "bias: \"maybe\" is not true or false"));
    CHECK(refuses(
        &f, "act", "gel",
        "act: \"gel\" is not one of relu|gelu|none; did you mean gelu?"));
    CHECK(
        refuses(&f, "kernel", "3,x",
                "kernel: \"3,x\" is not a list of whole numbers such as 3,3"));
    CHECK(refuses(&f, "kernel", "3,100", "kernel=3,100: must be at most 99"));
    tt_arena_destroy(f.arena);
}

TEST(opt_reads_the_other_types)
{
    fixture f = start();
    CHECK(set(&f, "rate", "inf") == TT_OK && isinf(f.p.rate));
    CHECK(set(&f, "rate", "3e-4") == TT_OK && f.p.rate == 3e-4);
    CHECK(set(&f, "rate", ".5") == TT_OK && f.p.rate == 0.5);
    CHECK(set(&f, "bias", "off") == TT_OK && !f.p.bias);
    CHECK(set(&f, "bias", "YES") == TT_OK && f.p.bias);
    CHECK(set(&f, "act", "none") == TT_OK && f.p.act == 2);
    CHECK(set(&f, "act", "relu") == TT_OK && f.p.act == 0);
    CHECK(set(&f, "path", "a b") == TT_OK && strcmp(f.p.path, "a b") == 0);
    CHECK(set(&f, "kernel", "[ 5 ,6, 7 ]") == TT_OK && f.p.kernel.n == 3);
    CHECK(f.p.kernel.v[0] == 5 && f.p.kernel.v[2] == 7);
    CHECK(set(&f, "kernel", "9") == TT_OK && f.p.kernel.n == 1);
    CHECK(set(&f, "kernel", "[]") == TT_OK && f.p.kernel.n == 0);
    CHECK(set(&f, "kernel", "") == TT_OK && f.p.kernel.n == 0);
    const char *const bad[] = {
        "[3",  "3]",   "3,",   ",3",
        "3 3", "[3]x", "[3,]", "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"};
    for (int i = 0; i < 8; i++)
        CHECK_MSG(set(&f, "kernel", bad[i]) == TT_ERR_ARG, "%s", bad[i]);
    tt_arena_destroy(f.arena);
}

TEST(opt_parses_lines_all_or_nothing)
{
    fixture f = start();
    CHECK(tt_opt_parse(table, &f.p, " layers=3\tpath=\"a \\\"b\\\" c\" ",
                       f.arena) == TT_OK);
    CHECK(f.p.layers == 3 && strcmp(f.p.path, "a \"b\" c") == 0);
    CHECK(tt_opt_parse(table, &f.p, "", f.arena) == TT_OK);
    const char *const bad[] = {"layers=9 rate",        "layers=9 =3",
                               "layers=9 x=1",         "layers=9 path=\"open",
                               "layers=9 path=\"a\"b", "layers=9 path=\"\\"};
    for (int i = 0; i < 6; i++)
        CHECK_MSG(tt_opt_parse(table, &f.p, bad[i], f.arena) == TT_ERR_ARG &&
                      f.p.layers == 3,
                  "%s", bad[i]);
    tt_arena_destroy(f.arena);
}

static void check_round_trip(fixture *f, bool all)
{
    tt_str text = {0}, again = {0};
    tt_opt_print(table, &f->p, all, &text);
    fixture g = start();
    CHECK(tt_opt_parse(table, &g.p, tt_str_text(&text), g.arena) == TT_OK);
    CHECK(g.p.layers == f->p.layers && g.p.rate == f->p.rate);
    CHECK(g.p.bias == f->p.bias && g.p.act == f->p.act);
    CHECK(strcmp(g.p.path, f->p.path) == 0);
    CHECK(memcmp(&g.p.kernel, &f->p.kernel, sizeof(g.p.kernel)) == 0);
    tt_opt_print(table, &g.p, all, &again);
    CHECK(strcmp(tt_str_text(&text), tt_str_text(&again)) == 0);
    tt_str_fini(&text);
    tt_str_fini(&again);
    tt_arena_destroy(g.arena);
}

TEST(opt_prints_what_it_reads)
{
    fixture f = start();
    tt_str text = {0};
    tt_opt_print(table, &f.p, false, &text);
    CHECK(strcmp(tt_str_text(&text), "") == 0);
    tt_opt_print(table, &f.p, true, &text);
    CHECK(strcmp(tt_str_text(&text), "layers=12 rate=0.1 bias=true act=gelu "
                                     "path=\"\" kernel=3,3 free=0") == 0);
    check_round_trip(&f, true);
    tt_str_clear(&text);
    f.p = (params){.layers = 7,
                   .rate = 1.0 / 3,
                   .act = 2,
                   .path = "c:\\x \"y\"\n\tz",
                   .free = INT64_MIN};
    tt_opt_print(table, &f.p, false, &text);
    CHECK(strcmp(tt_str_text(&text),
                 "layers=7 rate=0.3333333333333333 bias=false act=none "
                 "path=\"c:\\\\x \\\"y\\\"\\n\\tz\" kernel=[] "
                 "free=-9223372036854775808") == 0);
    check_round_trip(&f, true);
    check_round_trip(&f, false);
    tt_str_fini(&text);
    tt_arena_destroy(f.arena);
}

TEST(opt_finds_by_name)
{
    CHECK(tt_opt_find(table, "act") == &table[3]);
    CHECK(tt_opt_find(table, "acts") == NULL);
    CHECK(tt_opt_find(NULL, "act") == NULL);
    CHECK(tt_opt_set(NULL, NULL, "act", "1", NULL) == TT_ERR_ARG);
}

TEST(nearest_tolerates_typing_errors_only)
{
    const char *const names[] = {"layers", "width", "heads", "learning_rate"};
    CHECK(strcmp(tt_nearest("layesr", names, 4), "layers") == 0);
    CHECK(strcmp(tt_nearest("layer", names, 4), "layers") == 0);
    CHECK(strcmp(tt_nearest("widht", names, 4), "width") == 0);
    CHECK(strcmp(tt_nearest("learning-rat", names, 4), "learning_rate") == 0);
    CHECK(tt_nearest("optimizer", names, 4) == NULL);
    CHECK(tt_nearest("", names, 4) == NULL);
    CHECK(tt_nearest("a", names, 4) == NULL);
    CHECK(tt_nearest("x", names, 0) == NULL);
    char longest[200];
    memset(longest, 'x', sizeof(longest));
    longest[199] = '\0';
    CHECK(tt_nearest(longest, names, 4) == NULL);
}

TEST(opt_survives_every_allocation_failure)
{
    for (int64_t k = 1; k < 50; k++) {
        params p = {0};
        tt_str out = {0};
        tt_alloc_fail_at(k);
        tt_arena *arena = tt_arena_create();
        tt_status status = arena != NULL ? TT_OK : TT_ERR_NOMEM;
        if (status == TT_OK)
            status = tt_opt_defaults(table, &p, arena);
        if (status == TT_OK)
            status = tt_opt_parse(table, &p, "layers=2 path=abc", arena);
        if (status == TT_OK) {
            tt_opt_print(table, &p, k % 2 == 0, &out);
            status = tt_str_status(&out);
        }
        const bool is_done = tt_alloc_count() < k;
        tt_alloc_fail_at(0);
        CHECK(status == (is_done ? TT_OK : TT_ERR_NOMEM));
        tt_str_fini(&out);
        tt_arena_destroy(arena);
        CHECK(tt_alloc_live() == 0);
        if (is_done)
            return;
    }
    CHECK_MSG(false, "never finished");
}
