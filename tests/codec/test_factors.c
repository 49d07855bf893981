// The factors of a gradient give the sum of all replicas' gradients.

#include "base/rng.h"
#include "codec/codec.h"
#include "interp/interp.h"
#include "ops/arith.h"
#include "ops/gradops.h"
#include "ops/ops.h"
#include "ops/shape/move.h"
#include "test.h"

#include <math.h>
#include <stdio.h>

enum { PEERS = 2 };

// Both replicas' gradients of a weight, by the codec and as a plain sum. Returns how many
// codes there are.
static int build(tt_builder *b, const char *x_shape, const char *dy_shape)
{
    tt_coding c[PEERS];
    tt_val joined[2], sum, plain = TT_NONE;
    const tt_concat_params along = {.dim = 0};
    for (int r = 0; r < PEERS; r++) {
        char name[8];
        tt_val in[2];
        snprintf(name, sizeof name, "x%d", r);
        in[0] = tt_input(b, name, TT_F64, x_shape);
        snprintf(name, sizeof name, "dy%d", r);
        in[1] = tt_input(b, name, TT_F64, dy_shape);
        const tt_val dw = tt_call(b, &tt_op_matmul_grad_w, NULL, in, 2, NULL);
        plain = r == 0 ? dw : tt_add(b, plain, dw);
        c[r] = (tt_coding){.def = tt_codec_find("factors"),
                           .x = dw,
                           .residual = TT_NONE,
                           .peers = PEERS};
        CHECK_OK(tt_codec_encode(b, &c[r], NULL));
    }
    for (int i = 0; i < c[0].n_codes; i++) {
        const tt_val pair[PEERS] = {c[0].code[i], c[1].code[i]};
        joined[i] = c[0].join == TT_CODEC_GATHERED
                        ? tt_call(b, &tt_op_concat, &along, pair, PEERS, NULL)
                        : tt_add(b, pair[0], pair[1]);
    }
    CHECK_OK(tt_codec_decode(b, &c[0], joined, &sum));
    tt_output(b, "sum", sum);
    tt_output(b, "plain", plain);
    return c[0].n_codes;
}

static int check(const char *x_shape, const char *dy_shape, int64_t n)
{
    tt_builder b;
    tt_graph *g = NULL;
    tt_interp *it = NULL;
    double sum[1024], plain[1024], data[1024];
    CHECK_OK(tt_builder_init(&b, &tt_grad_ops_default));
    const int n_codes = build(&b, x_shape, dy_shape);
    CHECK_OK(tt_builder_take(&b, &g));
    tt_builder_fini(&b);
    CHECK_OK(tt_interp_create(g, &it));
    for (int32_t v = 0; v < g->n_values; v++) {
        if (g->value[v].role != TT_ROLE_INPUT)
            continue;
        for (int i = 0; i < 1024; i++)
            data[i] = tt_rng_normal((uint64_t)v, (uint64_t)i);
        tt_interp_write(it, (tt_val){v}, data);
    }
    CHECK_OK(tt_interp_run(it));
    CHECK(tt_interp_read(it, tt_graph_output_find(g, "sum"), sum));
    CHECK(tt_interp_read(it, tt_graph_output_find(g, "plain"), plain));
    for (int64_t i = 0; i < n; i++)
        CHECK(fabs(sum[i] - plain[i]) < 1e-12);
    tt_interp_destroy(it);
    tt_graph_destroy(g);
    return n_codes;
}

TEST(factors_of_few_rows_are_sent_and_give_the_sum)
{
    CHECK(check("batch:3 k:20", "batch:3 n:30", 600) == 2);
    CHECK(check("batch:1 seq:2 k:20", "batch:1 seq:2 n:30", 600) == 2);
}

TEST(a_gradient_that_is_smaller_than_its_factors_is_sent)
{
    CHECK(check("batch:20 k:5", "batch:20 n:7", 35) == 1);
}
