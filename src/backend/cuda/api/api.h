// api - the table of everything that the plug-in libtutti-cuda offers: memory of the
// device, launchers of kernels, GEMMs, fused attention, convolutions, collectives.
//
// The plug-in is built by nvcc and links with CUDA; the library is plain C and does
// not. This table is all that each knows of the other: plain C, with no type of CUDA
// and none of the graph. So one build of the library runs with and without a GPU, and a
// machine without CUDA can still plan for one (paper.h fills in the same table).
//
//   library: backend/cuda/*.c   describe a site: extents, strides, types, addresses
//        |   tt_cuda_api
//   plug-in: backend/cuda/dev   choose a kernel, launch it
//
// There are two kinds of calls. Simple kernels are launched by their arguments alone
// (launchers.h). GEMMs, attention and convolutions are first created from a
// description, because choosing the fastest algorithm takes time, and are then run at
// every step.
//
// Calls return NULL, or a sentence that says what failed (valid until the next call).
// Work is queued in one stream, and nothing waits for it except `read`, `wait` and
// `close`. Addresses are the device's unless said otherwise.

#ifndef TT_BACKEND_CUDA_API_API_H
#define TT_BACKEND_CUDA_API_API_H

#include "backend/cuda/api/api_wire.h"
#include "backend/cuda/api/args_codec.h"
#include "backend/cuda/api/args_device.h"
#include "backend/cuda/api/args_elements.h"
#include "backend/cuda/api/args_images.h"
#include "backend/cuda/api/args_packets.h"
#include "backend/cuda/api/args_parts.h"
#include "backend/cuda/api/args_rows.h"
#include "backend/cuda/api/launchers.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_cuda_recording tt_cuda_recording;
typedef struct tt_cuda_lane tt_cuda_lane;
typedef struct tt_cuda_gemm tt_cuda_gemm;
typedef struct tt_cuda_sdpa tt_cuda_sdpa;
typedef struct tt_cuda_conv tt_cuda_conv;

// A GEMM: c[m, n] = (c +) a[m, k] b[k, n] (+ bias[n]) (+ plus), `batch` times. Strides
// are in elements; of the two strides of a matrix one is 1. A transpose is a pair of
// strides.
typedef struct tt_cuda_matrix {
    tt_dtype type;
    int64_t row, col, batch;
} tt_cuda_matrix;

typedef enum tt_cuda_sums {
    TT_CUDA_NO_SUMS,
    TT_CUDA_SUMS_OF_A, // over k, m of them
    TT_CUDA_SUMS_OF_B, // over k, n of them
} tt_cuda_sums;

// Epilogues: of has_gelu, has_gelu_grad and sums there is one at most, and c, aux and z
// have no gaps then.
typedef struct tt_cuda_gemm_desc {
    int64_t batch, m, n, k;
    tt_cuda_matrix a, b, c;
    tt_dtype bias_type; // TT_N_DTYPES: none
    bool adds;          // c += is wanted too
    bool has_plus;      // lies as c does
    bool has_gelu;      // c = gelu_tanh(y), y to `aux`
    bool has_gelu_grad; // c = y * gelu_tanh'(z)
    tt_cuda_sums sums;  // also, in f32
    bool is_fast;       // of 8-bit operands: sums may have fewer bits than f32
    bool is_exact;      // how it is done may depend on nothing that is measured
} tt_cuda_gemm_desc;

typedef struct tt_cuda_gemm_args {
    const void *a, *b, *bias, *plus, *z;
    const float *a_unit, *b_unit; // factors of 8-bit operands
    void *c, *aux, *sums;
    bool accumulate;
    void *scratch;
} tt_cuda_gemm_args;

typedef struct tt_cuda_api {
    const char *version; // of the build: must be the library's
    int64_t bytes;       // of this struct

    int (*devices)(void); // 0: none, or no driver
    const char *(*open)(int device, const tt_cuda_memo *memo,
                        tt_cuda **cuda_out);
    void (*close)(tt_cuda *cuda);
    const char *(*info)(tt_cuda *cuda, tt_cuda_info *info_out);

    const char *(*alloc)(tt_cuda *cuda, int64_t bytes, void **out);
    void (*free)(tt_cuda *cuda, void *block);
    const char *(*fill)(tt_cuda *cuda, void *to, int byte, int64_t bytes);
    const char *(*write)(tt_cuda *cuda, void *to, const void *host, int64_t n);
    const char *(*read)(tt_cuda *cuda, void *host, const void *from, int64_t n);
    const char *(*wait)(tt_cuda *cuda);
    const char *(*mark)(tt_cuda *cuda, int64_t number);
    const char *(*between)(tt_cuda *cuda, int64_t from, int64_t to,
                           double *seconds_out);

    // CUDA graphs: launches between `record` and `recorded` are captured, not done, and
    // `replay` does them. Meanwhile what waits, or reads or writes the host's memory,
    // fails. *out is NULL when it cannot be repeated, and without `keep`.
    const char *(*record)(tt_cuda *cuda);
    const char *(*recorded)(tt_cuda *cuda, bool keep, tt_cuda_recording **out);
    const char *(*replay)(tt_cuda *cuda, tt_cuda_recording *recording);
    void (*forget)(tt_cuda *cuda, tt_cuda_recording *recording);

    tt_cuda_beside_api beside;
    tt_cuda_drain_api drain;
    tt_cuda_wire_api wire;

    // See backend/lane.h.
    const char *(*lane_open)(tt_cuda *cuda, int64_t bytes, tt_cuda_lane **out);
    void (*lane_close)(tt_cuda_lane *lane);
    const char *(*lane_room)(tt_cuda_lane *lane, void **host_out);
    const char *(*lane_send)(tt_cuda_lane *lane, int64_t n);
    const char *(*lane_take)(tt_cuda_lane *lane, void *to, int64_t n);

    int64_t (*reduce_scratch)(const tt_cuda_reduce_args *args);
    int64_t (*norm_scratch)(const tt_cuda_norm_args *args);
    int64_t (*embed_scratch)(const tt_cuda_embed_args *args);
    int64_t (*bn_scratch)(const tt_cuda_bn_args *args);
    int64_t (*route_scratch)(const tt_cuda_route_args *args);
    int64_t (*topk_scratch)(int64_t n);

    const char *(*fp8_pack_open)(tt_cuda *cuda); // before the first fp8_pack
    int64_t (*fp8_pack_scratch)(const tt_cuda_fp8_pack_args *args);

    // *gemm_out is NULL where the library has no way for the shape.
    const char *(*gemm_create)(tt_cuda *cuda, const tt_cuda_gemm_desc *desc,
                               tt_cuda_gemm **gemm_out);
    void (*gemm_destroy)(tt_cuda_gemm *gemm);
    int64_t (*gemm_scratch)(const tt_cuda_gemm *gemm);
    const char *(*gemm_run)(tt_cuda *cuda, tt_cuda_gemm *gemm,
                            const tt_cuda_gemm_args *args);

    // Fused attention of 16-bit types, or its gradient; *sdpa_out is NULL where
    // cuDNN has no way. Strides are those of `args`, addresses come later.
    const char *(*sdpa_create)(tt_cuda *cuda,
                               const tt_cuda_attention_args *args, bool is_grad,
                               tt_cuda_sdpa **sdpa_out);
    void (*sdpa_destroy)(tt_cuda_sdpa *sdpa);
    int64_t (*sdpa_scratch)(const tt_cuda_sdpa *sdpa);
    const char *(*sdpa_run)(tt_cuda *cuda, tt_cuda_sdpa *sdpa,
                            const tt_cuda_attention_args *args);

    const char *(*conv_create)(tt_cuda *cuda, const tt_cuda_conv_desc *desc,
                               tt_cuda_conv **conv_out);
    void (*conv_destroy)(tt_cuda_conv *conv);
    int64_t (*conv_scratch)(const tt_cuda_conv *conv);
    const char *(*conv_run)(tt_cuda *cuda, tt_cuda_conv *conv,
                            const tt_cuda_conv_args *args);

#define TT_CUDA_CALL(name, type)                                               \
    const char *(*name)(tt_cuda * cuda, const type *args);
    TT_CUDA_LAUNCHERS(TT_CUDA_CALL)
#undef TT_CUDA_CALL
} tt_cuda_api;

// The plug-in's only symbol: const tt_cuda_api tutti_cuda_api.

#endif
