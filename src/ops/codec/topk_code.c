// topk_encode, topk_sum - the entries of largest absolute value (sparse.h).
//
//   bytes   8 + 8 ceil(ratio n): a value and its place
//   error   biased: only with a residual, which keeps all other entries
//   flops   a comparison per element and byte of it: 4; sum 1
//   source  Aji & Heafield 2017; Stich et al. 2018

#include "ops/codec/sparse.h"
#include "ops/cost.h"
#include "ops/ops.h"

#include <math.h>

int64_t tt_sparse_count(double ratio, int64_t n)
{
    const int64_t k = (int64_t)ceil(ratio * (double)n);
    return k < 1 ? 1 : k > n ? n : k;
}

static int64_t body(const tt_packet_form *form, const void *params, int64_t n,
                    tt_dtype dtype)
{
    (void)form;
    const tt_sparse_params *p = params;
    return tt_sparse_body(tt_sparse_count(p->ratio, n),
                          tt_packet_value_bytes(dtype));
}

const tt_packet_form tt_form_topk = {
    .kind = TT_PACKET_SPARSE,
    .body = body,
};

void tt__sparse_cost(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    const double n = tt_cost_count(&io->in[TT_PX]);
    tt_cost_reduction(io, 0, io->op->flops_each * n, n, cost);
}

const tt_opt tt_topk_options[] = {
    {"ratio", "0.01", "part of the entries that is sent", TT_OPT_F64,
     .offset = offsetof(tt_sparse_params, ratio), .min = 0, .max = 1},
    {0},
};

static const tt_sample samples[] = {
    {"ratio=0.3", {"f a:3 b:7"}, 84},
    {"", {"f a:9", "m a:9"}, 36},
    {"ratio=0.5", {"=1 a:2 b:3.c:4", "m=0 a:2 b:3.c:4"}, 96}, // all are equal
    {"ratio=1", {"f a:5"}, 20},
    {"ratio=0.013", {"f a:50 b:31", "m a:50 b:31"}, 6200},
    {"ratio=0.1", {"=0 a:70"}, 280},
    {0},
};

static const tt_sample samples_sum[] = {
    {"ratio=0.3", {"c1", "f a:3 b:7"}, 21},
    {"ratio=0.1", {"c3", "f a:50 b:31"}, 1550},
    {"", {"c2", "f a:9"}, 9},
    {0},
};

const tt_op_def tt_op_topk_encode = {
    .name = "topk_encode",
    .doc = "The entries of largest absolute value.",
    .options = tt_topk_options,
    .params_bytes = sizeof(tt_sparse_params),
    .family = &tt_form_topk,
    .infer = tt__packet_infer,
    .cost = tt__sparse_cost,
    .flops_each = 4,
    .samples = samples,
};

const tt_op_def tt_op_topk_sum = {
    .name = "topk_sum",
    .doc = "The sum of entries at their places.",
    .options = tt_topk_options,
    .params_bytes = sizeof(tt_sparse_params),
    .shape_only = 1U << TT_PSUM_LIKE,
    .family = &tt_form_topk,
    .infer = tt__packet_infer_sum,
    .cost = tt_cost_each,
    .flops_each = 1,
    .samples = samples_sum,
};
