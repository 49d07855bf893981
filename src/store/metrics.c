// metrics - reads metrics.jsonl into series. See metrics.h.
//
// The text is read twice: once to count the points of each name, once to fill
// arrays of exactly that size. That costs time, but no array is grown and copied,
// and the memory is known before it is allocated, so that a hostile file can be
// refused.

#include "store/metrics.h"

#include "base/json_read.h"
#include "store/run.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum { EXTRA = 64 << 20, LINE_MAX_BYTES = 1 << 20 };

typedef struct slot { // a series being filled
    char *name;
    int64_t n, capacity; // capacity: what the first reading counted
    int64_t *step;
    double *value;
    float *seconds;
} slot;

typedef struct reader {
    tt_arena *arena; // of the result
    slot slot[TT_METRICS_NAMES];
    int n;
    bool is_filling;
    int64_t last_step, n_bad, n_points;
    double last_seconds;
} reader;

static slot *find_slot(reader *r, const char *name)
{
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->slot[i].name, name) == 0)
            return &r->slot[i];
    return NULL;
}

static tt_status add_slot(reader *r, const char *name, slot **out)
{
    if (r->n == TT_METRICS_NAMES)
        return tt_fail(TT_ERR_ARG, "metrics.jsonl has more than %d names",
                       TT_METRICS_NAMES);
    slot *s = &r->slot[r->n];
    s->name = tt_arena_strdup(r->arena, name);
    if (s->name == NULL)
        return TT_ERR_NOMEM;
    r->n++;
    *out = s;
    return TT_OK;
}

static bool is_number(const tt_json_value *v)
{
    return v->type == TT_JSON_NUMBER || v->type == TT_JSON_NULL;
}

// Counts a point in the first reading and stores it in the second.
static tt_status add_point(reader *r, int64_t step, float seconds,
                           const tt_json_value *v)
{
    slot *s = find_slot(r, v->key);
    if (!r->is_filling) {
        if (s == NULL)
            TT_TRY(add_slot(r, v->key, &s));
        s->capacity++;
        r->n_points++;
    } else if (s != NULL && s->n < s->capacity) {
        s->step[s->n] = step;
        s->seconds[s->n] = seconds;
        s->value[s->n++] = tt_json_number(v, (double)NAN);
    }
    return TT_OK;
}

// One line: "step" and "seconds" are the place, every other number is a metric.
static tt_status add_line(reader *r, const tt_json_value *line)
{
    const int64_t step = tt_json_int(tt_json_get(line, "step"), -1);
    if (step < 0) {
        r->n_bad++;
        return TT_OK;
    }
    r->last_step = step;
    const tt_json_value *seconds = tt_json_get(line, "seconds");
    const float at = (float)tt_json_number(seconds, (double)NAN);
    r->last_seconds = tt_json_number(seconds, r->last_seconds);
    for (const tt_json_value *v = line->first; v != NULL; v = v->next)
        if (is_number(v) && strcmp(v->key, "step") != 0 &&
            strcmp(v->key, "seconds") != 0)
            TT_TRY(add_point(r, step, at, v));
    return TT_OK;
}

// The JSON tree of a line lives only as long as the line is read.
static tt_status read_line(reader *r, const char *text, int64_t n)
{
    const tt_json_value *line = NULL;
    tt_arena *arena = tt_arena_create();
    if (arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "metrics.jsonl: out of memory");
    tt_status status = TT_ERR_ARG;
    if (n <= LINE_MAX_BYTES)
        status = tt_json_read(text, n, "metrics.jsonl", arena, &line);
    if (status == TT_OK) {
        status = add_line(r, line);
    } else if (status != TT_ERR_NOMEM) {
        status = TT_OK;
        r->n_bad++;
    }
    tt_arena_destroy(arena);
    return status;
}

static tt_status read_lines(reader *r, const char *text, int64_t n)
{
    r->last_step = -1;
    r->last_seconds = (double)NAN;
    r->n_bad = 0;
    while (n > 0) {
        const char *stop = memchr(text, '\n', (size_t)n);
        const int64_t bytes = stop != NULL ? stop - text : n;
        if (bytes > 0)
            TT_TRY(read_line(r, text, bytes));
        n -= bytes + 1;
        text += bytes + 1;
    }
    return TT_OK;
}

static tt_status make_room(reader *r, int64_t n)
{
    const int64_t point = sizeof(int64_t) + sizeof(double) + sizeof(float);
    if (r->n_points * point > n + EXTRA / 2)
        return tt_fail(TT_ERR_ARG,
                       "metrics.jsonl would need more memory than its own "
                       "size and %d MiB",
                       EXTRA >> 20);
    for (int i = 0; i < r->n; i++) {
        slot *s = &r->slot[i];
        s->step = tt_arena_alloc(r->arena, s->capacity * 8);
        s->value = tt_arena_alloc(r->arena, s->capacity * 8);
        s->seconds = tt_arena_alloc(r->arena, s->capacity * 4);
        if (s->step == NULL || s->value == NULL || s->seconds == NULL)
            return TT_ERR_NOMEM;
    }
    r->is_filling = true;
    return TT_OK;
}

tt_status tt_metrics_parse(const char *text, int64_t n, tt_arena *arena,
                           tt_metrics *out)
{
    reader r = {.arena = arena};
    TT_TRY(read_lines(&r, text, n));
    TT_TRY(make_room(&r, n));
    TT_TRY(read_lines(&r, text, n));
    tt_metric_series *v = tt_arena_alloc(arena, r.n * (int64_t)sizeof(*v));
    if (v == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < r.n; i++) {
        const slot *s = &r.slot[i];
        v[i] = (tt_metric_series){s->name, s->n, s->step, s->value, s->seconds};
    }
    *out = (tt_metrics){
        .n = r.n,
        .v = v,
        .last_step = r.last_step,
        .last_seconds = r.last_seconds,
        .n_bad = r.n_bad,
    };
    return TT_OK;
}

tt_status tt_metrics_read(const char *folder, tt_arena *arena, tt_metrics *out)
{
    tt_str text = {0};
    tt_status status = tt_run_read(folder, "metrics.jsonl", &text);
    if (status == TT_OK)
        status = tt_metrics_parse(tt_str_text(&text), text.n, arena, out);
    tt_str_fini(&text);
    return status;
}

const tt_metric_series *tt_metrics_find(const tt_metrics *metrics,
                                        const char *name)
{
    for (int i = 0; i < metrics->n; i++)
        if (strcmp(metrics->v[i].name, name) == 0)
            return &metrics->v[i];
    return NULL;
}

double tt_metrics_last(const tt_metrics *metrics, const char *name)
{
    const tt_metric_series *s = tt_metrics_find(metrics, name);
    return s != NULL && s->n > 0 ? s->value[s->n - 1] : (double)NAN;
}
