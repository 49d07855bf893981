// device - the reference backend: plain C on the host.
//
// It is the oracle that every other kernel is compared with, and the last resort of
// every other backend. So its kernels are written to be obviously right, not fast:
//
//   - they read each element as a double, compute in double, and round once when they
//     store, so the same source serves f64, f32, f16 and bf16
//   - sums run in the order of the formula, on one thread
//   - any type and any shape, also parts of a tensor that is split over ranks
//
// The exception is the matrix product (gemm.h): matmul, convolution and LSTM share one
// that is blocked, because tests would take too long otherwise.

#include "backend/backend.h"
#include "backend/ref/table.h"

static bool has_dtype(tt_dtype dtype)
{
    return dtype < TT_N_DTYPES;
}

const tt_backend_def tt_backend_ref = {
    .name = "ref",
    .doc = "Plain C, every operator in every precision; slow, the oracle.",
    .kernels = tt_ref_kernels,
    .has_dtype = has_dtype,
};
