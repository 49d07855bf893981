// A NaN that goes into a comparison comes out of it: it must reach the check that
// names its source.

#include "graph/build.h"
#include "interp/interp.h"
#include "ops/act/activation.h"
#include "ops/arith.h"
#include "ops/gradops.h"
#include "test.h"

TEST(a_nan_passes_relu_and_wins_every_maximum)
{
    const double x[6] = {1, (double)NAN, 2, (double)NAN, -1, 3};
    double y[6], largest[2];
    tt_builder b;
    tt_graph *g = NULL;
    tt_interp *interp = NULL;
    CHECK_OK(tt_builder_init(&b, &tt_grad_ops_default));
    const tt_val in = tt_input(&b, "x", TT_F32, "a:2 b:3");
    const tt_val relu = tt_relu(&b, in);
    const tt_val max = tt_reduce_dims(&b, in, TT_REDUCE_MAX, (int64_t[]){1}, 1);
    tt_output(&b, "relu", relu);
    tt_output(&b, "max", max);
    CHECK_OK(tt_builder_take(&b, &g));
    CHECK_OK(tt_interp_create(g, &interp));
    tt_interp_write(interp, in, x);
    CHECK_OK(tt_interp_run(interp));
    (void)tt_interp_read(interp, relu, y);
    (void)tt_interp_read(interp, max, largest);
    CHECK(y[0] == 1 && isnan(y[1]) && y[2] == 2);
    CHECK(isnan(y[3]) && y[4] == 0 && y[5] == 3);
    CHECK(isnan(largest[0]) && isnan(largest[1]));
    tt_interp_destroy(interp);
    tt_graph_destroy(g);
    tt_builder_fini(&b);
}
