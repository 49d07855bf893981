// topk - the entries of largest absolute value, and where they are; topk_decode puts
// them into a tensor of zeros.
//
//   values   in the order of their places
//   places   in the vector of all elements, ascending; of entries that are as large the
//            first ones are taken; NaN counts as largest
//
// Places that topk_decode gets are distinct, and inside of what it makes.
//
//   flops   a comparison per element and byte of it: 4; back none
//   source  Aji & Heafield 2017; Lin et al. 2018 (DGC)

#include "ops/codec/codec.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"

#include <math.h>

enum { VALUES, PLACES, LIKE };

int64_t tt_topk_count(const tt_topk_params *params, int64_t n)
{
    const int64_t k = (int64_t)ceil(params->ratio * (double)n);
    return k < 1 ? 1 : k > n ? n : k;
}

static tt_status infer(tt_op_io *io)
{
    tt_shape kept = {0};
    TT_TRY(tt_infer_inputs(io, "topk", 1, 1));
    TT_TRY(tt_infer_float(io, "topk", 0));
    const int64_t n = tt_shape_count(&io->in[0].shape);
    if (n > INT32_MAX)
        return tt_fail(TT_ERR_ARG,
                       "topk: %lld entries are too many for places "
                       "of 32 bits",
                       (long long)n);
    TT_TRY(tt_shape_push(&kept, "kept", tt_topk_count(io->params, n)));
    tt_infer_add(io, io->in[0].dtype, &kept);
    tt_infer_add(io, TT_I32, &kept);
    return TT_OK;
}

static tt_status infer_back(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "topk_decode", 3, 3));
    TT_TRY(tt_infer_float(io, "topk_decode", VALUES));
    TT_TRY(tt_infer_float(io, "topk_decode", LIKE));
    TT_TRY(tt_infer_same_dims(io, "topk_decode", VALUES, PLACES));
    if (io->in[PLACES].dtype != TT_I32)
        return tt_fail(TT_ERR_ARG, "topk_decode: places are %s, not i32",
                       tt_dtype_name(io->in[PLACES].dtype));
    tt_infer_add(io, io->in[VALUES].dtype, &io->in[LIKE].shape);
    return TT_OK;
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const double n = tt_cost_count(&io->in[0]);
    tt_cost_reduction(io, 0, 4 * n, n, cost_out);
}

static const tt_opt options[] = {
    {"ratio", "0.01", "part of the entries that is kept", TT_OPT_F64,
     .offset = offsetof(tt_topk_params, ratio), .min = 0, .max = 1},
    {0},
};

static const tt_sample samples[] = {
    {"ratio=0.3", {"f a:3 b:7"}, 84},
    {"", {"f a:9"}, 36},
    {"ratio=0.5", {"=1 a:2 b:3.c:4"}, 96}, // all are as large
    {"ratio=1", {"f a:5"}, 20},
    {"ratio=0.013", {"f a:50 b:31"}, 6200},
    {0},
};

static const tt_sample samples_back[] = {
    {"", {"f", "i<21", "f a:3 b:7"}, 0},
    {"", {"f", "i<9", "f a:9"}, 0},
    {0},
};

const tt_op_def tt_op_topk = {
    .name = "topk",
    .doc = "The entries of largest absolute value, and where they are.",
    .options = options,
    .params_bytes = sizeof(tt_topk_params),
    .infer = infer,
    .cost = cost,
    .samples = samples,
};

const tt_op_def tt_op_topk_decode = {
    .name = "topk_decode",
    .doc = "Entries at their places, and zeros.",
    .shape_only = 1U << LIKE,
    .infer = infer_back,
    .cost = tt_cost_moved,
    .samples = samples_back,
};
