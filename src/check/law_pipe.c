// law_pipe - schedules of pipelines are valid and are what their papers say.
//
// For each schedule, on 1 to 8 ranks with 1 to 4 chunks and up to 32 micro-batches: the
// shape is refused, or the table passes the check; it needs no more room for messages
// than is found to be the least; it is printed and read back as the same text; bubble
// and micro-batches in flight are those of the formula, where there is one.

#include "check/law.h"
#include "pipe/measure.h"
#include "pipe/text.h"

#include <math.h>
#include <string.h>

enum { RANKS = 8, CHUNKS = 4, MICRO = 32, STEPS = 3, LEAST_COMPARED = 30 };

static const double tolerance = 1e-9;

typedef struct subject {
    tt_law_report *r;
    const tt_pipe_def *def;
    tt_pipe_shape shape;
    int32_t n_tables, n_formulas;
} subject;

#define CHECK_SUBJECT(s, holds, fmt, ...)                                      \
    tt_law_report_check((s)->r, holds, "pipe %s, P=%d V=%d M=%d: " fmt,        \
                        (s)->def->name, (s)->shape.ranks, (s)->shape.chunks,   \
                        (s)->shape.micro, __VA_ARGS__)

static void check_text(subject *s, const tt_pipe *p)
{
    tt_str first = {0}, second = {0};
    tt_pipe *again = NULL;
    tt_pipe_print(p, &first);
    const tt_status status =
        tt_pipe_parse(tt_str_text(&first), first.n, "table", &again);
    if (status == TT_OK)
        tt_pipe_print(again, &second);
    CHECK_SUBJECT(s,
                  status == TT_OK &&
                      strcmp(tt_str_text(&first), tt_str_text(&second)) == 0,
                  "not read back: %s",
                  status == TT_OK ? "as another" : tt_error_message());
    tt_pipe_destroy(again);
    tt_str_fini(&first);
    tt_str_fini(&second);
}

static tt_status check_room(subject *s, const tt_pipe *p)
{
    int32_t least = 0;
    TT_TRY(tt_pipe_least_capacity(p, &least));
    CHECK_SUBJECT(s, tt_pipe_check(p, least) == TT_OK, "room for %d: %s", least,
                  tt_error_message());
    if (least > 1)
        CHECK_SUBJECT(s, tt_pipe_check(p, least - 1) == TT_ERR_ARG,
                      "room for %d would do too", least - 1);
    return TT_OK;
}

static tt_status check_times(subject *s, const tt_pipe *p,
                             const tt_pipe_even *even)
{
    tt_pipe_times *t = NULL;
    double bubble = 0;
    int64_t slots = 0;
    tt_status status = tt_pipe_bubble(s->def, &s->shape, NULL, even, &bubble);
    if (status == TT_OK)
        status = tt_pipe_measure_even(p, even, &t);
    if (status != TT_OK)
        return status;
    if (bubble >= 0) {
        s->n_formulas++;
        CHECK_SUBJECT(s, fabs(t->bubble - bubble) <= tolerance * (1 + bubble),
                      "times %g %g %g: bubble %g, by the formula %g",
                      even->forward, even->input_grad, even->weight_grad,
                      t->bubble, bubble);
    }
    for (int32_t r = 0; r < s->shape.ranks && status == TT_OK; r++) {
        status = tt_pipe_slots(s->def, &s->shape, NULL, r, &slots);
        if (status == TT_OK && slots >= 0)
            CHECK_SUBJECT(s, slots == t->rank[r].n_live,
                          "rank %d has %d in flight, by the formula %d", r,
                          t->rank[r].n_live, (int)slots);
    }
    tt_pipe_times_destroy(t);
    return status;
}

static tt_status check_table(subject *s, const tt_pipe *p)
{
    static const tt_pipe_even even[] = {
        {1, 1, 1}, {1, 0.5, 0.5}, {0.25, 0.75, 0.5}, {1.5, 1, 0.75}, {1, 2, 1}};
    CHECK_SUBJECT(s, tt_pipe_check(p, 0) == TT_OK, "%s", tt_error_message());
    check_text(s, p);
    TT_TRY(check_room(s, p));
    for (size_t i = 0; i < sizeof(even) / sizeof(even[0]); i++)
        TT_TRY(check_times(s, p, &even[i]));
    return TT_OK;
}

static tt_status check_shape(subject *s)
{
    tt_pipe *p = NULL;
    tt_status status = tt_pipe_create(s->def, &s->shape, NULL, &p);
    if (status == TT_ERR_ARG) {
        CHECK_SUBJECT(s, strstr(tt_error_message(), s->def->name) != NULL,
                      "refused without a reason: %s", tt_error_message());
        return TT_OK;
    }
    if (status == TT_OK) {
        s->n_tables++;
        status = check_table(s, p);
    }
    tt_pipe_destroy(p);
    return status;
}

static tt_status check_def(tt_law_report *r, const tt_pipe_def *def)
{
    subject s = {.r = r, .def = def};
    // With a flush all steps are alike.
    s.shape.steps = def->rule == TT_PIPE_FLUSH ? 1 : STEPS;
    for (s.shape.ranks = 1; s.shape.ranks <= RANKS; s.shape.ranks++)
        for (s.shape.chunks = 1; s.shape.chunks <= CHUNKS; s.shape.chunks++)
            for (s.shape.micro = 1; s.shape.micro <= MICRO; s.shape.micro++)
                TT_TRY(check_shape(&s));
    tt_law_report_check(r, def->doc != NULL && def->paper != NULL,
                        "pipe %s: no doc or paper", def->name);
    tt_law_report_check(
        r, s.n_tables >= LEAST_COMPARED && s.n_formulas >= LEAST_COMPARED,
        "pipe %s: only %d tables and %d formulas were compared", def->name,
        s.n_tables, s.n_formulas);
    return TT_OK;
}

static tt_status run(tt_law_report *r)
{
    int n = 0;
    const tt_pipe_def *const *all = tt_pipe_all(&n);
    for (int i = 0; i < n; i++)
        if (tt_law_report_wants(r, all[i]->name))
            TT_TRY(check_def(r, all[i]));
    return TT_OK;
}

const tt_law_def tt_law_pipe = {
    .name = "pipe",
    .doc = "Schedules of pipelines are valid and have the bubble and the "
           "memory of their papers.",
    .run = run,
};
