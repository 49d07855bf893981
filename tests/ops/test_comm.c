// Communication operators: hand examples, every conversion between placements,
// adjoints.

#include "graph/grad.h"
#include "interp/comm_sim.h"
#include "interp/interp.h"
#include "ops/comm/comm.h"
#include "ops/gradops.h"
#include "ops/ops.h"
#include "test.h"

#include <string.h>

enum { MAX_RANKS = 5, ROOM = 64 };

static tt_mesh line(int size)
{
    tt_mesh mesh = {.n_axes = 1};
    memcpy(mesh.axis[0].name, "x", 2);
    mesh.axis[0].size = size;
    return mesh;
}

static tt_type type_of(const char *shape, tt_place place)
{
    tt_type type = {.dtype = TT_F32};
    CHECK_OK(tt_shape_parse(shape, &type.shape));
    type.place[0] = place;
    return type;
}

// Runs one collective on float buffers of all ranks.
static void simulate(const tt_op_def *op, const tt_comm_params *params,
                     const tt_mesh *mesh, const tt_type types[2],
                     float in[][ROOM], float out[][ROOM])
{
    const void *from[32];
    void *to[32];
    for (int r = 0; r < tt_mesh_ranks(mesh); r++) {
        from[r] = in[r];
        to[r] = out[r];
    }
    const tt_comm_site site = {op, params, mesh, &types[0], &types[1]};
    CHECK_OK(tt_comm_simulate(&site, from, to));
}

TEST(all_reduce_adds_in_the_order_of_ranks)
{
    const tt_mesh mesh = line(3);
    const tt_type types[2] = {type_of("a:2", tt_place_partial(TT_SUM)),
                              type_of("a:2", tt_place_replicate())};
    float in[3][ROOM] = {{1, 10}, {2, 20}, {4, 40}}, out[3][ROOM];
    simulate(&tt_op_all_reduce, &(tt_comm_params){0}, &mesh, types, in, out);
    for (int r = 0; r < 3; r++) {
        CHECK(out[r][0] == 7);
        CHECK(out[r][1] == 70);
    }
}

TEST(all_reduce_takes_the_largest)
{
    const tt_mesh mesh = line(3);
    const tt_type types[2] = {type_of("a:2", tt_place_partial(TT_MAX)),
                              type_of("a:2", tt_place_replicate())};
    float in[3][ROOM] = {{-1, -10}, {-2, 20}, {-4, 0}}, out[3][ROOM];
    const tt_comm_params params = {.reduce = TT_MAX};
    simulate(&tt_op_all_reduce, &params, &mesh, types, in, out);
    CHECK(out[2][0] == -1);
    CHECK(out[0][1] == 20);
}

TEST(all_gather_joins_unequal_blocks)
{
    const tt_mesh mesh = line(2);
    const tt_type types[2] = {type_of("a:2 b:3", tt_place_split(1)),
                              type_of("a:2 b:3", tt_place_replicate())};
    float in[2][ROOM] = {{1, 4}, {2, 3, 5, 6}}, out[2][ROOM];
    simulate(&tt_op_all_gather, &(tt_comm_params){.factor = "b"}, &mesh, types,
             in, out);
    for (int i = 0; i < 6; i++)
        CHECK(out[0][i] == (float)(i + 1) && out[1][i] == (float)(i + 1));
}

TEST(reduce_scatter_gives_each_rank_its_block_of_the_sum)
{
    const tt_mesh mesh = line(2);
    const tt_type types[2] = {type_of("a:3", tt_place_partial(TT_SUM)),
                              type_of("a:3", tt_place_split(0))};
    float in[2][ROOM] = {{1, 2, 3}, {10, 20, 30}}, out[2][ROOM];
    simulate(&tt_op_reduce_scatter, &(tt_comm_params){.factor = "a"}, &mesh,
             types, in, out);
    CHECK(out[0][0] == 11);
    CHECK(out[1][0] == 22 && out[1][1] == 33);
}

TEST(shift_moves_blocks_to_the_next_rank)
{
    const tt_mesh mesh = line(3);
    tt_place after = tt_place_split(0);
    after.rotate = 1;
    const tt_type types[2] = {type_of("a:4", tt_place_split(0)),
                              type_of("a:4", after)};
    float in[3][ROOM] = {{1}, {2}, {3, 4}}, out[3][ROOM];
    simulate(&tt_op_shift, &(tt_comm_params){.by = 1}, &mesh, types, in, out);
    CHECK(out[0][0] == 3 && out[0][1] == 4);
    CHECK(out[1][0] == 1 && out[2][0] == 2);
}

TEST(keep_first_leaves_one_term)
{
    const tt_mesh mesh = line(2);
    const tt_type types[2] = {type_of("a:1", tt_place_replicate()),
                              type_of("a:1", tt_place_partial(TT_SUM))};
    float in[2][ROOM] = {{5}, {5}}, out[2][ROOM] = {{9}, {9}};
    simulate(&tt_op_keep_first, &(tt_comm_params){0}, &mesh, types, in, out);
    CHECK(out[0][0] == 5 && out[1][0] == 0);
}

TEST(a_move_arrives_where_it_goes_and_nowhere_else)
{
    const tt_mesh mesh = line(3);
    const tt_type types[2] = {type_of("a:1", tt_place_replicate()),
                              type_of("a:1", tt_place_replicate())};
    float in[3][ROOM] = {{5}, {6}, {7}}, out[3][ROOM] = {{1}, {2}, {3}};
    simulate(&tt_op_move, &(tt_comm_params){.from_coord = 1, .to_coord = 2},
             &mesh, types, in, out);
    CHECK(out[0][0] == 1 && out[1][0] == 2 && out[2][0] == 6);
}

TEST(halo_delivers_what_the_window_reads)
{
    const tt_mesh mesh = line(2);
    tt_place after = tt_place_split(0);
    after.window = (tt_window){
        .out = 4, .kernel = 3, .stride = 1, .pad = 1, .dilation = 1};
    const tt_type types[2] = {type_of("a:4", tt_place_split(0)),
                              type_of("a:4", after)};
    float in[2][ROOM] = {{1, 2}, {3, 4}}, out[2][ROOM];
    simulate(&tt_op_halo, &(tt_comm_params){.factor = "a"}, &mesh, types, in,
             out);
    CHECK(out[0][0] == 1 && out[0][1] == 2 && out[0][2] == 3);
    CHECK(out[1][0] == 2 && out[1][1] == 3 && out[1][2] == 4);
    const tt_type back[2] = {types[1], types[0]};
    float sum[2][ROOM];
    simulate(&tt_op_halo_add, &(tt_comm_params){.factor = "a"}, &mesh, back,
             out, sum);
    CHECK(sum[0][0] == 1 && sum[0][1] == 4);
    CHECK(sum[1][0] == 6 && sum[1][1] == 4);
}

TEST(halo_add_gives_zero_where_no_window_reads)
{
    const tt_mesh mesh = line(2);
    tt_place before = tt_place_split(0);
    before.window = (tt_window){
        .out = 2, .kernel = 1, .stride = 3, .pad = 0, .dilation = 1};
    const tt_type types[2] = {type_of("a:6", before),
                              type_of("a:6", tt_place_split(0))};
    float in[2][ROOM] = {{1}, {2}}, out[2][ROOM] = {{9}};
    simulate(&tt_op_halo_add, &(tt_comm_params){.factor = "a"}, &mesh, types,
             in, out);
    CHECK(out[0][0] == 1 && out[0][1] == 0 && out[0][2] == 0);
    CHECK(out[1][0] == 2 && out[1][1] == 0 && out[1][2] == 0);
}

TEST(a_group_that_lacks_elements_is_an_error)
{
    // Both axes cut `a`; gathering over the first alone cannot fill a block.
    tt_mesh mesh = line(2);
    mesh.n_axes = 2;
    mesh.axis[1].size = 2;
    memcpy(mesh.axis[1].name, "y", 2);
    tt_type types[2] = {type_of("a:4", tt_place_split(0)),
                        type_of("a:4", tt_place_replicate())};
    types[0].place[1] = types[1].place[1] = tt_place_split(0);
    float in[4][ROOM] = {{0}}, out[4][ROOM];
    const void *from[4] = {in[0], in[1], in[2], in[3]};
    void *to[4] = {out[0], out[1], out[2], out[3]};
    const tt_comm_params params = {.axis = 0, .factor = "a"};
    const tt_comm_site site = {&tt_op_all_gather, &params, &mesh, &types[0],
                               &types[1]};
    CHECK(tt_comm_simulate(&site, from, to) == TT_ERR_ARG);
    const tt_comm_params far = {.axis = 2, .factor = "a"};
    const tt_comm_site other = {&tt_op_all_gather, &far, &mesh, &types[0],
                                &types[1]};
    CHECK(tt_comm_simulate(&other, from, to) == TT_ERR_ARG);
}

// ---- graphs ----------------------------------------------------------------

enum { COUNT = 5 * 7 };

static void fill(double *data)
{
    for (int i = 0; i < COUNT; i++)
        data[i] = (i * 37 % 101) / 50.0 - 1;
}

// A mesh of `size` ranks on axis 1, two on axis 0 when `is_grid`.
static void start(tt_builder *b, int size, bool is_grid)
{
    CHECK_OK(tt_builder_init(b, &tt_grad_ops_default));
    b->graph->mesh = line(is_grid ? 2 : 1);
    b->graph->mesh.n_axes = 2;
    b->graph->mesh.axis[1].size = size;
    memcpy(b->graph->mesh.axis[1].name, "y", 2);
}

static const tt_place places[] = {
    {.kind = TT_REPLICATE},
    {.kind = TT_PARTIAL, .reduce = TT_SUM},
    {.kind = TT_SPLIT, .factor = 0},
    {.kind = TT_SPLIT, .factor = 1},
    {.kind = TT_SPLIT, .factor = 1, .rotate = 1},
    {.kind = TT_SPLIT,
     .factor = 1,
     .window = {.out = 7, .kernel = 3, .stride = 1, .pad = 1, .dilation = 1}},
};
enum { N_PLACES = sizeof places / sizeof places[0] };

// x placed one way, converted to another, is still x; the other axis cuts `a`.
static void check_conversion(int size, const tt_place *from, const tt_place *to)
{
    tt_builder b;
    tt_interp *it = NULL;
    double x[COUNT], y[COUNT];
    start(&b, size, from->factor != 0 && to->factor != 0);
    const tt_val in = tt_input(&b, "x", TT_F64, "a:5 b:7");
    tt_place_set(&b, in, 1, *from);
    if (b.graph->mesh.axis[0].size > 1)
        tt_place_set(&b, in, 0, tt_place_split(0));
    const tt_val out = tt_place_convert(&b, in, 1, *to);
    CHECK_OK(tt_builder_status(&b));
    CHECK(tt_place_equal(&tt_type_of(&b, out)->place[1], to));
    CHECK(tt_place_equal(&tt_type_of(&b, out)->place[0],
                         &tt_type_of(&b, in)->place[0]));
    CHECK_OK(tt_graph_verify(b.graph));
    CHECK_OK(tt_interp_create(b.graph, &it));
    fill(x);
    tt_interp_write(it, in, x);
    CHECK_OK(tt_interp_run(it));
    for (int r = 0; r < tt_interp_ranks(it) && to->window.out != 0; r++) {
        const tt_local *local = tt_interp_local(it, r, out);
        const double *part = tt_interp_data(it, r, out);
        for (int64_t i = 0; i < tt_shape_count(&local->shape); i++)
            CHECK(part[i] == x[tt_local_to_global(local, i)]);
    }
    if (to->window.out == 0) {
        CHECK(tt_interp_read(it, out, y));
        for (int i = 0; i < COUNT; i++)
            CHECK(y[i] == x[i]);
    }
    tt_interp_destroy(it);
    tt_builder_fini(&b);
}

TEST(every_conversion_keeps_the_value)
{
    for (int size = 1; size <= MAX_RANKS; size++)
        for (int i = 0; i < N_PLACES; i++)
            for (int j = 0; j < N_PLACES; j++) {
                // Out of a window come terms of a sum, not a value.
                const bool is_rotated = places[i].rotate + places[j].rotate > 0;
                if (places[i].window.out != 0 || (size == 1 && is_rotated))
                    continue;
                check_conversion(size, &places[i], &places[j]);
            }
}

// What an adjoint computed on windows is added up before it is joined.
TEST(terms_on_windows_are_added_when_joined)
{
    tt_builder b;
    tt_interp *it = NULL;
    double x[COUNT], got[COUNT], want[COUNT];
    start(&b, 3, false);
    const tt_val in = tt_input(&b, "x", TT_F64, "a:5 b:7");
    tt_place_set(&b, in, 1, places[3]);
    const tt_val wide = tt_halo(&b, in, 1, &places[5].window);
    const tt_val joined = tt_place_convert(&b, wide, 1, places[0]);
    const tt_val sum = tt_all_gather(&b, tt_halo_add(&b, wide, 1), 1);
    CHECK_OK(tt_builder_status(&b));
    CHECK_OK(tt_interp_create(b.graph, &it));
    fill(x);
    tt_interp_write(it, in, x);
    CHECK_OK(tt_interp_run(it));
    CHECK(tt_interp_read(it, joined, got) && tt_interp_read(it, sum, want));
    int n_shared = 0;
    for (int i = 0; i < COUNT; i++) {
        CHECK(got[i] == want[i]);
        n_shared += want[i] == 2 * x[i] && x[i] != 0;
    }
    CHECK_MSG(n_shared > 0, "no window reads what another reads");
    tt_interp_destroy(it);
    tt_builder_fini(&b);
}

// One node each, whose result lies where the operator's name says.
TEST(results_of_collectives_know_where_they_lie)
{
    tt_builder b;
    start(&b, 3, false);
    tt_val x[3];
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"r", "p", "s"};
        x[i] = tt_input(&b, names[i], TT_F64, "a:5 b:7");
        tt_place_set(&b, x[i], 1, places[i]);
    }
    tt_place seen = tt_place_split(0);
    seen.window = (tt_window){
        .out = 5, .kernel = 3, .stride = 1, .pad = 1, .dilation = 1};
    const tt_val wide = tt_halo(&b, x[2], 1, &seen.window);
    const struct {
        tt_val got;
        tt_place want;
    } cases[] = {
        {wide, seen},
        {tt_halo_add(&b, wide, 1), tt_place_split(0)},
        {tt_all_reduce(&b, x[1], 1, TT_SUM), tt_place_replicate()},
        {tt_all_gather(&b, x[2], 1), tt_place_replicate()},
        {tt_reduce_scatter(&b, x[1], 1, "b"), tt_place_split(1)},
        {tt_all_to_all(&b, x[2], 1, "b"), tt_place_split(1)},
        {tt_take(&b, x[0], 1, "b"), tt_place_split(1)},
        {tt_keep_first(&b, x[0], 1), tt_place_partial(TT_SUM)},
        {tt_shift(&b, x[2], 1, 4), {.kind = TT_SPLIT, .rotate = 1}},
        {tt_shift(&b, x[2], 1, -1), {.kind = TT_SPLIT, .rotate = 2}},
    };
    const int n = sizeof(cases) / sizeof(cases[0]);
    CHECK_OK(tt_builder_status(&b));
    CHECK(b.graph->n_nodes == n);
    for (int i = 0; i < n; i++)
        CHECK_MSG(tt_place_equal(&tt_type_of(&b, cases[i].got)->place[1],
                                 &cases[i].want),
                  "%s", b.graph->node[i].op->name);
    tt_builder_fini(&b);
}

TEST(a_move_names_both_ends_and_its_gradient_goes_back)
{
    tt_builder b;
    start(&b, 3, false);
    const tt_val x = tt_input(&b, "x", TT_F64, "a:5 b:7");
    const tt_val seed = tt_input(&b, "seed", TT_F64, "a:5 b:7");
    const tt_val y = tt_move_value(&b, x, 1, 1, 2);
    tt_val grad = TT_NONE;
    const tt_grad_of from = {&y, &seed, 1};
    CHECK_OK(tt_grad_values(&b, &from, &x, 1, &grad));
    CHECK(tt_is(grad));
    const tt_node *there = &b.graph->node[0];
    const tt_node *back = &b.graph->node[b.graph->n_nodes - 1];
    const tt_comm_params *p = there->params, *q = back->params;
    CHECK(there->op == &tt_op_move && back->op == &tt_op_move);
    CHECK(p->axis == 1 && p->from_coord == 1 && p->to_coord == 2);
    CHECK(q->axis == 1 && q->from_coord == 2 && q->to_coord == 1);
    CHECK(back->in[0].id == seed.id && back->out[0].id == grad.id);
    tt_builder_fini(&b);
}

TEST(a_move_to_nowhere_or_of_a_part_is_refused)
{
    for (int i = 0; i < 3; i++) {
        tt_builder b;
        start(&b, 3, false);
        const tt_val x = tt_input(&b, "x", TT_F64, "a:5 b:7");
        if (i == 0)
            tt_place_set(&b, x, 1, tt_place_split(1));
        CHECK(!tt_is(tt_move_value(&b, x, 1, i == 1 ? -1 : 0, i + 1)));
        CHECK(tt_builder_status(&b) == TT_ERR_ARG);
        CHECK(strstr(tt_error_message(), "move") != NULL);
        tt_builder_fini(&b);
    }
}

TEST(a_partial_maximum_cannot_be_made)
{
    tt_builder b;
    start(&b, 2, false);
    const tt_val x = tt_input(&b, "x", TT_F64, "a:5 b:7");
    CHECK(!tt_is(tt_place_convert(&b, x, 1, tt_place_partial(TT_MAX))));
    CHECK(tt_builder_status(&b) == TT_ERR_ARG);
    tt_builder_fini(&b);
}

TEST(a_wrong_placement_is_refused)
{
    tt_builder b;
    start(&b, 2, false);
    const tt_val x = tt_input(&b, "x", TT_F64, "a:5 b:7");
    CHECK(!tt_is(tt_all_gather(&b, x, 1)));
    CHECK(strstr(tt_error_message(), "all_gather") != NULL);
    CHECK(!tt_is(tt_all_reduce(&b, x, 1, TT_SUM)));
    tt_builder_fini(&b);
    start(&b, 2, false);
    const tt_val y = tt_input(&b, "x", TT_F64, "a:5 b:7");
    CHECK(!tt_is(tt_take(&b, y, 3, "a")));
    CHECK(strstr(tt_error_message(), "axis 3") != NULL);
    tt_builder_fini(&b);
    start(&b, 2, false);
    const tt_val z = tt_input(&b, "x", TT_F64, "a:5 b:7");
    CHECK(!tt_is(tt_take(&b, z, 1, "c")));
    tt_builder_fini(&b);
}

// The gradient of a change of placement is the seed, placed as x's gradient.
static void check_gradient(int size, const tt_place *from, const tt_place *to)
{
    tt_builder b;
    tt_interp *it = NULL;
    double x[COUNT], got[COUNT];
    start(&b, size, false);
    const tt_val in = tt_input(&b, "x", TT_F64, "a:5 b:7");
    const tt_val seed = tt_input(&b, "seed", TT_F64, "a:5 b:7");
    tt_place_set(&b, in, 1, *from);
    const tt_val out = tt_place_convert(&b, in, 1, *to);
    if (to->kind == TT_SPLIT)
        tt_place_set(&b, seed, 1, *to);
    tt_val grad = TT_NONE;
    CHECK_OK(tt_grad_values(&b, &(tt_grad_of){&out, &seed, 1}, &in, 1, &grad));
    // Every term of a sum has the whole gradient.
    const tt_place replicate = tt_place_replicate();
    CHECK(tt_place_equal(&tt_type_of(&b, grad)->place[1],
                         from->kind == TT_PARTIAL ? &replicate : from));
    CHECK_OK(tt_interp_create(b.graph, &it));
    fill(x);
    tt_interp_write(it, in, x);
    tt_interp_write(it, seed, x);
    CHECK_OK(tt_interp_run(it));
    CHECK(tt_interp_read(it, grad, got));
    for (int i = 0; i < COUNT; i++)
        CHECK(got[i] == x[i]);
    tt_interp_destroy(it);
    tt_builder_fini(&b);
}

TEST(gradients_of_conversions_are_their_adjoints)
{
    for (int size = 2; size <= MAX_RANKS; size++)
        for (int i = 0; i < N_PLACES; i++)
            for (int j = 0; j < N_PLACES; j++)
                if (places[i].window.out == 0 && places[j].window.out == 0 &&
                    i != j)
                    check_gradient(size, &places[i], &places[j]);
}

static double inner(tt_interp *it, tt_val a, tt_val b)
{
    double sum = 0;
    for (int r = 0; r < tt_interp_ranks(it); r++) {
        const double *x = tt_interp_data(it, r, a);
        const double *y = tt_interp_data(it, r, b);
        const tt_local *local = tt_interp_local(it, r, a);
        for (int64_t i = 0; i < tt_shape_count(&local->shape); i++)
            sum += x[i] * y[i];
    }
    return sum;
}

TEST(halo_add_is_the_adjoint_of_halo)
{
    for (int size = 1; size <= MAX_RANKS; size++) {
        tt_builder b;
        tt_interp *it = NULL;
        double data[COUNT];
        start(&b, size, false);
        const tt_val x = tt_input(&b, "x", TT_F64, "a:5 b:7");
        const tt_val dy = tt_input(&b, "dy", TT_F64, "a:5 b:7");
        tt_place_set(&b, x, 1, places[3]);
        tt_place_set(&b, dy, 1, places[5]);
        const tt_val y = tt_halo(&b, x, 1, &places[5].window);
        tt_val dx = TT_NONE;
        CHECK_OK(tt_grad_values(&b, &(tt_grad_of){&y, &dy, 1}, &x, 1, &dx));
        CHECK_OK(tt_interp_create(b.graph, &it));
        fill(data);
        tt_interp_write(it, x, data);
        for (int i = 0; i < COUNT; i++)
            data[i] = data[i] * data[i] + 0.3;
        tt_interp_write(it, dy, data);
        CHECK_OK(tt_interp_run(it));
        CHECK_CLOSE(inner(it, x, dx), inner(it, y, dy), 1e-14);
        tt_interp_destroy(it);
        tt_builder_fini(&b);
    }
}

TEST(wire_bytes_are_the_ring_formulas)
{
    const int p = 4;
    tt_type in = type_of("a:8", tt_place_replicate());
    tt_type out = in;
    tt_comm_params params = {.factor = "a", .by = 1};
    const tt_op_io io = {&params, 1, 1, &in, &out};
    tt_cost cost;
    tt_op_all_reduce.cost(&io, p, &cost);
    CHECK(cost.wire_bytes == 2 * 3.0 / 4 * 32 && cost.messages == 6);
    tt_op_reduce_scatter.cost(&io, p, &cost);
    CHECK(cost.wire_bytes == 3.0 / 4 * 32 && cost.messages == 3);
    tt_op_all_to_all.cost(&io, p, &cost);
    CHECK(cost.wire_bytes == 3.0 / 4 * 32 && cost.messages == 3);
    tt_op_shift.cost(&io, p, &cost);
    CHECK(cost.wire_bytes == 32 && cost.messages == 1);
    params.by = 4;
    tt_op_shift.cost(&io, p, &cost);
    CHECK(cost.wire_bytes == 0 && cost.messages == 0);
    tt_op_take.cost(&io, p, &cost);
    CHECK(cost.wire_bytes == 0 && cost.messages == 0);
    in.shape.factor[0].size = 2;
    tt_op_all_gather.cost(&io, p, &cost);
    CHECK(cost.wire_bytes == 3.0 / 4 * 32 && cost.messages == 3);
    in.shape.factor[0].size = 6;
    tt_op_halo.cost(&io, p, &cost);
    CHECK(cost.wire_bytes == 8 && cost.messages == 2);
}
