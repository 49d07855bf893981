// Kernels of the CPU backend on positions that are a part of all: they equal ref, and
// what they cannot do goes to ref.

#include "backend/cpu_check.h"
#include "ops/ops.h"
#include "test.h"

enum { SEQ = 1 };

// Positions from `first` on, of 12.
static void part(tt_operand *o, int64_t first)
{
    const int f = o->local.shape.first[SEQ];
    o->local.origin[f] = first;
    o->local.global[f] = 12;
}

static void place_positions(tt_site *site)
{
    part(&site->in[0], 5);
}

// Two runs of three.
static void place_two_runs(tt_site *site)
{
    tt_local *x = &site->in[0].local;
    part(&site->in[0], 1);
    x->zigzag = true;
    x->turn_factor = x->shape.first[SEQ];
    x->turn = 3;
    x->gap = 5;
}

TEST(cpu_positions_of_a_part_equal_ref)
{
    const cpu_case forward = {.op = &tt_op_position_embedding,
                              .params = "",
                              .in = {"b:3 s:6 e:5", "p:12 e:5"},
                              .dtype = TT_F32,
                              .kernel = "cpu.position_embedding",
                              .place = place_positions};
    cpu_check(&forward, 1e-6);
    cpu_case backward = forward;
    backward.op = &tt_op_position_embedding_grad;
    backward.kernel = "cpu.position_embedding_grad";
    cpu_check(&backward, 1e-6);
    cpu_case again = forward;
    again.place = backward.place = place_two_runs;
    cpu_check(&again, 1e-6);
    cpu_check(&backward, 1e-6);
    const cpu_case turned = {.op = &tt_op_rotary,
                             .params = "theta=50",
                             .in = {"b:3 s:6 h:2 d:10"},
                             .dtype = TT_F32,
                             .kernel = "cpu.rotary",
                             .place = place_positions};
    cpu_check(&turned, 1e-6);
}

// Positions 0, 1, 4, 5, 8, 9 of 12.
static void place_three_runs(tt_site *site)
{
    const int f = site->in[0].local.shape.first[1] + 1;
    site->in[0].local.global[f] = 4;
}

TEST(cpu_positions_in_many_runs_are_left_to_ref)
{
    cpu_case c = {.op = &tt_op_position_embedding,
                  .params = "",
                  .in = {"b:3 s:3.t:2 e:5", "p:12 e:5"},
                  .dtype = TT_F32,
                  .kernel = "ref.position_embedding",
                  .place = place_three_runs};
    cpu_check(&c, 0);
    c.op = &tt_op_position_embedding_grad;
    c.kernel = "ref.position_embedding_grad";
    cpu_check(&c, 0);
}
