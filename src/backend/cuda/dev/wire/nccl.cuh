// nccl - the part of NCCL's interface that is used. It is declared here because nccl.h
// need not be there when this is built, nor libnccl when it runs: the library is opened
// with dlopen, and NCCL_FUNCTIONS lists what is looked up in it. Values are those of
// NCCL 2, whose ABI has kept them.

#ifndef TT_BACKEND_CUDA_DEV_WIRE_NCCL_CUH
#define TT_BACKEND_CUDA_DEV_WIRE_NCCL_CUH

#include <cuda_runtime.h>

#include <limits.h>

typedef struct ncclComm *ncclComm_t;
typedef struct {
    char internal[128];
} ncclUniqueId;

typedef enum { ncclSuccess = 0, ncclInProgress = 7 } ncclResult_t;
typedef enum { ncclSum = 0, ncclMax = 2 } ncclRedOp_t;
typedef enum {
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclInt64 = 4,
    ncclFloat16 = 6,
    ncclFloat32 = 7,
    ncclFloat64 = 8,
    ncclBfloat16 = 9,
} ncclDataType_t;

// The struct as 2.17 has it. Later versions have more fields; they see by `version` and
// `size` that these end here.
typedef struct {
    size_t size;
    unsigned magic, version;
    int blocking, cgaClusterSize, minCTAs, maxCTAs;
    const char *netName;
} ncclConfig_t;

enum { NCCL_LEAST = 21700, NCCL_MAGIC = (int)0xcafebeef };

#define NCCL_FUNCTIONS(F)                                                      \
    F(GetVersion, (int *version))                                              \
    F(GetUniqueId, (ncclUniqueId * id))                                        \
    F(CommInitRankConfig, (ncclComm_t * comm, int n, ncclUniqueId id, int me,  \
                           ncclConfig_t *config))                              \
    F(CommFinalize, (ncclComm_t comm))                                         \
    F(CommDestroy, (ncclComm_t comm))                                          \
    F(CommAbort, (ncclComm_t comm))                                            \
    F(CommGetAsyncError, (ncclComm_t comm, ncclResult_t * error))              \
    F(AllReduce,                                                               \
      (const void *in, void *out, size_t count, ncclDataType_t type,           \
       ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream))                  \
    F(Reduce,                                                                  \
      (const void *in, void *out, size_t count, ncclDataType_t type,           \
       ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream))        \
    F(Broadcast,                                                               \
      (const void *in, void *out, size_t count, ncclDataType_t type, int root, \
       ncclComm_t comm, cudaStream_t stream))                                  \
    F(AllGather, (const void *in, void *out, size_t count,                     \
                  ncclDataType_t type, ncclComm_t comm, cudaStream_t stream))  \
    F(ReduceScatter,                                                           \
      (const void *in, void *out, size_t count, ncclDataType_t type,           \
       ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream))                  \
    F(Send, (const void *in, size_t count, ncclDataType_t type, int peer,      \
             ncclComm_t comm, cudaStream_t stream))                            \
    F(Recv, (void *out, size_t count, ncclDataType_t type, int peer,           \
             ncclComm_t comm, cudaStream_t stream))                            \
    F(GroupStart, (void))                                                      \
    F(GroupEnd, (void))

#endif
