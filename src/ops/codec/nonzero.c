// nonzero_encode, nonzero_sum - the entries that are not zero, and where they are (sparse.h).
//
//   bytes   8 + 8 per entry that is not zero: a value and its place. There is room for all
//   error   none
//   flops   a comparison per element; sum 1
//   use     what somebody else has picked: the significant entries of exchange.policy=gaia

#include "ops/codec/sparse.h"
#include "ops/cost.h"
#include "ops/ops.h"

static int64_t body(const tt_packet_form *form, const void *params, int64_t n,
                    tt_dtype dtype)
{
    (void)form, (void)params;
    return tt_sparse_body(n, tt_packet_value_bytes(dtype));
}

const tt_packet_form tt_form_nonzero = {
    .kind = TT_PACKET_NONZERO,
    .body = body,
};

static const tt_sample samples[] = {
    {"", {"f a:3 b:7"}, 21},
    {"", {"f a:9", "m a:9"}, 9},
    {"", {"=0 a:70"}, 70},
    {"", {"=1 a:2 b:3.c:4", "m=0 a:2 b:3.c:4"}, 24},
    {0},
};

static const tt_sample samples_sum[] = {
    {"", {"c1", "f a:3 b:7"}, 21},
    {"", {"c3", "f a:50 b:31"}, 1550},
    {0},
};

const tt_op_def tt_op_nonzero_encode = {
    .name = "nonzero_encode",
    .doc = "The entries that are not zero.",
    .family = &tt_form_nonzero,
    .infer = tt__packet_infer,
    .cost = tt__sparse_cost,
    .flops_each = 1,
    .samples = samples,
};

const tt_op_def tt_op_nonzero_sum = {
    .name = "nonzero_sum",
    .doc = "The sum of entries at their places.",
    .shape_only = 1U << TT_PSUM_LIKE,
    .family = &tt_form_nonzero,
    .infer = tt__packet_infer_sum,
    .cost = tt_cost_each,
    .flops_each = 1,
    .samples = samples_sum,
};
