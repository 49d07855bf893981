// calls - every function that the plug-in offers. Each is defined in the file of its
// family; device.cu puts them all into the table that the library sees (api.h).

#ifndef TT_BACKEND_CUDA_DEV_CALLS_CUH
#define TT_BACKEND_CUDA_DEV_CALLS_CUH

extern "C" {
#include "backend/cuda/api/api.h"
}

#include <cuda_runtime.h>

#define TT_CUDA_CALL(name, type)                                               \
    extern "C" const char *tt_cuda_##name(tt_cuda *cuda, const type *args);
TT_CUDA_LAUNCHERS(TT_CUDA_CALL)
#undef TT_CUDA_CALL

extern "C" {
const char *tt_cuda_host_alloc(tt_cuda *cuda, int64_t bytes, void **out);
void tt_cuda_host_free(tt_cuda *cuda, void *block);
const char *tt_cuda_beside_create(tt_cuda *cuda, bool is_in,
                                  tt_cuda_beside **out);
void tt_cuda_beside_destroy(tt_cuda_beside *beside);
const char *tt_cuda_beside_begin(tt_cuda *cuda, tt_cuda_beside *beside,
                                 void *to, const void *from, int64_t bytes);
const char *tt_cuda_beside_finish(tt_cuda *cuda, tt_cuda_beside *beside);
const char *tt_cuda_drain_pin(tt_cuda *cuda, void *host, int64_t n);
void tt_cuda_drain_unpin(tt_cuda *cuda, void *host);
const char *tt_cuda_drain_begin(tt_cuda *cuda);
const char *tt_cuda_drain_copy(tt_cuda *cuda, void *host, const void *from,
                               int64_t n, bool in_steps);
const char *tt_cuda_drain_end(tt_cuda *cuda);
const char *tt_cuda_drain_hold(tt_cuda *cuda);
const char *tt_cuda_drain_wait(tt_cuda *cuda);
const char *tt_cuda_lane_open(tt_cuda *cuda, int64_t bytes, tt_cuda_lane **out);
void tt_cuda_lane_close(tt_cuda_lane *lane);
const char *tt_cuda_lane_room(tt_cuda_lane *lane, void **host_out);
const char *tt_cuda_lane_send(tt_cuda_lane *lane, int64_t n);
const char *tt_cuda_lane_take(tt_cuda_lane *lane, void *to, int64_t n);
const char *tt_cuda_queue_events(tt_cuda *cuda, int64_t n);
const char *tt_cuda_queue_pin(tt_cuda *cuda, void *host, int64_t n);
void tt_cuda_queue_unpin(tt_cuda *cuda);
void tt_cuda_queue_destroy(tt_cuda *cuda);
const char *tt_cuda_queue_note(tt_cuda *cuda, int queue, int64_t event);
const char *tt_cuda_queue_follow(tt_cuda *cuda, int queue, int64_t event);
const char *tt_cuda_queue_is_over(tt_cuda *cuda, int64_t event, bool *over_out);
const char *tt_cuda_queue_copy(tt_cuda *cuda, int queue, void *to,
                               const void *from, int64_t n);
const char *tt_cuda_queue_fill(tt_cuda *cuda, int queue, void *to, int byte,
                               int64_t n);
const char *tt_cuda_queue_move(tt_cuda *cuda, int queue, const tt_move *move);
cudaStream_t tt_cuda_queue_stream(const tt_cuda *cuda); // the wire's
// A stream of somebody's own that is like those of the queues, and an event in it.
cudaError_t tt_cuda_queue_stream_make(cudaStream_t *stream_out);
const char *tt_cuda_queue_note_in(tt_cuda *cuda, cudaStream_t stream,
                                  int64_t event);
const char *tt_cuda_nccl_version(int *version_out);
const char *tt_cuda_nccl_make_id(tt_cuda *cuda,
                                 unsigned char id[TT_DEVICE_COMM_ID]);
const char *tt_cuda_nccl_open(tt_cuda *cuda,
                              const unsigned char id[TT_DEVICE_COMM_ID], int n,
                              int me, bool is_apart, tt_cuda_nccl **out);
const char *tt_cuda_nccl_is_busy(tt_cuda_nccl *nccl, bool *busy_out);
const char *tt_cuda_nccl_run(tt_cuda_nccl *nccl, const tt_device_coll *call,
                             int n);
const char *tt_cuda_nccl_note(tt_cuda_nccl *nccl, int64_t event);
void tt_cuda_nccl_close(tt_cuda_nccl *nccl, bool is_broken);
int64_t tt_cuda_reduce_scratch(const tt_cuda_reduce_args *args);
int64_t tt_cuda_norm_scratch(const tt_cuda_norm_args *args);
int64_t tt_cuda_embed_scratch(const tt_cuda_embed_args *args);
int64_t tt_cuda_bn_scratch(const tt_cuda_bn_args *args);
int64_t tt_cuda_route_scratch(const tt_cuda_route_args *args);
int64_t tt_cuda_topk_scratch(int64_t n);
const char *tt_cuda_fp8_pack_open(tt_cuda *cuda);
int64_t tt_cuda_fp8_pack_scratch(const tt_cuda_fp8_pack_args *args);
const char *tt_cuda_gemm_create(tt_cuda *cuda, const tt_cuda_gemm_desc *desc,
                                tt_cuda_gemm **gemm_out);
void tt_cuda_gemm_destroy(tt_cuda_gemm *gemm);
int64_t tt_cuda_gemm_scratch(const tt_cuda_gemm *gemm);
const char *tt_cuda_gemm_run(tt_cuda_gemm *gemm, const tt_cuda_gemm_args *args);
const char *tt_cuda_sdpa_create(tt_cuda *cuda,
                                const tt_cuda_attention_args *args,
                                bool is_grad, tt_cuda_sdpa **sdpa_out);
void tt_cuda_sdpa_destroy(tt_cuda_sdpa *sdpa);
int64_t tt_cuda_sdpa_scratch(const tt_cuda_sdpa *sdpa);
const char *tt_cuda_sdpa_run(tt_cuda_sdpa *sdpa,
                             const tt_cuda_attention_args *args);
const char *tt_cuda_conv_create(tt_cuda *cuda, const tt_cuda_conv_desc *desc,
                                tt_cuda_conv **conv_out);
void tt_cuda_conv_destroy(tt_cuda_conv *conv);
int64_t tt_cuda_conv_scratch(const tt_cuda_conv *conv);
const char *tt_cuda_conv_run(tt_cuda_conv *conv, const tt_cuda_conv_args *args);
}

#endif
