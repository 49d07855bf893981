// Series of metrics from lines that may be anything.

#include "base/alloc.h"
#include "base/str.h"
#include "store/metrics.h"
#include "test.h"

#include <string.h>

static tt_arena *arena;

static tt_metrics parse(const char *text)
{
    tt_metrics metrics = {0};
    CHECK_OK(tt_metrics_parse(text, (int64_t)strlen(text), arena, &metrics));
    return metrics;
}

TEST(metrics_become_series)
{
    arena = tt_arena_create();
    const tt_metrics m =
        parse("{\"step\":1,\"seconds\":0.5,\"a\":2,\"b\":3}\n"
              "\n"
              "{\"step\":2,\"a\":null,\"text\":\"x\"}\n"
              "{\"step\":2,\"seconds\":1.5,\"val/a\":-1e-3}\n");
    CHECK(m.n == 3 && m.last_step == 2 && m.last_seconds == 1.5);
    CHECK(m.n_bad == 0 && strcmp(m.v[2].name, "val/a") == 0);
    const tt_metric_series *a = tt_metrics_find(&m, "a");
    CHECK(a->n == 2 && a->step[0] == 1 && a->step[1] == 2);
    CHECK(a->value[0] == 2 && isnan(a->value[1]));
    CHECK(tt_metrics_last(&m, "val/a") == -1e-3);
    CHECK(tt_metrics_find(&m, "c") == NULL && isnan(tt_metrics_last(&m, "c")));
    tt_arena_destroy(arena);
    CHECK(tt_alloc_live() == 0);
}

TEST(metrics_leave_out_what_makes_no_sense)
{
    arena = tt_arena_create();
    CHECK(parse("").last_step == -1);
    CHECK(isnan(parse("\n\n").last_seconds));
    const tt_metrics m = parse("[1]\n{\"a\":1}\n{\"step\":-4}\nnull\n"
                               "{\"step\":1.5,\"a\":7}\n{\"step\":\"3\"}\n"
                               "{\"step\":5,\"a\":1}\n{\"step\":6,\"a\"");
    CHECK_MSG(m.n_bad == 7, "%d", (int)m.n_bad);
    CHECK(m.last_step == 5 && m.n == 1 && m.v[0].n == 1);
    tt_arena_destroy(arena);
}

TEST(metrics_with_too_many_names_are_refused)
{
    arena = tt_arena_create();
    tt_str s = {0};
    for (int i = 0; i <= TT_METRICS_NAMES; i++)
        tt_str_addf(&s, "{\"step\":1,\"name%d\":1}\n", i);
    tt_metrics m;
    CHECK(tt_metrics_parse(s.text, s.n, arena, &m) == TT_ERR_ARG);
    CHECK(tt_metrics_read("/none", arena, &m) == TT_ERR_IO);
    tt_str_fini(&s);
    tt_arena_destroy(arena);
}

TEST(metrics_need_bounded_memory)
{
    arena = tt_arena_create();
    tt_str s = {0};
    while (s.n < 12 << 20)
        tt_str_add(&s, "{\"step\":1,\"a\":1,\"b\":1,\"c\":1,\"d\":1}\n");
    const int64_t before = tt_alloc_bytes();
    tt_alloc_peak_reset();
    tt_metrics m;
    CHECK_OK(tt_metrics_parse(s.text, s.n, arena, &m));
    CHECK(tt_alloc_peak() - before <=
          (1 + TT_TEST_SANITIZED) * (s.n + (64 << 20)));
    tt_str_fini(&s);
    tt_arena_destroy(arena);
}
