// Splits that go zigzag: each rank has an early and a late block.

#include "graph/build.h"
#include "ops/nn/position.h"
#include "ops/ops.h"
#include "test.h"

#include <string.h>

static tt_type zigzag_of(int64_t n, int rotate)
{
    tt_type type = {.dtype = TT_F32};
    CHECK_OK(tt_shape_parse("batch:2 seq:1 embed:3", &type.shape));
    type.shape.factor[1].size = n;
    type.place[0] = tt_place_split(1);
    type.place[0].zigzag = true;
    type.place[0].rotate = rotate;
    return type;
}

static tt_mesh mesh_of(int a, int b)
{
    tt_mesh mesh = {.n_axes = 2};
    memcpy(mesh.axis[0].name, "a", 2);
    memcpy(mesh.axis[1].name, "b", 2);
    mesh.axis[0].size = a;
    mesh.axis[1].size = b;
    return mesh;
}

// Also where another axis cuts the parts again.
TEST(every_entry_is_on_one_rank_and_every_rank_has_some)
{
    for (int p = 1; p <= 5; p++)
        for (int64_t n = 2 * p; n <= 23; n++)
            for (int rotate = 0; rotate < p; rotate++) {
                tt_type type = zigzag_of(n, rotate);
                const tt_mesh mesh = mesh_of(p, 2);
                int held[23] = {0};
                type.place[1] = tt_place_split(1);
                for (int rank = 0; rank < 2 * p; rank++) {
                    tt_local local;
                    tt_local_of(&type, &mesh, rank, &local);
                    const int64_t size = local.shape.factor[1].size;
                    CHECK(size >= 1);
                    for (int64_t i = 0; i < size; i++)
                        held[tt_local_at(&local, 1, i)]++;
                }
                for (int64_t i = 0; i < n; i++)
                    CHECK_MSG(held[i] == 1, "%d ranks, %lld of %lld: %d", p,
                              (long long)i, (long long)n, held[i]);
            }
}

TEST(ranks_have_as_many_entries_as_in_a_plain_split)
{
    for (int p = 1; p <= 9; p++)
        for (int64_t n = p; n <= 3 * p; n++)
            for (int rank = 0; rank < p; rank++) {
                const tt_type type = zigzag_of(n, 0);
                const tt_mesh mesh = mesh_of(p, 1);
                tt_local local;
                tt_local_of(&type, &mesh, rank, &local);
                CHECK(local.shape.factor[1].size ==
                      (rank + 1) * n / p - rank * n / p);
            }
}

// Entry i of a causal sequence looks at i + 1 entries.
TEST(all_ranks_have_as_much_of_a_causal_sequence_to_do)
{
    for (int p = 2; p <= 6; p++) {
        const int64_t n = 8 * p;
        const tt_type type = zigzag_of(n, 0);
        const tt_mesh mesh = mesh_of(p, 1);
        for (int rank = 0; rank < p; rank++) {
            tt_local local;
            int64_t work = 0;
            tt_local_of(&type, &mesh, rank, &local);
            CHECK(local.shape.factor[1].size == 8);
            for (int64_t i = 0; i < 8; i++)
                work += tt_local_at(&local, 1, i) + 1;
            CHECK(work * p == n * (n + 1) / 2);
        }
    }
}

TEST(positions_lead_there_and_back)
{
    const tt_type type = zigzag_of(11, 1);
    const tt_mesh mesh = mesh_of(2, 1);
    for (int rank = 0; rank < 2; rank++) {
        tt_local local;
        tt_local_of(&type, &mesh, rank, &local);
        int here = 0;
        for (int64_t at = 0; at < 11; at++) {
            const int64_t i = tt_position_local(&local, 1, at);
            CHECK(i < 0 || tt_position_global(&local, 1, i) == at);
            here += i >= 0;
        }
        CHECK(here == local.shape.factor[1].size);
        const int64_t n = tt_shape_count(&local.shape);
        for (int64_t e = 0; e < n; e++)
            CHECK(tt_local_to_global(&local, e) / 3 % 11 ==
                  tt_position_global(&local, 1, e / 3 % here));
    }
}

TEST(a_zigzag_is_read_as_it_is_printed)
{
    static const tt_grad_ops none = {0};
    tt_builder b;
    tt_graph *g = NULL, *again = NULL;
    tt_str text = {0}, second = {0};
    CHECK_OK(tt_builder_init(&b, &none));
    b.graph->mesh = mesh_of(2, 3);
    const tt_val x = tt_input(&b, "x", TT_F32, "batch:2 seq:12 embed:3");
    tt_place place = tt_place_split(1);
    place.zigzag = true;
    place.rotate = 1;
    tt_place_set(&b, x, 0, place);
    CHECK_OK(tt_builder_take(&b, &g));
    tt_graph_print(g, &text);
    CHECK(strstr(tt_str_text(&text), "S(seq~+1)") != NULL);
    CHECK_OK(tt_graph_parse(tt_str_text(&text), tt_op_find, &again));
    CHECK(tt_place_equal(&again->value[0].type.place[0], &place));
    tt_graph_print(again, &second);
    CHECK(strcmp(tt_str_text(&text), tt_str_text(&second)) == 0);
    tt_str_fini(&text);
    tt_str_fini(&second);
    tt_graph_destroy(g);
    tt_graph_destroy(again);
    tt_builder_fini(&b);
}

TEST(a_value_goes_zigzag_once)
{
    static const tt_grad_ops none = {0};
    tt_builder b;
    tt_graph *g = NULL;
    CHECK_OK(tt_builder_init(&b, &none));
    b.graph->mesh = mesh_of(2, 2);
    const tt_val x = tt_input(&b, "x", TT_F32, "batch:2 seq:12 embed:3");
    tt_place place = tt_place_split(1);
    place.zigzag = true;
    tt_place_set(&b, x, 0, place);
    tt_place_set(&b, x, 1, place);
    CHECK(tt_builder_take(&b, &g) == TT_ERR_STATE);
    tt_builder_fini(&b);
}
