// What a rank has of a factor: an equal share of every axis that cuts it.

#include "graph/op.h"
#include "test.h"

TEST(extents_are_divided_by_the_axes_that_cut_them)
{
    const tt_mesh mesh = {.n_axes = 3,
                          .axis = {{"data", 2}, {"context", 3}, {"tensor", 4}}};
    tt_type type = {.dtype = TT_F32};
    tt_op_io io = {.mesh = &mesh};
    CHECK_OK(tt_shape_parse("batch:7 heads:24", &type.shape));
    type.place[0] = tt_place_split(0);
    type.place[1] = tt_place_split(1);
    type.place[2] = tt_place_split(1);
    CHECK(tt_io_extent(&io, &type, 0) == 3);
    CHECK(tt_io_extent(&io, &type, 1) == 2);
    type.place[1] = tt_place_partial(TT_SUM);
    type.place[0] = tt_place_replicate();
    CHECK(tt_io_extent(&io, &type, 0) == 7);
    CHECK(tt_io_extent(&io, &type, 1) == 6);
    io.mesh = NULL;
    CHECK(tt_io_extent(&io, &type, 1) == 24);
}
