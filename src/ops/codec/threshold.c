// threshold_encode, threshold_sum - the entries above a threshold, each as plus or minus
// the threshold (sparse.h).
//
//   tau     the option, or `relative` times the root of the mean square of all entries,
//           as float; the least normal float at least. NaN where an entry that is sent
//           is not finite. Squares are added as doubles, 4096 entries at a time in
//           chains as in codes.h
//   bytes   8 + 4 per entry above tau; at most `ratio` of all entries are sent, then
//           the largest, and the others stay in the residual
//   error   biased: only with a residual
//   flops   2 per element; sum 1
//   source  Strom 2015; Dryden et al. 2016

#include "ops/codec/sparse.h"
#include "ops/cost.h"
#include "ops/ops.h"

static int64_t body(const tt_packet_form *form, const void *params, int64_t n,
                    tt_dtype dtype)
{
    (void)form;
    const tt_sparse_params *p = params;
    const int64_t k = tt_sparse_count(p->ratio, n);
    return p->has_values ? tt_sparse_body(k, tt_packet_value_bytes(dtype))
                         : tt_threshold_body(k);
}

static tt_packet_kind kind_of(const void *params)
{
    const tt_sparse_params *p = params;
    return p->has_values ? TT_PACKET_SPARSE : TT_PACKET_THRESHOLD;
}

const tt_packet_form tt_form_threshold = {
    .kind = TT_PACKET_THRESHOLD,
    .kind_of = kind_of,
    .body = body,
};

// The first row is not the user's: whoever uses the codec knows it.
const tt_opt tt_threshold_options[] = {
    {"values", "false", "packets have values, as those of topk_encode",
     TT_OPT_BOOL, .offset = offsetof(tt_sparse_params, has_values)},
    {"tau", "0", "the threshold; 0: relative to the entries' size", TT_OPT_F64,
     .offset = offsetof(tt_sparse_params, tau), .min = 0, .max = 1e30},
    {"relative", "2", "the threshold over the entries' root mean square",
     TT_OPT_F64, .offset = offsetof(tt_sparse_params, relative), .min = 0.01,
     .max = 1000},
    {"ratio", "0.0625", "part of the entries that is sent at most", TT_OPT_F64,
     .offset = offsetof(tt_sparse_params, ratio), .min = 0, .max = 1},
    {0},
};

static const tt_sample samples[] = {
    {"ratio=0.3", {"f a:3 b:7"}, 42},
    {"tau=0.5", {"f a:9", "m a:9"}, 18},
    {"tau=0.5 ratio=0.5", {"=1 a:2 b:3.c:4"}, 48}, // all are as large
    {"relative=1", {"f a:50 b:31", "m a:50 b:31"}, 3100},
    {"ratio=1 relative=0.5", {"f a:50 b:131"}, 13100},
    {"", {"=0 a:70"}, 140},
    {"values=true ratio=0.4 relative=1", {"f a:50 b:31", "m a:50 b:31"}, 3100},
    {0},
};

static const tt_sample samples_sum[] = {
    {"ratio=0.3 relative=1", {"c1", "f a:3 b:7"}, 21},
    {"ratio=0.5 relative=0.5", {"c3", "f a:50 b:31"}, 1550},
    {0},
};

const tt_op_def tt_op_threshold_encode = {
    .name = "threshold_encode",
    .doc = "The entries above a threshold, as plus or minus the threshold.",
    .options = tt_threshold_options,
    .params_bytes = sizeof(tt_sparse_params),
    .family = &tt_form_threshold,
    .infer = tt__packet_infer,
    .cost = tt__sparse_cost,
    .flops_each = 2,
    .samples = samples,
};

const tt_op_def tt_op_threshold_sum = {
    .name = "threshold_sum",
    .doc = "The sum of thresholds at their places.",
    .options = &tt_threshold_options[1],
    .params_bytes = sizeof(tt_sparse_params),
    .shape_only = 1U << TT_PSUM_LIKE,
    .family = &tt_form_threshold,
    .infer = tt__packet_infer_sum,
    .cost = tt_cost_each,
    .flops_each = 1,
    .samples = samples_sum,
};
