// dnn - cuDNN's graph interface (its backend API). An operation is described by a graph
// of descriptors: tensors, operations, the graph, an engine with its settings, a plan.
// Each is made, filled in attribute by attribute, and finalised, and each call can
// fail.
//
// dnn_graph makes that bearable: it owns all descriptors and remembers the first
// failure, so that callers describe everything and ask once, in the end, whether it was
// good.
//
// cuDNN is opened at first use (dlopen), so the plug-in works without it: convolutions
// and attention then have their other ways.

#ifndef TT_BACKEND_CUDA_DEV_DNN_CUH
#define TT_BACKEND_CUDA_DEV_DNN_CUH

#include "backend/cuda/dev/common.cuh"

#include <cudnn_graph.h>

#include <dlfcn.h>
#include <vector>

typedef cudnnBackendDescriptor_t dnn_desc;

#define DNN_FUNCTIONS(F)                                                       \
    F(cudnnGetVersion)                                                         \
    F(cudnnCreate)                                                             \
    F(cudnnSetStream)                                                          \
    F(cudnnGetErrorString)                                                     \
    F(cudnnBackendCreateDescriptor)                                            \
    F(cudnnBackendDestroyDescriptor)                                           \
    F(cudnnBackendSetAttribute)                                                \
    F(cudnnBackendGetAttribute)                                                \
    F(cudnnBackendFinalize)                                                    \
    F(cudnnBackendExecute)

struct dnn_library {
    bool is_here;
#define POINTER(name) decltype(&::name) name;
    DNN_FUNCTIONS(POINTER)
#undef POINTER
};

inline dnn_library dnn_load(void)
{
    dnn_library l = {};
    void *so = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    l.is_here = so != NULL;
    if (so == NULL)
        return l;
#define FIND(name)                                                             \
    l.name = (decltype(l.name))dlsym(so, #name);                               \
    l.is_here = l.is_here && l.name != NULL;
    DNN_FUNCTIONS(FIND)
#undef FIND
    return l;
}

inline const dnn_library &dnn(void)
{
    static const dnn_library loaded = dnn_load();
    return loaded;
}

// NULL: there is no cuDNN that works.
inline cudnnHandle_t dnn_handle(tt_cuda *cuda)
{
    if (cuda->cudnn == NULL && dnn().is_here) {
        cudnnHandle_t handle = NULL;
        if (dnn().cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS &&
            dnn().cudnnSetStream(handle, cuda->stream) == CUDNN_STATUS_SUCCESS)
            cuda->cudnn = handle;
    }
    return (cudnnHandle_t)cuda->cudnn;
}

struct dnn_graph {
    std::vector<dnn_desc> owned, ops;
    cudnnStatus_t status;

    dnn_graph() : status(CUDNN_STATUS_SUCCESS)
    {
    }
    ~dnn_graph()
    {
        for (dnn_desc d : owned)
            dnn().cudnnBackendDestroyDescriptor(d);
    }

    bool good() const
    {
        return status == CUDNN_STATUS_SUCCESS;
    }

    dnn_desc make(cudnnBackendDescriptorType_t type)
    {
        dnn_desc d = NULL;
        if (good())
            status = dnn().cudnnBackendCreateDescriptor(type, &d);
        if (d != NULL)
            owned.push_back(d);
        return d;
    }
    void set(dnn_desc d, cudnnBackendAttributeName_t name,
             cudnnBackendAttributeType_t type, int64_t n, const void *value)
    {
        if (good())
            status = dnn().cudnnBackendSetAttribute(d, name, type, n, value);
    }
    void set(dnn_desc d, cudnnBackendAttributeName_t name, dnn_desc value)
    {
        set(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
    }
    void finalize(dnn_desc d)
    {
        if (good())
            status = dnn().cudnnBackendFinalize(d);
    }
    // Up to n; returns their number.
    int64_t get(dnn_desc d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t n, void *out)
    {
        int64_t found = 0;
        if (good())
            status =
                dnn().cudnnBackendGetAttribute(d, name, type, n, &found, out);
        return good() ? (found < n ? found : n) : 0;
    }
};

// Runs a plan. Tensors were given ids when they were described; `ids` and the addresses
// say now where each lies.
inline cudnnStatus_t dnn_execute(cudnnHandle_t handle, dnn_desc plan,
                                 const std::vector<int64_t> &ids,
                                 const std::vector<void *> &data,
                                 void *workspace)
{
    dnn_graph g;
    const dnn_desc pack = g.make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    g.set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
          (int64_t)ids.size(), ids.data());
    g.set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
          (int64_t)data.size(), data.data());
    g.set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
          &workspace);
    g.finalize(pack);
    return g.good() ? dnn().cudnnBackendExecute(handle, plan, pack) : g.status;
}

#endif
