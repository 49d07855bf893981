// hopper - TMA descriptors (CUtensorMap), which the driver encodes on the host. They go
// to a kernel as __grid_constant__ arguments. The function is asked of the driver at
// run time, so that the plug-in does not link with libcuda.

#include "backend/cuda/dev/hopper.cuh"

typedef CUresult encode_fn(CUtensorMap *, CUtensorMapDataType, cuuint32_t,
                           void *, const cuuint64_t *, const cuuint64_t *,
                           const cuuint32_t *, const cuuint32_t *,
                           CUtensorMapInterleave, CUtensorMapSwizzle,
                           CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

// The driver's cuTensorMapEncodeTiled; NULL: it has none.
static encode_fn *encoder()
{
    static encode_fn *const found = [] {
        void *f = NULL;
        cudaDriverEntryPointQueryResult how;
        const cudaError_t status = cudaGetDriverEntryPointByVersion(
            "cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault, &how);
        (void)cudaGetLastError();
        return status == cudaSuccess && how == cudaDriverEntryPointSuccess
                   ? (encode_fn *)f
                   : (encode_fn *)NULL;
    }();
    return found;
}

bool tensor_map(CUtensorMap *map, const tensor_view &view)
{
    const cuuint32_t ones[] = {1, 1, 1, 1};
    cuuint64_t dim[4], stride[4]; // strides of all but the first, in bytes
    cuuint32_t box[4];
    for (int i = 0; i < view.rank; i++) {
        dim[i] = (cuuint64_t)view.dim[i];
        stride[i] = (cuuint64_t)view.stride[i] * 2;
        box[i] = (cuuint32_t)view.box[i];
    }
    return encoder()(map,
                     view.type == TT_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                          : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                     (cuuint32_t)view.rank, (void *)view.data, dim, stride + 1,
                     box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE,
                     view.box[0] == 32 ? CU_TENSOR_MAP_SWIZZLE_64B
                                       : CU_TENSOR_MAP_SWIZZLE_128B,
                     CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                     CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

bool is_hopper(const tt_cuda *cuda)
{
    return cuda->info.major == 9 && cuda->info.minor == 0 && encoder() != NULL;
}
