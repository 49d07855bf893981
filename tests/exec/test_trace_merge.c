// The merged trace is JSON that viewers read: ranks as processes, times by one clock.

#include "base/json_read.h"
#include "exec/trace_merge.h"
#include "exec/world.h"
#include "test.h"

#include <string.h>

static const tt_json_value *parse(tt_arena *arena, const tt_str *text)
{
    const tt_json_value *root = NULL;
    CHECK_OK(tt_str_status(text));
    CHECK_OK(tt_json_read(tt_str_text(text), text->n, "trace", arena, &root));
    return tt_json_get(root, "traceEvents");
}

// The first event of that name in the rank's row, or NULL.
static const tt_json_value *find(const tt_json_value *events, int64_t rank,
                                 int64_t row, const char *name)
{
    for (const tt_json_value *v = events->first; v != NULL; v = v->next)
        if (tt_json_int(tt_json_get(v, "pid"), -1) == rank &&
            tt_json_int(tt_json_get(v, "tid"), -1) == row &&
            strcmp(tt_json_text(tt_json_get(v, "name"), ""), name) == 0)
            return v;
    return NULL;
}

static double number(const tt_json_value *event, const char *key)
{
    CHECK(event != NULL);
    return tt_json_number(tt_json_get(event, key), (double)NAN);
}

TEST(trace_of_two_ranks_has_one_clock)
{
    const tt_wire_event flight[] = {
        {7, "bucket \"0\"", 100.001, 100.002, 100.005, 100.003, 0.002, 4096},
        {8, "bucket 1", 100.006, 100.006, 100.007, 100.008, 0, 64},
    };
    const tt_trace_mark mark[] = {{"step", 3, 100.0, 100.01}};
    tt_trace_part part = {.rank = 0,
                          .host = "a",
                          .flight = flight,
                          .n_flights = 2,
                          .mark = mark,
                          .n_marks = 1,
                          .zero = 100,
                          .max_events = 1000};
    tt_arena *arena = tt_arena_create();
    tt_str text = {0};
    tt_trace_begin(&text);
    tt_trace_add(&part, &text);
    tt_trace_next(&text);
    part.rank = 1; // the same events by a clock that is 40 s behind
    part.host = "b";
    part.zero = 60;
    tt_trace_add(&part, &text);
    tt_trace_end(&text);
    const tt_json_value *events = parse(arena, &text);
    const tt_json_value *first = find(events, 0, 2, "bucket \"0\"");
    CHECK(fabs(number(first, "ts") - 2000) < 0.01);
    CHECK(fabs(number(first, "dur") - 3000) < 0.01);
    CHECK(number(tt_json_get(first, "args"), "bytes") == 4096);
    const tt_json_value *wait = find(events, 0, 1, "wait");
    CHECK(fabs(number(wait, "ts") - 3000) < 0.01);
    CHECK(fabs(number(wait, "dur") - 2000) < 0.01);
    CHECK(number(find(events, 0, 0, "step 3"), "dur") > 9999);
    const tt_json_value *other = find(events, 1, 2, "bucket 1");
    CHECK(fabs(number(other, "ts") - 40006000) < 0.01);
    CHECK(find(events, 1, 0, "process_name") != NULL);
    CHECK(strstr(tt_str_text(&text), "rank 1 (b)") != NULL);
    CHECK(find(events, 1, 2, "thread_name") != NULL);
    tt_str_fini(&text);
    tt_arena_destroy(arena);
}

TEST(trace_keeps_the_newest_events)
{
    world w;
    tt_arena *arena = tt_arena_create();
    tt_str text = {0};
    world_init(&w);
    world_build_mlp(&w.b, 2);
    world_open(&w, NULL, NULL);
    for (int i = 0; i < 20; i++)
        CHECK_OK(tt_exec_run(w.exec, world_feed_rows, &w));
    const tt_trace_part part = {.host = "a", .exec = w.exec, .max_events = 160};
    tt_trace_begin(&text);
    tt_trace_add(&part, &text);
    tt_trace_end(&text);
    int64_t n = 0;
    double last = 0;
    const tt_json_value *events = parse(arena, &text);
    for (const tt_json_value *v = events->first; v != NULL; v = v->next) {
        if (strcmp(tt_json_text(tt_json_get(v, "ph"), ""), "X") != 0)
            continue;
        n++;
        CHECK(number(v, "ts") >= last && number(v, "dur") >= 0);
        last = number(v, "ts");
    }
    CHECK_MSG(n == 100, "%lld events", (long long)n);
    tt_str_fini(&text);
    tt_arena_destroy(arena);
    world_fini(&w);
}
