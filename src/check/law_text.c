// law_text - a graph that is printed and read back prints as the same text. Every
// operator has a doc, a cost and samples, as other laws rely on these.

#include "check/law.h"
#include "check/sample.h"
#include "ops/ops.h"

#include <string.h>

static void round_trip(tt_law_report *r, const char *name, const tt_graph *g)
{
    tt_str first = {0}, second = {0};
    tt_graph *again = NULL;
    tt_graph_print(g, &first);
    const tt_status status =
        tt_graph_parse(tt_str_text(&first), tt_op_find, &again);
    tt_law_report_check(r, status == TT_OK, "text %s: not read back: %s", name,
                        tt_error_message());
    if (status == TT_OK) {
        tt_graph_print(again, &second);
        tt_law_report_check(
            r, strcmp(tt_str_text(&first), tt_str_text(&second)) == 0,
            "text %s: reads back as another graph", name);
    }
    tt_graph_destroy(again);
    tt_str_fini(&first);
    tt_str_fini(&second);
}

static tt_status run(tt_law_report *r)
{
    int n = 0;
    const tt_op_def *const *ops = tt_op_all(&n);
    for (int i = 0; i < n; i++) {
        if (!tt_law_report_wants(r, ops[i]->name))
            continue;
        // An operator from outside may come without samples.
        const bool has_samples =
            ops[i]->kernel != NULL ||
            (ops[i]->samples != NULL && ops[i]->samples[0].in[0] != NULL);
        tt_law_report_check(
            r, ops[i]->doc != NULL && has_samples && ops[i]->cost != NULL,
            "text %s: no doc, cost or samples", ops[i]->name);
        for (const tt_sample *s = ops[i]->samples; s && s->in[0]; s++) {
            tt_case c;
            const tt_status status =
                tt_case_init(&c, ops[i], s, TT_F64, NULL, NULL);
            tt_law_report_check(r, status == TT_OK, "text %s: sample %d: %s",
                                ops[i]->name, (int)(s - ops[i]->samples),
                                tt_error_message());
            if (status != TT_OK)
                continue;
            round_trip(r, ops[i]->name, c.b.graph);
            tt_case_fini(&c);
        }
    }
    return TT_OK;
}

const tt_law_def tt_law_text = {
    .name = "text",
    .doc = "A graph printed and read back is the same graph.",
    .run = run,
};
