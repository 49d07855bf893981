// device - the reference backend: plain C on the host, the oracle that every
// other kernel is compared with.

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
