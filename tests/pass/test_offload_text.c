// What the pass offload makes of graphs of a few lines: what goes, in which groups it
// comes back, and what stays.

#include "pass/offload.h"
#include "pass/rewrite.h"
#include "test.h"

static const tt_offload_params states = {.optimiser = true};
static const tt_offload_params activations = {.activations = true};

TEST(states_come_one_group_ahead_and_go_when_they_are_new)
{
    rewrite_check("offload", &states,
                  "tutti-graph 1\n"
                  "%0 = input 'g' f32 [n:1000]\n"
                  "%1 = optim 'a' f32 [n:1000] const 0\n"
                  "%2 = optim 'b' f32 [n:1000] const 0\n"
                  "%3 = optim 'c' f32 [n:1000] const 0\n"
                  "%4 = optim 'few' f32 [m:2] const 0\n"
                  "%5 = optim 'early' f32 [n:1000] const 0\n"
                  "%6 = optim 'twice' f32 [n:1000] const 0\n"
                  "%7 = add(%0 %5) forward 0 'y' f32 [n:1000]\n"
                  "%8 = add(%1 %0) update 0 'a' f32 [n:1000] updates %1\n"
                  "%9 = add(%8 %2) update 0 'b' f32 [n:1000] updates %2\n"
                  "%10 = add(%3 %9) update 0 'c' f32 [n:1000] updates %3\n"
                  "%11 = relu(%4) update 0 'few' f32 [m:2] updates %4\n"
                  "%12 = add(%5 %0) update 0 'early' f32 [n:1000] updates %5\n"
                  "%13 = add(%6 %0) update 0 'twice' f32 [n:1000]\n"
                  "%14 = add(%13 %6) update 0 'twice' f32 [n:1000] updates "
                  "%6\n"
                  "output 'y' %7\n",
                  "tutti-graph 1\n"
                  "%0 = input 'g' f32 [n:1000]\n"
                  "%1 = optim 'a' f32 [n:1000] const 0\n"
                  "%2 = optim 'b' f32 [n:1000] const 0\n"
                  "%3 = optim 'c' f32 [n:1000] const 0\n"
                  "%4 = optim 'few' f32 [m:2] const 0\n"
                  "%5 = optim 'early' f32 [n:1000] const 0\n"
                  "%6 = optim 'twice' f32 [n:1000] const 0\n"
                  "%7 = add(%0 %5) forward 0 'y' f32 [n:1000]\n"
                  "%8 = reload(%1) update 0 'a' f32 [n:1000]\n"
                  "%9 = reload(%2) update 0 'b' f32 [n:1000]\n"
                  "%10 = add(%8 %0) update 0 'a' f32 [n:1000]\n"
                  "%11 = offload(%10) update 0 'a' f32 [n:1000] updates %1\n"
                  "%12 = reload(%3) update 0 'c' f32 [n:1000]\n"
                  "%13 = add(%10 %9) update 0 'b' f32 [n:1000]\n"
                  "%14 = offload(%13) update 0 'b' f32 [n:1000] updates %2\n"
                  "%15 = add(%12 %13) update 0 'c' f32 [n:1000]\n"
                  "%16 = offload(%15) update 0 'c' f32 [n:1000] updates %3\n"
                  "%17 = relu(%4) update 0 'few' f32 [m:2] updates %4\n"
                  "%18 = add(%5 %0) update 0 'early' f32 [n:1000] updates %5\n"
                  "%19 = add(%6 %0) update 0 'twice' f32 [n:1000]\n"
                  "%20 = add(%19 %6) update 0 'twice' f32 [n:1000] updates %6\n"
                  "output 'y' %7\n");
}

TEST(a_node_has_its_states_together)
{
    rewrite_check("offload", &states,
                  "tutti-graph 1\n"
                  "%0 = input 'g' f32 [n:1000]\n"
                  "%1 = input 'x' f32 [n:1000]\n"
                  "%2 = optim 'a' f32 [n:1000] const 0\n"
                  "%3 = optim 'b' f32 [n:1000] const 0\n"
                  "%4 = optim 'c' f32 [n:1000] const 0\n"
                  "%5 %6 = swiglu_grad(%2 %3 %0) update 0 'ab' f32 [n:1000] "
                  "updates %2, f32 [n:1000] updates %3\n"
                  "%7 = add(%4 %5) update 0 'c' f32 [n:1000] updates %4\n"
                  "output 'x' %1\n",
                  "tutti-graph 1\n"
                  "%0 = input 'g' f32 [n:1000]\n"
                  "%1 = input 'x' f32 [n:1000]\n"
                  "%2 = optim 'a' f32 [n:1000] const 0\n"
                  "%3 = optim 'b' f32 [n:1000] const 0\n"
                  "%4 = optim 'c' f32 [n:1000] const 0\n"
                  "%5 = reload(%2) update 0 'ab' f32 [n:1000]\n"
                  "%6 = reload(%3) update 0 'ab' f32 [n:1000]\n"
                  "%7 = reload(%4) update 0 'c' f32 [n:1000]\n"
                  "%8 %9 = swiglu_grad(%5 %6 %0) update 0 'ab' f32 [n:1000], "
                  "f32 [n:1000]\n"
                  "%10 = offload(%8) update 0 'ab' f32 [n:1000] updates %2\n"
                  "%11 = offload(%9) update 0 'ab' f32 [n:1000] updates %3\n"
                  "%12 = add(%7 %8) update 0 'c' f32 [n:1000]\n"
                  "%13 = offload(%12) update 0 'c' f32 [n:1000] updates %4\n"
                  "output 'x' %1\n");
}

TEST(activations_come_back_for_their_gradients)
{
    rewrite_check(
        "offload", &activations,
        "tutti-graph 1\n"
        "%0 = input 'x' f32 [n:10 m:100]\n"
        "%1 = relu(%0) forward 0 'a' f32 [n:10 m:100]\n"
        "%2 = relu(%1) forward 0 'b' f32 [n:10 m:100]\n"
        "%3 = transpose(%2) perm=1,0; forward 0 'v' f32 [m:100 n:10]\n"
        "%4 = relu(%3) forward 0 'c' f32 [m:100 n:10]\n"
        "%5 = relu(%4) forward 0 'd' f32 [m:100 n:10]\n"
        "%6 = relu_grad(%4 %5) backward 0 'd' f32 [m:100 n:10]\n"
        "%7 = relu_grad(%3 %6) backward 0 'c' f32 [m:100 n:10]\n"
        "%8 = relu_grad(%7 %3) backward 0 'e' f32 [m:100 n:10]\n"
        "%9 = relu_grad(%1 %2) backward 0 'b' f32 [n:10 m:100]\n"
        "output 'dx' %8\noutput 'dy' %9\n",
        "tutti-graph 1\n"
        "%0 = input 'x' f32 [n:10 m:100]\n"
        "%1 = relu(%0) forward 0 'a' f32 [n:10 m:100]\n"
        "%2 = offload(%1) forward 0 'a' f32 [n:10 m:100]\n"
        "%3 = relu(%1) forward 0 'b' f32 [n:10 m:100]\n"
        "%4 = offload(%3) forward 0 'b' f32 [n:10 m:100]\n"
        "%5 = transpose(%3) perm=1,0; forward 0 'v' f32 [m:100 n:10]\n"
        "%6 = relu(%5) forward 0 'c' f32 [m:100 n:10]\n"
        "%7 = offload(%6) forward 0 'c' f32 [m:100 n:10]\n"
        "%8 = relu(%6) forward 0 'd' f32 [m:100 n:10]\n"
        "%9 = reload(%7) backward 0 'd' f32 [m:100 n:10]\n"
        "%10 = reload(%4) backward 0 'c' f32 [n:10 m:100]\n"
        "%11 = relu_grad(%9 %8) backward 0 'd' f32 [m:100 n:10]\n"
        "%12 = reload(%2) backward 0 'b' f32 [n:10 m:100]\n"
        "%13 = transpose(%10) perm=1,0; backward 0 'v' f32 [m:100 n:10]\n"
        "%14 = relu_grad(%13 %11) backward 0 'c' f32 [m:100 n:10]\n"
        "%15 = relu_grad(%14 %13) backward 0 'e' f32 [m:100 n:10]\n"
        "%16 = relu_grad(%12 %10) backward 0 'b' f32 [n:10 m:100]\n"
        "output 'dx' %15\n"
        "output 'dy' %16\n");
}

// Small states fill a group together; it is complete when its last user has run.
TEST(groups_are_a_part_of_all)
{
    rewrite_check(
        "offload", &states,
        "tutti-graph 1\nmesh data:2\n"
        "%0 = input 'g' f32 [n:20] {S(n)}\n"
        "%1 = input 'h' f32 [n:1000] {S(n)}\n"
        "%2 = optim 'p' f32 [n:20] {S(n)} const 0\n"
        "%3 = optim 'q' f32 [n:20] {S(n)} const 0\n"
        "%4 = optim 'r' f32 [n:20] {S(n)} const 0\n"
        "%5 = optim 's' f32 [n:1000] {S(n)} const 0\n"
        "%6 = add(%2 %0) update 0 'p' f32 [n:20] {S(n)} updates %2\n"
        "%7 = add(%3 %0) update 1 'q' f32 [n:20] {S(n)} updates %3\n"
        "%8 = add(%4 %0) update 0 'r' f32 [n:20] {S(n)} updates %4\n"
        "%9 = add(%5 %1) update 0 's' f32 [n:1000] {S(n)} updates %5\n"
        "output 'g' %0\n",
        "tutti-graph 1\n"
        "mesh data:2\n"
        "%0 = input 'g' f32 [n:20] {S(n)}\n"
        "%1 = input 'h' f32 [n:1000] {S(n)}\n"
        "%2 = optim 'p' f32 [n:20] {S(n)} const 0\n"
        "%3 = optim 'q' f32 [n:20] {S(n)} const 0\n"
        "%4 = optim 'r' f32 [n:20] {S(n)} const 0\n"
        "%5 = optim 's' f32 [n:1000] {S(n)} const 0\n"
        "%6 = reload(%2) update 0 'p' f32 [n:20] {S(n)}\n"
        "%7 = reload(%3) update 1 'q' f32 [n:20] {S(n)}\n"
        "%8 = reload(%4) update 0 'r' f32 [n:20] {S(n)}\n"
        "%9 = reload(%5) update 0 's' f32 [n:1000] {S(n)}\n"
        "%10 = add(%6 %0) update 0 'p' f32 [n:20] {S(n)}\n"
        "%11 = add(%7 %0) update 1 'q' f32 [n:20] {S(n)}\n"
        "%12 = add(%8 %0) update 0 'r' f32 [n:20] {S(n)}\n"
        "%13 = offload(%10) update 0 'p' f32 [n:20] {S(n)} updates %2\n"
        "%14 = offload(%11) update 1 'q' f32 [n:20] {S(n)} updates %3\n"
        "%15 = offload(%12) update 0 'r' f32 [n:20] {S(n)} updates %4\n"
        "%16 = add(%9 %1) update 0 's' f32 [n:1000] {S(n)}\n"
        "%17 = offload(%16) update 0 's' f32 [n:1000] {S(n)} updates %5\n"
        "output 'g' %0\n");
}

TEST(activations_that_others_read_stay)
{
    rewrite_check("offload", &activations,
                  "tutti-graph 1\n"
                  "mesh data:2\n"
                  "%0 = input 'x' f32 [n:1000] {S(n)}\n"
                  "%1 = relu(%0) forward 0 'host' f32 [n:1000] {S(n)}\n"
                  "%2 = relu(%0) forward 0 'update' f32 [n:1000] {S(n)}\n"
                  "%3 = relu(%0) forward 0 'moved' f32 [n:1000] {S(n)}\n"
                  "%4 = relu(%0) forward 0 'forward' f32 [n:1000] {S(n)}\n"
                  "%5 = relu(%4) forward 0 'last' f32 [n:1000] {S(n)}\n"
                  "%6 = add(%1 %2) backward 0 'b' f32 [n:1000] {S(n)}\n"
                  "%7 = relu_grad(%6 %3) backward 0 'c' f32 [n:1000] {S(n)}\n"
                  "%8 = relu_grad(%5 %7) backward 0 'd' f32 [n:1000] {S(n)}\n"
                  "%9 = relu(%2) update 0 'e' f32 [n:1000] {S(n)}\n"
                  "output 'h' %1\n"
                  "output 'd' %8\n"
                  "output 'e' %9\n",
                  "tutti-graph 1\n"
                  "mesh data:2\n"
                  "%0 = input 'x' f32 [n:1000] {S(n)}\n"
                  "%1 = relu(%0) forward 0 'host' f32 [n:1000] {S(n)}\n"
                  "%2 = relu(%0) forward 0 'update' f32 [n:1000] {S(n)}\n"
                  "%3 = relu(%0) forward 0 'moved' f32 [n:1000] {S(n)}\n"
                  "%4 = offload(%3) forward 0 'moved' f32 [n:1000] {S(n)}\n"
                  "%5 = relu(%0) forward 0 'forward' f32 [n:1000] {S(n)}\n"
                  "%6 = relu(%5) forward 0 'last' f32 [n:1000] {S(n)}\n"
                  "%7 = add(%1 %2) backward 0 'b' f32 [n:1000] {S(n)}\n"
                  "%8 = reload(%4) backward 0 'c' f32 [n:1000] {S(n)}\n"
                  "%9 = relu_grad(%7 %8) backward 0 'c' f32 [n:1000] {S(n)}\n"
                  "%10 = relu_grad(%6 %9) backward 0 'd' f32 [n:1000] {S(n)}\n"
                  "%11 = relu(%2) update 0 'e' f32 [n:1000] {S(n)}\n"
                  "output 'h' %1\n"
                  "output 'd' %10\n"
                  "output 'e' %11\n");
}

// The host reads it by another name.
TEST(activations_that_are_seen_through_an_output_stay)
{
    static const char text[] =
        "tutti-graph 1\n"
        "%0 = input 'x' f32 [n:10 m:100]\n"
        "%1 = relu(%0) forward 0 'a' f32 [n:10 m:100]\n"
        "%2 = relu(%0) forward 0 'b' f32 [n:10 m:100]\n"
        "%3 = relu_grad(%1 %2) backward 0 'c' f32 [n:10 m:100]\n"
        "%4 = transpose(%1) perm=1,0; forward 0 'v' f32 [m:100 n:10]\n"
        "output 'c' %3\noutput 'v' %4\n";
    rewrite_check("offload", &activations, text, text);
}
