// Blocks lie in a value where their placements say, and make it together: as views, and
// as the plain kernels copy them.

#include "backend/backend.h"
#include "ops/blocks.h"
#include "ops/ops.h"
#include "test.h"

#include <string.h>

enum { ROWS = 6, COLS = 4, INNER = 3 };

// Of [rows:6 cols:4.inner:3], the block `part` of 2 along factor f; -1: all of it.
static tt_operand operand(int f, int part)
{
    tt_type type = {.dtype = TT_F32};
    const tt_mesh mesh = {.n_axes = 1, .axis = {{"data", 1}}};
    tt_operand o = {.dtype = TT_F32};
    CHECK_OK(tt_shape_parse("rows:6 cols:4.inner:3", &type.shape));
    if (part >= 0) {
        type.place[0] = tt_place_split(f);
        type.place[0].part = part;
        type.place[0].parts = 2;
    }
    tt_local_of(&type, &mesh, 0, &o.local);
    tt_operand_set_dense(&o);
    return o;
}

static float element(int row, int col, int inner)
{
    return (float)(100 * row + 10 * col + inner);
}

static void fill(float *x)
{
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLS; c++)
            for (int i = 0; i < INNER; i++)
                x[(r * COLS + c) * INNER + i] = element(r, c, i);
}

static void run(tt_site *site, const void *const *in, void *const *out)
{
    const tt_backend_options options = {.n_threads = 1};
    tt_backend *backend = NULL;
    tt_choice choice;
    CHECK_OK(tt_backend_open(tt_backend_find("ref"), &options, &backend));
    CHECK_OK(backend->target.choose(&backend->target, site, &choice));
    CHECK_OK(tt_kernel_run(choice.kernel, &(tt_args){.in = in, .out = out}));
    tt_kernel_free(choice.kernel);
    tt_backend_close(backend);
}

static void check_part(const float *part, int f, int which)
{
    const int rows = f == 0 ? ROWS / 2 : ROWS, cols = f == 1 ? COLS / 2 : COLS;
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < cols; c++)
            for (int i = 0; i < INNER; i++)
                CHECK(part[(r * cols + c) * INNER + i] ==
                      element(r + (f == 0 ? which * rows : 0),
                              c + (f == 1 ? which * cols : 0), i));
}

TEST(block_takes_the_part_that_its_placement_names)
{
    float x[ROWS * COLS * INNER], y[ROWS * COLS * INNER];
    fill(x);
    for (int f = 0; f < 2; f++)
        for (int part = 0; part < 2; part++) {
            tt_operand in = operand(f, -1), out = operand(f, part);
            tt_site site = {.op = &tt_op_block,
                            .origin = "test",
                            .n_in = 1,
                            .n_out = 1,
                            .in = &in,
                            .out = &out};
            run(&site, (const void *const[]){x}, (void *const[]){y});
            check_part(y, f, part);
        }
}

TEST(unblock_puts_parts_where_they_came_from)
{
    float x[ROWS * COLS * INNER], part[2][ROWS * COLS * INNER];
    float y[ROWS * COLS * INNER];
    fill(x);
    for (int f = 0; f < 2; f++) {
        tt_operand whole = operand(f, -1);
        tt_operand in[2] = {operand(f, 0), operand(f, 1)};
        tt_site site = {.op = &tt_op_block,
                        .origin = "test",
                        .n_in = 1,
                        .n_out = 1,
                        .in = &whole};
        for (int i = 0; i < 2; i++) {
            site.out = &in[i];
            run(&site, (const void *const[]){x}, (void *const[]){part[i]});
        }
        tt_site join = {.op = &tt_op_unblock,
                        .origin = "test",
                        .n_in = 2,
                        .n_out = 1,
                        .in = in,
                        .out = &whole};
        memset(y, 0, sizeof y);
        run(&join, (const void *const[]){part[0], part[1]}, (void *const[]){y});
        CHECK(memcmp(x, y, sizeof x) == 0);
    }
}

TEST(block_is_a_view_with_an_offset)
{
    int64_t stride[TT_MAX_DIMS] = {0}, offset = 0;
    const tt_operand whole = operand(0, -1);
    const tt_operand rows = operand(0, 1), cols = operand(1, 1);
    CHECK(tt_block_inside(&whole, &rows.local, stride, &offset));
    CHECK(offset == ROWS / 2 * COLS * INNER && stride[0] == COLS * INNER &&
          stride[1] == 1);
    CHECK(tt_block_inside(&whole, &cols.local, stride, &offset));
    CHECK(offset == COLS / 2 * INNER && stride[0] == COLS * INNER &&
          stride[1] == 1);
    // Every other entry of a dimension, in runs: no stride has that.
    const tt_operand inner = operand(2, 0);
    CHECK(!tt_block_inside(&whole, &inner.local, stride, &offset) ||
          inner.local.shape.factor[2].size == 1);
}
