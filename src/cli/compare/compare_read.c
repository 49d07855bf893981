// compare_read - what the runs of a comparison left behind, as numbers.
//
// Every run logs steps with seconds, loss, exposed communication and bytes. Three
// questions need all runs together: the loss after as many samples, and after as much
// time, as the shortest run had; and how long each took to the loss that the worst of
// them reached. Losses are means of the last few logged points. Time begins with the
// first step: starting a process is not what is compared.

#include "base/file.h"
#include "base/json_read.h"
#include "cli/compare/compare_parts.h"
#include "exchange/diary.h"
#include "store/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS = 3 };
static const int64_t facts_max = 16 << 20;

typedef struct run { // one round of one system
    bool is_there;
    tt_metric_series loss; // seconds since the first step began
    double step, exposed, bytes, memory, units;
    double staleness; // NaN: none
    const char *unit;
} run;

typedef struct reading {
    const tt_compare *of;
    run *run; // [system][round]
} reading;

static run *run_of(const reading *r, int system, int round)
{
    return &r->run[system * r->of->rounds + round];
}

// ---- one run -------------------------------------------------------------

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int64_t n)
{
    if (n == 0)
        return (double)NAN;
    qsort(v, (size_t)n, sizeof *v, by_size);
    return n % 2 == 1 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

// Values of a series without the first quarter, in which caches fill; their number.
static int64_t later(const tt_metrics *m, const char *name, double **v_out,
                     tt_arena *arena)
{
    const tt_metric_series *s = tt_metrics_find(m, name);
    int64_t n = 0;
    *v_out = tt_arena_alloc(arena, ((s != NULL ? s->n : 0) + 1) *
                                       (int64_t)sizeof **v_out);
    if (s == NULL || *v_out == NULL)
        return 0;
    for (int64_t i = s->n > 3 ? s->n / 4 : 0; i < s->n; i++)
        if (isfinite(s->value[i]))
            (*v_out)[n++] = s->value[i];
    return n;
}

// Whether some steps send much more than others, as where replicas average now and then.
static bool is_uneven(const tt_metrics *m, tt_arena *arena)
{
    double *v = NULL;
    const int64_t n = later(m, "comm/bytes", &v, arena);
    const double middle = median(v, n);
    return n > 0 && v[n - 1] > 1.5 * middle; // median() has sorted them
}

// The median, which other work on the machine moves least; where steps are uneven the
// mean, since no single step stands for all.
static double usual(const tt_metrics *m, const char *name, bool is_mean,
                    tt_arena *arena)
{
    double *v = NULL, sum = 0;
    const int64_t n = later(m, name, &v, arena);
    if (n == 0 || !is_mean)
        return median(v, n);
    for (int64_t i = 0; i < n; i++)
        sum += v[i];
    return sum / (double)n;
}

// The loss, with seconds that begin where the first step does. Step 0, before any
// update, stays.
static tt_status read_loss(const tt_metrics *m, run *out, tt_arena *arena)
{
    const tt_metric_series *s = tt_metrics_find(m, "train/loss");
    double began = 0;
    if (s == NULL || s->n < 2)
        return TT_OK;
    float *seconds = tt_arena_alloc(arena, s->n * (int64_t)sizeof *seconds);
    if (seconds == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < s->n; i++)
        if (s->step[i] > 0 && isfinite(s->seconds[i])) {
            began = (double)s->seconds[i] - (double)s->step[i] * out->step;
            break;
        }
    for (int64_t i = 0; i < s->n; i++)
        seconds[i] = (float)fmax(0, (double)s->seconds[i] - began);
    out->loss = *s;
    out->loss.seconds = seconds;
    out->is_there = true;
    return TT_OK;
}

// A file of the run; NULL: it is not there, or is no JSON.
static const tt_json_value *read_json(const char *folder, const char *name,
                                      tt_arena *arena)
{
    tt_str text = {0};
    const tt_json_value *root = NULL;
    const char *path = tt_arena_printf(arena, "%s/%s", folder, name);
    if (path == NULL || !tt_file_exists(path) ||
        tt_file_read(path, facts_max, &text) != TT_OK ||
        tt_json_read(tt_str_text(&text), text.n, path, arena, &root) != TT_OK)
        root = NULL;
    tt_str_fini(&text);
    return root;
}

static void read_facts(const char *folder, run *out, tt_arena *arena)
{
    const tt_json_value *root = read_json(folder, "facts.json", arena);
    if (root == NULL)
        return;
    const char *unit = tt_json_text(tt_json_get(root, "unit"), "samples");
    out->units = tt_json_number(tt_json_get(root, "units"), 0);
    out->memory =
        tt_json_number(tt_json_get(root, "memory_bytes"), (double)NAN);
    out->unit = tt_arena_strdup(arena, unit);
}

// Of workers: the mean over gradients. Of stages without flush: over ranks.
static double read_staleness(const char *folder, tt_arena *arena)
{
    const tt_json_value *workers = read_json(folder, "workers.json", arena);
    const tt_json_value *pipe =
        tt_json_get(read_json(folder, "ranks.json", arena), "pipe");
    const tt_json_value *ranks = tt_json_get(pipe, "ranks");
    double sum = 0;
    int n = 0;
    if (workers != NULL)
        return tt_json_number(tt_json_get(workers, "staleness"), (double)NAN);
    if (!tt_json_truth(tt_json_get(pipe, "endless"), false) || ranks == NULL)
        return (double)NAN;
    for (const tt_json_value *v = ranks->first; v != NULL; v = v->next, n++)
        sum += tt_json_number(tt_json_get(v, "staleness"), 0);
    return n > 0 ? sum / n : (double)NAN;
}

// The part of their time in which workers wait for others; NaN: there are none that go by
// the wall clock.
static double read_waiting(const char *folder, tt_arena *arena)
{
    const tt_json_value *root = read_json(folder, "workers.json", arena);
    const tt_json_value *workers = tt_json_get(root, "workers");
    const char *unit = tt_json_text(tt_json_get(root, "unit"), "");
    double waiting = 0, all = 0;
    if (workers == NULL || strcmp(unit, "seconds") != 0)
        return (double)NAN;
    for (const tt_json_value *w = workers->first; w != NULL; w = w->next) {
        const tt_json_value *time = tt_json_get(w, "time");
        for (int c = 0; c < TT_N_CAUSES; c++) {
            double v = tt_json_number(tt_json_get(time, tt_cause_name[c]), 0);
            all += v;
            if (c != TT_CAUSE_COMPUTING && c != TT_CAUSE_WASTED)
                waiting += v;
        }
    }
    return all > 0 ? waiting / all : (double)NAN;
}

static tt_status read_run(const tt_compare *c, const char *name, run *out)
{
    tt_arena *arena = c->cli->arena;
    tt_metrics m;
    const char *folder = tt_compare_path(c, name, "");
    if (folder == NULL)
        return TT_ERR_NOMEM;
    if (!tt_compare_is_done(c, name) ||
        tt_metrics_read(folder, arena, &m) != TT_OK)
        return TT_OK;
    // Workers that do not wait end a step two at a time, or none for long.
    const double waiting = read_waiting(folder, arena);
    const bool is_mean = !isnan(waiting) || is_uneven(&m, arena);
    out->step = usual(&m, "step_seconds", is_mean, arena);
    out->exposed = isnan(waiting)
                       ? usual(&m, "comm/exposed_seconds", is_mean, arena)
                       : waiting * out->step;
    if (out->exposed > out->step) // medians of their own
        out->exposed = out->step;
    out->bytes = usual(&m, "comm/bytes", is_mean, arena);
    out->staleness = read_staleness(folder, arena);
    read_facts(folder, out, arena);
    // Without samples of a step losses of several cannot be compared.
    return out->units > 0 ? read_loss(&m, out, arena) : TT_OK;
}

// ---- losses --------------------------------------------------------------

// The mean of the last few points up to `end`, whose loss is known there.
static double mean_before(const tt_metric_series *s, int64_t end)
{
    double sum = 0;
    int n = 0;
    for (int64_t i = end; i > 0 && n < POINTS; i--, n++)
        sum += s->value[i];
    return n > 0 ? sum / n : (double)NAN;
}

static double loss_at_step(const tt_metric_series *s, int64_t step)
{
    int64_t end = 0;
    while (end + 1 < s->n && s->step[end + 1] <= step)
        end++;
    return mean_before(s, end);
}

static double loss_at_time(const tt_metric_series *s, double seconds)
{
    int64_t end = 0;
    while (end + 1 < s->n && (double)s->seconds[end + 1] <= seconds)
        end++;
    return mean_before(s, end);
}

static double time_to(const tt_metric_series *s, double loss)
{
    for (int64_t i = 1; i < s->n; i++)
        if (mean_before(s, i) <= loss && (i >= POINTS || s->n <= POINTS))
            return (double)s->seconds[i];
    return (double)NAN;
}

// ---- all of them ---------------------------------------------------------

typedef double number_fn(const run *r, double at);

static double step_of(const run *r, double at)
{
    (void)at;
    return r->step;
}

static double exposed_of(const run *r, double at)
{
    (void)at;
    return r->exposed;
}

// Steps of a federation have other samples than those of the rest.
static double by_units(const run *r, double at)
{
    return r->units > 0
               ? loss_at_step(&r->loss, (int64_t)(at / r->units + 1e-6))
               : (double)NAN;
}

static double by_time(const run *r, double at)
{
    return loss_at_time(&r->loss, at);
}

static double to_loss(const run *r, double at)
{
    return time_to(&r->loss, at);
}

static tt_interval over_rounds(const reading *r, int system, number_fn *number,
                               double at)
{
    double v[64];
    int n = 0;
    for (int k = 0; k < r->of->rounds && n < 64; k++) {
        const run *one = run_of(r, system, k);
        const double value = one->is_there ? number(one, at) : (double)NAN;
        if (isfinite(value))
            v[n++] = value;
    }
    const double mid = median(v, n); // sorted now
    return n > 0 ? (tt_interval){mid, v[0], v[n - 1]}
                 : (tt_interval){(double)NAN, (double)NAN, (double)NAN};
}

// What the shortest run had: tokens or images, and seconds.
static void shortest(const reading *r, double *units_out, double *seconds_out)
{
    double units = (double)INFINITY, seconds = (double)INFINITY;
    for (int i = 0; i < r->of->n * r->of->rounds; i++) {
        const run *one = &r->run[i];
        const tt_metric_series *s = &one->loss;
        if (!one->is_there)
            continue;
        if (one->units > 0)
            units = fmin(units, (double)s->step[s->n - 1] * one->units);
        seconds = fmin(seconds, (double)s->seconds[s->n - 1]);
    }
    *units_out = isfinite(units) ? units : 0;
    *seconds_out = isfinite(seconds) ? seconds : 0;
}

static const run *first_round(const reading *r, int system)
{
    for (int k = 0; k < r->of->rounds; k++)
        if (run_of(r, system, k)->is_there)
            return run_of(r, system, k);
    return NULL;
}

static tt_status add_words(const tt_compare *c, const tt_compare_one *one,
                           tt_compared_system *out)
{
    tt_arena *arena = c->cli->arena;
    const char **field = tt_arena_alloc(arena, 16 * (int64_t)sizeof *field);
    tt_settings set = {0};
    tt_str text = {0};
    *out = (tt_compared_system){.name = one->name, .refusal = one->refusal};
    if (!one->is_known)
        return TT_OK;
    if (field == NULL)
        return TT_ERR_NOMEM;
    for (int f = 0; tt_system_fields[f] != NULL; f++)
        field[f] = tt_system_field(&one->system, tt_system_fields[f]);
    out->field = field;
    out->about = one->system.about;
    out->lacks = one->system.lacks;
    out->source = tt_arena_printf(arena, "%s, %lld", one->system.source,
                                  (long long)one->system.year);
    if (tt_system_settings(&one->system, c->ranks, &c->cli->settings, arena,
                           &set) != TT_OK)
        set = one->system.settings;
    for (int64_t i = 0; i < set.n; i++)
        tt_str_addf(&text, "%s%s=%s", i > 0 ? " " : "", set.v[i].key,
                    set.v[i].value);
    out->settings = tt_str_keep(&text, arena);
    return out->source != NULL && out->settings != NULL ? TT_OK : TT_ERR_NOMEM;
}

static int rounds_of(const reading *r, int system)
{
    int n = 0;
    for (int k = 0; k < r->of->rounds; k++)
        n += run_of(r, system, k)->is_there;
    return n;
}

// Why a system has no numbers though nothing refused it.
static const char *missing(const tt_compare *c, const tt_compare_one *one)
{
    tt_arena *arena = c->cli->arena;
    const char *name = tt_arena_printf(arena, "%s-1", one->name);
    if (name == NULL || !tt_compare_is_done(c, name))
        return "it has not come to its end yet";
    return tt_arena_printf(arena,
                           "%s/%s has lost files or parts of them; once that "
                           "folder is removed, it is made again",
                           c->folder, name);
}

static tt_status fill(const reading *r, int i, double units, double seconds,
                      tt_compared_system *out)
{
    const tt_compare_one *one = &r->of->one[i];
    const run *first = first_round(r, i);
    TT_TRY(add_words(r->of, one, out));
    if (first == NULL) {
        if (out->refusal == NULL)
            out->refusal = missing(r->of, one);
        return out->refusal != NULL ? TT_OK : TT_ERR_NOMEM;
    }
    out->failure = out->refusal; // of a later round
    out->refusal = NULL;
    out->n_rounds = rounds_of(r, i);
    out->is_drawn = tt__compare_is_drawn(r->of, one);
    out->loss = &first->loss;
    out->units = first->units;
    out->bytes = first->bytes;
    out->memory = first->memory;
    out->staleness = first->staleness;
    out->step = over_rounds(r, i, step_of, 0);
    out->exposed = over_rounds(r, i, exposed_of, 0);
    out->at_samples = over_rounds(r, i, by_units, units);
    out->at_time = over_rounds(r, i, by_time, seconds);
    const char *name =
        tt_arena_printf(r->of->cli->arena, "%s-trace", one->name);
    if (name == NULL)
        return TT_ERR_NOMEM;
    return tt_compare_lanes(r->of, name, out);
}

static tt_status read_all(const reading *r)
{
    for (int i = 0; i < r->of->n; i++)
        for (int k = 0; k < r->of->rounds; k++) {
            const char *name = tt_arena_printf(r->of->cli->arena, "%s-%d",
                                               r->of->one[i].name, k + 1);
            if (name == NULL)
                return TT_ERR_NOMEM;
            TT_TRY(read_run(r->of, name, run_of(r, i, k)));
        }
    return TT_OK;
}

tt_status tt_compare_read(const tt_compare *c, tt_compared *out)
{
    tt_arena *arena = c->cli->arena;
    reading r = {.of = c};
    double worst = -(double)INFINITY;
    r.run = tt_arena_alloc(arena,
                           (int64_t)c->n * c->rounds * (int64_t)sizeof *r.run);
    tt_compared_system *s = tt_arena_alloc(arena, c->n * (int64_t)sizeof *s);
    if (r.run == NULL || s == NULL)
        return TT_ERR_NOMEM;
    memset(r.run, 0, (size_t)(c->n * c->rounds) * sizeof *r.run);
    TT_TRY(read_all(&r));
    shortest(&r, &out->units, &out->seconds);
    for (int i = 0; i < c->n; i++) {
        TT_TRY(fill(&r, i, out->units, out->seconds, &s[i]));
        const run *first = first_round(&r, i);
        if (first == NULL)
            continue;
        out->unit = first->unit;
        if (s[i].at_samples.mid > worst)
            worst = s[i].at_samples.mid;
    }
    out->target = !isnan(c->until_loss) ? c->until_loss
                  : isfinite(worst)     ? ceil(worst * 1000) / 1000
                                        : (double)NAN;
    for (int i = 0; i < c->n; i++)
        s[i].to_loss = over_rounds(&r, i, to_loss, out->target);
    out->n = c->n;
    out->system = s;
    out->field_name = tt_system_fields;
    return TT_OK;
}
