// Products of 8 bits: what is no number is not hidden.

#include "graph/build.h"
#include "interp/interp.h"
#include "ops/codec/fp8.h"
#include "ops/gradops.h"
#include "ops/ops.h"
#include "test.h"

#include <math.h>

TEST(products_of_what_is_no_number_are_none)
{
    enum { M = 2, K = 16 };
    static const tt_dtype dtypes[] = {TT_E4M3, TT_E5M2};
    for (int d = 0; d < 2; d++)
        for (int sign = -1; sign <= 1; sign += 2) {
            tt_builder b;
            tt_interp *it = NULL;
            double x[M * K], y[K], got[M];
            const tt_matmul_fp8_params p = {.is_wide = true};
            CHECK_OK(tt_builder_init(&b, &tt_grad_ops_default));
            const tt_val in[] = {tt_input(&b, "a", dtypes[d], "m:2 k:16"),
                                 tt_input(&b, "b", TT_E4M3, "n:1 k:16"),
                                 tt_input(&b, "units", TT_F32, "site:1")};
            const tt_val out = tt_call(&b, &tt_op_matmul_fp8, &p, in, 3, NULL);
            CHECK_OK(tt_builder_status(&b));
            CHECK_OK(tt_interp_create(b.graph, &it));
            for (int i = 0; i < M * K; i++)
                x[i] = y[i % K] = 1;
            x[K] = copysign((double)NAN, sign);
            tt_interp_write(it, in[0], x);
            tt_interp_write(it, in[1], y);
            tt_interp_write(it, in[2], &(double){0.5});
            CHECK_OK(tt_interp_run(it));
            CHECK(tt_interp_read(it, out, got));
            CHECK_MSG(got[0] == K * 0.25 && isnan(got[1]), "%g and %g", got[0],
                      got[1]);
            tt_interp_destroy(it);
            tt_builder_fini(&b);
        }
}
