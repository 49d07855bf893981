// gemm - matrix products with the same bits for any number of threads.

#ifndef TT_BACKEND_CPU_DNNL_GEMM_H
#define TT_BACKEND_CPU_DNNL_GEMM_H

#include "backend/cpu/dnnl/dnnl.h"
#include "backend/cpu/simd.h"

typedef struct tt__cpu_gemm tt__cpu_gemm;

// c = a b + bias. Plain tensors [..., m, k], [..., k, n] and [..., m, n] of the same
// number of dimensions; bias [n] or absent.
typedef struct tt__cpu_gemm_desc {
    tt__dnnl_tensor a, b, bias, c;
    bool can_add; // c += a b is wanted too
} tt__cpu_gemm_desc;

// TT_ERR_UNSUPPORTED without a message: the library has no fast way for these
// strides.
tt_status tt__cpu_gemm_create(tt__dnnl *dnnl, const tt__cpu_gemm_desc *d,
                              tt__cpu_gemm **gemm_out);
void tt__cpu_gemm_destroy(void *gemm); // a tt__cpu_gemm; NULL is fine
int64_t tt__cpu_gemm_scratch_bytes(const tt__cpu_gemm *gemm);

// `data`: a, b, bias, c.
tt_status tt__cpu_gemm_run(tt__cpu_gemm *gemm, const void *const data[4],
                           bool adds, void *scratch);

// The activation that a matmul node applies to its result, without addresses.
tt_simd_act_args tt__matmul_act(const tt_site *site);

#endif
