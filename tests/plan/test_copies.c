// Copies between the device and the host: after which step each of them ends.

#include "backend/backend.h"
#include "ops/ops.h"
#include "plan/plan.h"
#include "test.h"

#include <string.h>

// "reload:3": this step is a copy, and ends after step 3.
static void describe(const tt_plan *plan, tt_str *out)
{
    for (int32_t s = 0; s < plan->n_steps; s++) {
        int32_t end = -1;
        for (int32_t t = 0; t < plan->n_steps; t++)
            for (int32_t c = plan->step[t].ends; c >= 0;
                 c = plan->step[c].next_end)
                end = c == s ? t : end;
        CHECK((end >= 0) == plan->step[s].is_beside);
        tt_str_addf(out, "%d %s", s, plan->step[s].op->name);
        if (end >= 0)
            tt_str_addf(out, ":%d", end);
        tt_str_add(out, "\n");
    }
}

static void check(const char *text, const char *want)
{
    tt_graph *g = NULL;
    tt_backend *backend = NULL;
    tt_plan *plan = NULL;
    tt_str steps = {0};
    CHECK_OK(tt_graph_parse(text, tt_op_find, &g));
    CHECK_OK(tt_backend_open(tt_backend_find("ref"), NULL, &backend));
    CHECK_OK(tt_plan_lower(g, &backend->target, &(tt_lower_options){0}, &plan));
    CHECK_OK(tt_plan_verify(plan));
    describe(plan, &steps);
    CHECK_MSG(strcmp(tt_str_text(&steps), want) == 0, "\n%s",
              tt_str_text(&steps));
    tt_str_fini(&steps);
    tt_plan_destroy(plan);
    tt_backend_close(backend);
    tt_graph_destroy(g);
}

// What a sum replaces in its place has been copied before.
TEST(what_comes_back_comes_until_it_is_read)
{
    check("tutti-graph 1\n"
          "%0 = input \"x\" f32 [n:8]\n"
          "%1 = optim \"a\" f32 [n:8] const 0\n"
          "%2 = optim \"b\" f32 [n:8] const 0\n"
          "%3 = reload(%1) update 0 \"a\" f32 [n:8]\n"
          "%4 = reload(%2) update 0 \"b\" f32 [n:8]\n"
          "%5 = relu(%0) update 0 \"y\" f32 [n:8]\n"
          "%6 = add(%3 %5) update 0 \"a\" f32 [n:8]\n"
          "%7 = offload(%6) update 0 \"a\" f32 [n:8] updates %1\n"
          "%8 = add(%6 %4) update 0 \"b\" f32 [n:8]\n"
          "%9 = offload(%8) update 0 \"b\" f32 [n:8] updates %2\n"
          "%10 = relu(%5) update 0 \"z\" f32 [n:8]\n"
          "output \"z\" %10\n",
          "0 reload:2\n1 reload:4\n2 relu\n3 add\n4 offload:4\n5 add\n6 "
          "offload:7\n7 relu\n");
}

// Sums of a value with itself are not made in its place, so what they read may still
// be on its way.
TEST(what_goes_is_gone_before_the_next_but_one)
{
    check("tutti-graph 1\n"
          "%0 = input \"x\" f32 [n:8]\n"
          "%1 = add(%0 %0) forward 0 \"a\" f32 [n:8]\n"
          "%2 = offload(%1) forward 0 \"a\" f32 [n:8]\n"
          "%3 = add(%1 %1) forward 0 \"b\" f32 [n:8]\n"
          "%4 = offload(%3) forward 0 \"b\" f32 [n:8]\n"
          "%5 = offload(%3) forward 0 \"b\" f32 [n:8]\n"
          "%6 = add(%3 %3) forward 0 \"c\" f32 [n:8]\n"
          "%7 = offload(%6) forward 0 \"c\" f32 [n:8]\n"
          "%8 = relu(%6) forward 0 \"d\" f32 [n:8]\n"
          "%9 = relu(%0) backward 0 \"e\" f32 [n:8]\n"
          "%10 = reload(%2) backward 0 \"a\" f32 [n:8]\n"
          "%11 = reload(%4) backward 0 \"b\" f32 [n:8]\n"
          "%12 = reload(%5) backward 0 \"b\" f32 [n:8]\n"
          "%13 = add(%8 %9) backward 0 \"d\" f32 [n:8]\n"
          "%14 = add(%10 %13) backward 0 \"a\" f32 [n:8]\n"
          "%15 = reload(%7) backward 0 \"c\" f32 [n:8]\n"
          "%16 = add(%11 %14) backward 0 \"b\" f32 [n:8]\n"
          "%17 = add(%12 %16) backward 0 \"b\" f32 [n:8]\n"
          "%18 = add(%15 %17) backward 0 \"c\" f32 [n:8]\n"
          "output \"y\" %18\n",
          "0 add\n1 offload:5\n2 add\n3 offload:7\n4 offload:7\n5 add\n6 "
          "offload:6\n7 relu\n"
          "8 relu\n9 reload:12\n10 reload:14\n11 reload:15\n12 add\n13 add\n14 "
          "reload:16\n"
          "15 add\n16 add\n17 add\n");
}
