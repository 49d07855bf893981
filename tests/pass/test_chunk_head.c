// Which losses are computed in chunks, and what becomes of what is around them.

#include "pass/chunk.h"
#include "pass/rewrite.h"
#include "test.h"

#include <string.h>

static const tt_chunk_params two = {2, ""};

#define FORWARD                                                                \
    "tutti-graph 1\n"                                                          \
    "%0 = input 'x' f32 [batch:4 in:3]\n"                                      \
    "%1 = input 'y' i32 [batch:4]\n"                                           \
    "%2 = param 'w' f32 [in:3 classes:5] const 1\n"                            \
    "%3 = matmul(%0 %2) forward 0 'head' f32 [batch:4 classes:5]\n"            \
    "%4 %5 %6 = cross_entropy(%3 %1) forward 0 'loss' f32 [], f32 [], f32 "    \
    "[batch:4]\n"

#define BACKWARD                                                               \
    FORWARD                                                                    \
    "%7 = fill(%4) backward 0 'loss' f32 []\n"                                 \
    "%8 = cross_entropy_grad(%3 %1 %6 %7) backward 0 'loss' f32 [batch:4 "     \
    "classes:5]\n"                                                             \
    "%9 = matmul(%8 %2) transpose_b=true; backward 0 'head' f32 [batch:4 "     \
    "in:3]\n"                                                                  \
    "%10 = matmul_grad_w(%0 %8 %2) weight_grad 0 'head' f32 [in:3 "            \
    "classes:5]\n"

// One piece of the forward pass.
#define STRIPES                                                                \
    "tutti-graph 1\n"                                                          \
    "%0 = input 'x' f32 [batch:4 in:3]\n"                                      \
    "%1 = input 'y' i32 [batch:4]\n"                                           \
    "%2 = param 'w' f32 [in:3 classes:5] const 1\n"                            \
    "%3 = stripe(%0) parts=2; forward 0 'head' f32 [batch:2 in:3]\n"           \
    "%4 = stripe(%1) parts=2; forward 0 'head' i32 [batch:2]\n"                \
    "%5 = matmul(%3 %2) forward 0 'head' f32 [batch:2 classes:5]\n"            \
    "%6 %7 %8 = cross_entropy(%5 %4) forward 0 'loss' f32 [], f32 [], f32 "    \
    "[batch:2]\n"

TEST(a_loss_without_gradients_and_hits_has_chunks)
{
    static const char want[] = STRIPES
        "%9 = stripe(%0) part=1 parts=2; forward 0 'head' f32 [batch:2 in:3]\n"
        "%10 = stripe(%1) part=1 parts=2; forward 0 'head' i32 [batch:2]\n"
        "%11 = matmul(%9 %2) forward 0 'head' f32 [batch:2 classes:5]\n"
        "%12 %13 %14 = cross_entropy(%11 %10) forward 0 'loss' f32 [], f32 [], "
        "f32 [batch:2]\n"
        "%15 = add(%6 %12) forward 0 'loss' f32 []\n"
        "%16 = add(%7 %13) forward 0 'loss' f32 []\n"
        "output 'loss' %15\n";
    rewrite_check("chunk", &two, FORWARD "output 'loss' %4\n", want);
}

#define GRADIENTS(offer)                                                       \
    STRIPES                                                                    \
    "%9 = fill(%6) forward 0 'loss' f32 []\n"                                  \
    "%10 = cross_entropy_grad(%5 %4 %8 %9) forward 0 'loss' f32 [batch:2 "     \
    "classes:5]\n"                                                             \
    "%11 = matmul(%10 %2) transpose_b=true; forward 0 'head' f32 [batch:2 "    \
    "in:3]\n"                                                                  \
    "%12 = matmul_grad_w(%3 %10 %2) forward 0 'head' f32 [in:3 classes:5]\n"   \
    "%13 = stripe(%0) part=1 parts=2; forward 0 'head' f32 [batch:2 in:3]\n"   \
    "%14 = stripe(%1) part=1 parts=2; forward 0 'head' i32 [batch:2]\n"        \
    "%15 = matmul(%13 %2) forward 0 'head' f32 [batch:2 classes:5]\n"          \
    "%16 %17 %18 = cross_entropy(%15 %14) forward 0 'loss' f32 [], f32 [], "   \
    "f32 [batch:2]\n"                                                          \
    "%19 = fill(%16) forward 0 'loss' f32 []\n"                                \
    "%20 = cross_entropy_grad(%15 %14 %18 %19) forward 0 'loss' f32 [batch:2 " \
    "classes:5]\n"                                                             \
    "%21 = matmul(%20 %2) transpose_b=true; forward 0 'head' f32 [batch:2 "    \
    "in:3]\n"                                                                  \
    "%22 = matmul_grad_w(%13 %20 %2) forward 0 'head' f32 [in:3 classes:5]\n"  \
    "%23 = add(%6 %16) forward 0 'loss' f32 []\n"                              \
    "%24 = add(%7 %17) forward 0 'loss' f32 []\n"                              \
    "%25 = weave(%11 %21) forward 0 'head' f32 [batch:4 in:3]\n" offer

TEST(an_offer_adds_the_terms_of_chunks)
{
    rewrite_check("chunk", &two,
                  BACKWARD "%11 = offer(%2 %10) weight_grad 0 'head' f32 [in:3 "
                           "classes:5]\n"
                           "output 'dx' %9\n"
                           "grad %2 %11\n",
                  GRADIENTS("%26 = fill(%23) backward 0 'loss' f32 []\n"
                            "%27 = offer(%2 %12 %22) weight_grad 0 'head' f32 "
                            "[in:3 classes:5]\n"
                            "output 'dx' %25\n"
                            "grad %2 %27\n"));
}

// Somebody else reads the gradient: as an operand, from outside, as a gradient.
TEST(terms_of_chunks_are_added_for_everybody_else)
{
    rewrite_check(
        "chunk", &two,
        BACKWARD "%11 = scale(%10) by=2; update 0 'twice' f32 [in:3 "
                 "classes:5]\n"
                 "output 'twice' %11\n",
        GRADIENTS("%26 = add(%12 %22) forward 0 'head' f32 [in:3 classes:5]\n"
                  "%27 = fill(%23) backward 0 'loss' f32 []\n"
                  "%28 = scale(%26) by=2; update 0 'twice' f32 [in:3 "
                  "classes:5]\n"
                  "output 'twice' %28\n"));
    rewrite_check(
        "chunk", &two, BACKWARD "output 'loss' %4\noutput 'dw' %10\n",
        GRADIENTS("%26 = add(%12 %22) forward 0 'head' f32 [in:3 classes:5]\n"
                  "%27 = fill(%23) backward 0 'loss' f32 []\n"
                  "output 'loss' %23\n"
                  "output 'dw' %26\n"));
    rewrite_check(
        "chunk", &two, BACKWARD "output 'loss' %4\ngrad %2 %10\n",
        GRADIENTS("%26 = add(%12 %22) forward 0 'head' f32 [in:3 classes:5]\n"
                  "%27 = fill(%23) backward 0 'loss' f32 []\n"
                  "output 'loss' %23\n"
                  "grad %2 %26\n"));
}

// Loss scaling: the factor is a state that comes after the loss.
TEST(a_gradient_may_begin_with_what_lies_after_the_loss)
{
    tt_graph *g = rewrite(
        "chunk", &two,
        FORWARD "%7 = optim 'factor' f32 [] const 2\n"
                "%8 = mul(%4 %7) forward 0 'loss' f32 []\n"
                "%9 = fill(%8) backward 0 'loss' f32 []\n"
                "%10 = mul(%9 %7) backward 0 'loss' f32 []\n"
                "%11 = cross_entropy_grad(%3 %1 %6 %10) backward 0 'loss' f32 "
                "[batch:4 classes:5]\n"
                "%12 = bias_grad(%11 _) weight_grad 0 'head' f32 [classes:5]\n"
                "output 'db' %12\n");
    CHECK_MSG(g != NULL, "%s", tt_error_message());
    tt_graph_destroy(g);
}

TEST(leaves_after_the_last_node_are_kept)
{
    tt_graph *g = rewrite("chunk", &two,
                          FORWARD "%7 = param 'last' f32 [n:2] const 1\n"
                                  "output 'loss' %4\n");
    CHECK(g != NULL && tt_is(tt_graph_find(g, "last")));
    tt_graph_destroy(g);
}

static void check_refused(const char *text)
{
    tt_graph *g = rewrite("chunk", &two, text);
    CHECK_MSG(g == NULL, "has chunks:\n%s", text);
    CHECK(strstr(tt_error_message(), "not that of a plain product") != NULL);
}

TEST(a_loss_whose_logits_others_read_is_refused)
{
    check_refused(FORWARD "output 'logits' %3\noutput 'loss' %4\n");
    check_refused(FORWARD "output 'loss' %4\noutput 'logits' %3\n");
    check_refused(FORWARD "output 'loss' %4\noutput 'lse' %6\n");
    check_refused(BACKWARD "output 'loss' %4\noutput 'dlogits' %8\n");
    check_refused(FORWARD "%7 = relu(%3) forward 0 'r' f32 [batch:4 "
                          "classes:5]\n"
                          "output 'loss' %4\n");
    check_refused(BACKWARD "%11 = add(%8 %3) forward 0 'r' f32 [batch:4 "
                           "classes:5]\n"
                           "output 'loss' %4\n");
    check_refused(BACKWARD "%11 = matmul(%2 %8) transpose_b=true; forward 0 "
                           "'r' f32 [in:3 batch:4]\n"
                           "output 'loss' %4\n");
    check_refused(FORWARD "%7 = scale(%6) by=2; forward 0 'r' f32 [batch:4]\n"
                          "output 'loss' %4\n");
}

// A head has one of each: what a second one makes would be forgotten.
TEST(two_of_a_kind_are_refused)
{
    check_refused(FORWARD "%7 %8 %9 = cross_entropy(%3 %1) forward 0 'again' "
                          "f32 [], f32 [], f32 [batch:4]\n"
                          "output 'loss' %4\n");
    check_refused(FORWARD "%7 = correct(%3 %1) forward 0 'hits' f32 []\n"
                          "%8 = correct(%3 %1) forward 0 'again' f32 []\n"
                          "output 'loss' %4\n");
    check_refused(BACKWARD "%11 = cross_entropy_grad(%3 %1 %6 %7) backward 0 "
                           "'again' f32 [batch:4 classes:5]\n"
                           "output 'loss' %4\n");
    check_refused(BACKWARD "%11 = matmul(%8 %2) transpose_b=true; backward 0 "
                           "'again' f32 [batch:4 in:3]\n"
                           "output 'loss' %4\n");
    check_refused(BACKWARD "%11 = matmul_grad_w(%0 %8 %2) weight_grad 0 "
                           "'again' f32 [in:3 classes:5]\n"
                           "output 'loss' %4\n");
}

// Gradients are computed with the loss, before all of it is known.
#define SEEDED(seed)                                                           \
    FORWARD "%7 = " seed " backward 0 'loss' f32 []\n"                         \
            "%8 = cross_entropy_grad(%3 %1 %6 %7) backward 0 'loss' f32 "      \
            "[batch:4 classes:5]\n"                                            \
            "output 'loss' %4\n"

TEST(a_gradient_that_begins_with_the_loss_is_refused)
{
    check_refused(SEEDED("scale(%4) by=2;"));
    check_refused(SEEDED("add(%4 %5)"));
    check_refused(SEEDED("relu_grad(%5 %4)"));
    check_refused(SEEDED("reduce(%6)"));
}

// The weight comes late a second time: it was not kept.
TEST(a_gradient_that_reads_what_comes_late_is_refused)
{
    check_refused(FORWARD
                  "%7 = fill(%4) backward 0 'loss' f32 []\n"
                  "%8 = cross_entropy_grad(%3 %1 %6 %7) backward 0 'loss' f32 "
                  "[batch:4 classes:5]\n"
                  "%9 = fetch(%2) backward 0 'head' f32 [in:3 classes:5]\n"
                  "%10 = matmul(%8 %9) transpose_b=true; backward 0 'head' f32 "
                  "[batch:4 in:3]\n"
                  "output 'dx' %10\n");
}
