// nccl - collectives between devices by NCCL: all-reduce, reduce-scatter, all-gather,
// broadcast, reduce, send and receive.
//
// The library is opened when it is first needed (dlopen): beside the plug-in, then
// where the system looks. So one build runs with and without it, and a machine without
// NCCL gets a message that says so, and no linker error.
//
// Communicators are non-blocking (config.blocking = 0). A call may return
// ncclInProgress, and the caller asks nccl_is_busy until it is done. That matters when
// a rank dies: a blocking ncclCommInitRank would wait for it without end. Here the
// wire's thread decides how long to wait, and closes a broken communicator with
// ncclCommAbort.
//
// Collectives run in the wire's stream (queue.cu), and several are grouped into one
// launch by ncclGroupStart and ncclGroupEnd. A communicator of its own stream (is_apart)
// waits for no other: what a pipeline's stage sends may not wait for what it receives.

#include "backend/cuda/dev/common.cuh"
#include "backend/cuda/dev/wire/nccl.cuh"

#include <dlfcn.h>
#include <mutex>
#include <new>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct tt_cuda_nccl {
    tt_cuda *cuda;
    ncclComm_t comm;
    cudaStream_t own; // NULL: the wire's
};

// ---- the library -----------------------------------------------------------

static struct {
    void *handle;
    int version;
    char missing[200]; // why it cannot be used
    const char *(*text)(ncclResult_t error);
    const char *(*last)(ncclComm_t comm); // NULL: it does not say
#define NCCL_POINTER(name, args) ncclResult_t(*name) args;
    NCCL_FUNCTIONS(NCCL_POINTER)
#undef NCCL_POINTER
} lib;

static void *open_library(void)
{
    static const char *const name = "libnccl.so.2";
    Dl_info info;
    void *handle = NULL;
    if (dladdr((void *)&lib, &info) != 0 && info.dli_fname != NULL) {
        const char *slash = strrchr(info.dli_fname, '/');
        const int n = slash == NULL ? 0 : (int)(slash + 1 - info.dli_fname);
        char path[4096];
        snprintf(path, sizeof path, "%.*s%s", n, info.dli_fname, name);
        if (n > 0)
            handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return handle != NULL ? handle : dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

static void *find(const char *name)
{
    void *f = dlsym(lib.handle, name);
    if (f == NULL)
        snprintf(lib.missing, sizeof lib.missing, "this NCCL has no %s", name);
    return f;
}

static void load(void)
{
    lib.handle = open_library();
    if (lib.handle == NULL) {
        const char *why = dlerror();
        snprintf(lib.missing, sizeof lib.missing, "there is no NCCL (%s)",
                 why == NULL ? "libnccl.so.2 is not found" : why);
        return;
    }
#define NCCL_FIND(name, args)                                                  \
    lib.name = (ncclResult_t(*) args)find("nccl" #name);
    NCCL_FUNCTIONS(NCCL_FIND)
#undef NCCL_FIND
    lib.text = (const char *(*)(ncclResult_t))find("ncclGetErrorString");
    lib.last =
        (const char *(*)(ncclComm_t))dlsym(lib.handle, "ncclGetLastError");
    if (lib.missing[0] != '\0')
        return;
    if (lib.GetVersion(&lib.version) != ncclSuccess || lib.version < NCCL_LEAST)
        snprintf(lib.missing, sizeof lib.missing,
                 "NCCL %d is too old: 2.17 or later is needed", lib.version);
}

static const char *need(void)
{
    static std::once_flag once;
    std::call_once(once, load);
    return lib.missing[0] == '\0' ? NULL : lib.missing;
}

extern "C" const char *tt_cuda_nccl_version(int *version_out)
{
    TRY(need());
    *version_out = lib.version;
    return NULL;
}

// ---- communicators ---------------------------------------------------------

static const char *failed(ncclResult_t error, ncclComm_t comm)
{
    const char *last = lib.last != NULL ? lib.last(comm) : NULL;
    const bool says = last != NULL && last[0] != '\0';
    return tt_cuda_failed_text("%s%s%.150s", lib.text(error), says ? ": " : "",
                               says ? last : "");
}

#define TRY_NCCL(call, comm)                                                   \
    do {                                                                       \
        const ncclResult_t try_error = (call);                                 \
        if (try_error != ncclSuccess && try_error != ncclInProgress)           \
            return failed(try_error, comm);                                    \
    } while (0)

extern "C" const char *
tt_cuda_nccl_make_id(tt_cuda *c, unsigned char id_out[TT_DEVICE_COMM_ID])
{
    ncclUniqueId id;
    TRY(need());
    TRY_CUDA(cudaSetDevice(c->device));
    TRY_NCCL(lib.GetUniqueId(&id), NULL);
    memcpy(id_out, id.internal, sizeof id.internal);
    return NULL;
}

static void destroy(tt_cuda_nccl *k)
{
    if (k->own != NULL)
        (void)cudaStreamDestroy(k->own);
    delete k;
}

static cudaStream_t stream_of(const tt_cuda_nccl *k)
{
    return k->own != NULL ? k->own : tt_cuda_queue_stream(k->cuda);
}

extern "C" const char *
tt_cuda_nccl_open(tt_cuda *c, const unsigned char id_in[TT_DEVICE_COMM_ID],
                  int n, int me, bool is_apart, tt_cuda_nccl **out)
{
    ncclConfig_t config = {sizeof config, (unsigned)NCCL_MAGIC,
                           NCCL_LEAST,    0,
                           INT_MIN,       INT_MIN,
                           INT_MIN,       NULL};
    ncclUniqueId id;
    TRY(need());
    TRY_CUDA(cudaSetDevice(c->device));
    TRY(tt_cuda_queue_events(c, 0)); // its stream
    memcpy(id.internal, id_in, sizeof id.internal);
    tt_cuda_nccl *k = new (std::nothrow) tt_cuda_nccl();
    if (k == NULL)
        return tt_cuda_failed_text("no memory");
    k->cuda = c;
    const cudaError_t made =
        is_apart ? tt_cuda_queue_stream_make(&k->own) : cudaSuccess;
    if (made != cudaSuccess) {
        delete k;
        return tt_cuda_failed(made);
    }
    const ncclResult_t error =
        lib.CommInitRankConfig(&k->comm, n, id, me, &config);
    if (error != ncclSuccess && error != ncclInProgress) {
        const char *text = failed(error, NULL);
        destroy(k);
        return text;
    }
    *out = k;
    return NULL;
}

extern "C" const char *tt_cuda_nccl_is_busy(tt_cuda_nccl *k, bool *busy_out)
{
    ncclResult_t state = ncclSuccess;
    TRY_NCCL(lib.CommGetAsyncError(k->comm, &state), k->comm);
    *busy_out = state == ncclInProgress;
    return state == ncclSuccess || state == ncclInProgress
               ? NULL
               : failed(state, k->comm);
}

// Closes in an orderly way (finalize, then destroy) where nothing is broken, and waits
// up to 5 seconds for it. After that, or where something is broken, it aborts: abort
// works even where peers are gone.
extern "C" void tt_cuda_nccl_close(tt_cuda_nccl *k, bool is_broken)
{
    const struct timespec nap = {0, 1000000};
    bool is_busy = true;
    (void)cudaSetDevice(k->cuda->device);
    if (!is_broken && lib.CommFinalize(k->comm) <= ncclInProgress)
        for (int i = 0; i < 5000 && is_busy; i++) {
            if (tt_cuda_nccl_is_busy(k, &is_busy) != NULL)
                break;
            if (is_busy)
                (void)nanosleep(&nap, NULL);
        }
    if (is_busy)
        (void)lib.CommAbort(k->comm);
    else
        (void)lib.CommDestroy(k->comm);
    destroy(k);
}

extern "C" const char *tt_cuda_nccl_note(tt_cuda_nccl *k, int64_t event)
{
    return tt_cuda_queue_note_in(k->cuda, stream_of(k), event);
}

// ---- collectives -----------------------------------------------------------

static ncclDataType_t type_of(tt_dtype dtype)
{
    switch (dtype) {
    case TT_F64:
        return ncclFloat64;
    case TT_F32:
        return ncclFloat32;
    case TT_BF16:
        return ncclBfloat16;
    case TT_F16:
        return ncclFloat16;
    case TT_I64:
        return ncclInt64;
    case TT_I32:
        return ncclInt32;
    default:
        return ncclUint8;
    }
}

static ncclResult_t run_one(const tt_cuda_nccl *k, const tt_device_coll *l,
                            cudaStream_t stream)
{
    const ncclDataType_t type = type_of(l->dtype);
    const ncclRedOp_t op = l->is_max ? ncclMax : ncclSum;
    const size_t n = (size_t)l->count;
    switch (l->kind) {
    case TT_DEVICE_COLL_ALL_REDUCE:
        return lib.AllReduce(l->in, l->out, n, type, op, k->comm, stream);
    case TT_DEVICE_COLL_REDUCE:
        return lib.Reduce(l->in, l->out, n, type, op, l->peer, k->comm, stream);
    case TT_DEVICE_COLL_BROADCAST:
        return lib.Broadcast(l->in, l->out, n, type, l->peer, k->comm, stream);
    case TT_DEVICE_COLL_ALL_GATHER:
        return lib.AllGather(l->in, l->out, n, type, k->comm, stream);
    case TT_DEVICE_COLL_REDUCE_SCATTER:
        return lib.ReduceScatter(l->in, l->out, n, type, op, k->comm, stream);
    case TT_DEVICE_COLL_SEND:
        return lib.Send(l->in, n, type, l->peer, k->comm, stream);
    default:
        return lib.Recv(l->out, n, type, l->peer, k->comm, stream);
    }
}

extern "C" const char *tt_cuda_nccl_run(tt_cuda_nccl *k,
                                        const tt_device_coll *call, int n)
{
    const cudaStream_t stream = stream_of(k);
    TRY_CUDA(cudaSetDevice(k->cuda->device));
    TRY_NCCL(lib.GroupStart(), k->comm);
    ncclResult_t error = ncclSuccess;
    for (int i = 0; i < n && error == ncclSuccess; i++) {
        error = run_one(k, &call[i], stream);
        if (error == ncclInProgress)
            error = ncclSuccess;
    }
    const ncclResult_t end = lib.GroupEnd();
    TRY_NCCL(error, k->comm);
    TRY_NCCL(end, k->comm);
    return NULL;
}
