// sdpa - fused attention (scaled dot-product attention) and its gradient, by cuDNN's
// graph interface or by our own kernels (attention_hopper*), where these take the site.
//
// cuDNN has no call "attention". The operator is described as a graph of small
// operations (product, scale, mask, exponential, sums, product), in just the form that
// cuDNN's attention engines recognise, and the first engine that takes the graph
// becomes a plan. Plans are kept for each shape. Tensors between operations are
// virtual: they exist only inside the fused kernel.
//
// Gradients are summed in a fixed order: cuDNN is asked for the variant without atomic
// additions, which made a step of 124M 1.1% slower. The graph of the gradient has the
// two factors of dropout although there is none, with the value 1: without them cuDNN
// 9.14 reads beyond its memory.

#include "backend/cuda/dev/attention/attention_own.cuh"
#include "backend/cuda/dev/dnn.cuh"

#include <float.h>
#include <map>
#include <mutex>
#include <new>
#include <string.h>
#include <tuple>
#include <vector>

typedef dnn_desc desc;

// ---- building graphs -------------------------------------------------------------

enum uid {
    Q = 1,
    K,
    V,
    O,
    STATS,
    D_O,
    D_Q,
    D_K,
    D_V,
    SCALE,
    LOWEST,
    ONE,      // numbers
    VIRTUALS, // from here on: inside the kernel
};

struct shape {
    int64_t dim[4], stride[4];
};

struct pointwise_how {
    cudnnDataType_t math;
    int64_t axis; // -1: none
    desc t;       // the truths of a selection; NULL: it is none
};

struct graph : dnn_graph {
    int64_t next;

    graph() : next(VIRTUALS)
    {
    }
    desc tensor(int64_t id, cudnnDataType_t type, const shape &s,
                bool by_value);
    desc scratch(cudnnDataType_t type, const shape &s);
    desc pointwise(cudnnPointwiseMode_t mode, desc x, desc b, desc y,
                   const pointwise_how &how);
    desc apply(cudnnPointwiseMode_t mode, desc x, desc b, const shape &s);
    desc reduce(cudnnReduceTensorOp_t op, desc x, desc y);
    desc multiply(desc a, desc b, desc c);
    desc turn(desc x, desc y);
};

desc graph::tensor(int64_t id, cudnnDataType_t type, const shape &s,
                   bool by_value)
{
    const desc d = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const int64_t alignment = 16;
    const bool is_virtual = id >= VIRTUALS;
    set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, s.dim);
    set(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, s.stride);
    set(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    set(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    finalize(d);
    return d;
}

// A virtual tensor, which lives inside the fused kernel only.
desc graph::scratch(cudnnDataType_t type, const shape &s)
{
    return tensor(next++, type, s, false);
}

desc graph::pointwise(cudnnPointwiseMode_t mode, desc x, desc b, desc y,
                      const pointwise_how &how)
{
    const desc p = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(p, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(p, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &how.math);
    if (how.axis >= 0)
        set(p, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &how.axis);
    finalize(p);
    const desc op = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, p);
    set(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b != NULL)
        set(op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    if (how.t != NULL)
        set(op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, how.t);
    set(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    finalize(op);
    ops.push_back(op);
    return y;
}

// An elementwise operation on floats, with a virtual result.
desc graph::apply(cudnnPointwiseMode_t mode, desc x, desc b, const shape &s)
{
    return pointwise(mode, x, b, scratch(CUDNN_DATA_FLOAT, s),
                     {CUDNN_DATA_FLOAT, -1, NULL});
}

desc graph::reduce(cudnnReduceTensorOp_t mode, desc x, desc y)
{
    const desc r = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    const cudnnDataType_t math = CUDNN_DATA_FLOAT;
    set(r, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1,
        &mode);
    set(r, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &math);
    finalize(r);
    const desc op = make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set(op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, r);
    set(op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set(op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    finalize(op);
    ops.push_back(op);
    return y;
}

desc graph::multiply(desc a, desc b, desc c)
{
    const desc m = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    const cudnnDataType_t math = CUDNN_DATA_FLOAT;
    set(m, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &math);
    finalize(m);
    const desc op = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set(op, CUDNN_ATTR_OPERATION_MATMUL_DESC, m);
    set(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set(op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set(op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    finalize(op);
    ops.push_back(op);
    return c;
}

// Reshape: the same elements under other dims.
desc graph::turn(desc x, desc y)
{
    const desc op = make(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set(op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set(op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    finalize(op);
    ops.push_back(op);
    return y;
}

// ---- attention as a graph ----------------------------------------------------------

static shape packed(int64_t b, int64_t h, int64_t s, int64_t d)
{
    return {{b, h, s, d}, {h * s * d, s * d, d, 1}};
}

static shape heads(const tt_cuda_heads &x, int64_t b, int64_t h, int64_t s,
                   int64_t d)
{
    return {{b, h, s, d}, {x.batch, x.head, x.seq, 1}};
}

static shape turned(const shape &s)
{
    return {{s.dim[0], s.dim[1], s.dim[3], s.dim[2]},
            {s.stride[0], s.stride[1], s.stride[3], s.stride[2]}};
}

static const shape one = {{1, 1, 1, 1}, {1, 1, 1, 1}};
static const cudnnDataType_t wide = CUDNN_DATA_FLOAT;

static cudnnDataType_t low_of(const tt_cuda_attention_args &a)
{
    return a.type == TT_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
}

struct parts { // shapes that both graphs use
    shape q, k, v, o, score, row;
};

static parts parts_of(const tt_cuda_attention_args &a)
{
    return {heads(a.q, a.batch, a.q_heads, a.q_len, a.head),
            heads(a.k, a.batch, a.kv_heads, a.k_len, a.head),
            heads(a.v, a.batch, a.kv_heads, a.k_len, a.head),
            heads(a.o, a.batch, a.q_heads, a.q_len, a.head),
            packed(a.batch, a.q_heads, a.q_len, a.k_len),
            packed(a.batch, a.q_heads, a.q_len, 1)};
}

// scale * q k', with the lowest number where a key comes after its query (causal mask).
static desc scores(graph &g, const tt_cuda_attention_args &a, const parts &p,
                   desc q, desc kt, desc scale)
{
    desc s = g.multiply(q, kt, g.scratch(wide, p.score));
    s = g.apply(CUDNN_POINTWISE_MUL, s, scale, p.score);
    if (!a.is_causal)
        return s;
    const cudnnDataType_t whole = CUDNN_DATA_INT32, truth = CUDNN_DATA_BOOLEAN;
    const desc row = g.pointwise(CUDNN_POINTWISE_GEN_INDEX, s, NULL,
                                 g.scratch(whole, p.score), {whole, 2, NULL});
    const desc col = g.pointwise(CUDNN_POINTWISE_GEN_INDEX, s, NULL,
                                 g.scratch(whole, p.score), {whole, 3, NULL});
    const desc sees = g.pointwise(CUDNN_POINTWISE_CMP_GE, row, col,
                                  g.scratch(truth, p.score), {truth, -1, NULL});
    return g.pointwise(CUDNN_POINTWISE_BINARY_SELECT, s,
                       g.tensor(LOWEST, wide, one, true),
                       g.scratch(wide, p.score), {wide, -1, sees});
}

static void forward(graph &g, const tt_cuda_attention_args &a)
{
    const parts p = parts_of(a);
    const cudnnDataType_t low = low_of(a);
    const desc q = g.tensor(Q, low, p.q, false);
    const desc kt = g.tensor(K, low, turned(p.k), false);
    const desc v = g.tensor(V, low, p.v, false);
    const desc scale = g.tensor(SCALE, wide, one, true);
    const desc s = scores(g, a, p, q, kt, scale);
    const desc top =
        g.reduce(CUDNN_REDUCE_TENSOR_MAX, s, g.scratch(wide, p.row));
    const desc e =
        g.apply(CUDNN_POINTWISE_EXP,
                g.apply(CUDNN_POINTWISE_SUB, s, top, p.score), NULL, p.score);
    const desc sum =
        g.reduce(CUDNN_REDUCE_TENSOR_ADD, e, g.scratch(wide, p.row));
    const desc log = g.apply(CUDNN_POINTWISE_LOG, sum, NULL, p.row);
    g.pointwise(CUDNN_POINTWISE_ADD, top, log,
                g.tensor(STATS, wide, p.row, false), {wide, -1, NULL});
    const desc w = g.pointwise(CUDNN_POINTWISE_DIV, e, sum,
                               g.scratch(low, p.score), {wide, -1, NULL});
    g.multiply(w, v, g.tensor(O, low, p.o, false));
}

// Grouped queries: a head of k and v that several heads of q share gets the sum of
// their gradients.
static void sum_heads(graph &g, const tt_cuda_attention_args &a, desc left,
                      desc right, desc result)
{
    if (a.q_heads == a.kv_heads) {
        g.multiply(left, right, result);
        return;
    }
    const shape all = packed(a.batch, a.q_heads, a.k_len, a.head);
    const cudnnDataType_t low = low_of(a);
    g.reduce(CUDNN_REDUCE_TENSOR_ADD,
             g.multiply(left, right, g.scratch(low, all)), result);
}

static void backward(graph &g, const tt_cuda_attention_args &a)
{
    const parts p = parts_of(a);
    const cudnnDataType_t low = low_of(a);
    const shape rows = heads(a.d_o, a.batch, a.q_heads, a.q_len, a.head);
    const shape dq = heads(a.d_q, a.batch, a.q_heads, a.q_len, a.head);
    const shape dk = heads(a.d_k, a.batch, a.kv_heads, a.k_len, a.head);
    const shape dv = heads(a.d_v, a.batch, a.kv_heads, a.k_len, a.head);
    const shape product = packed(a.batch, a.q_heads, a.q_len, a.head);
    const desc q = g.tensor(Q, low, p.q, false);
    const desc kt = g.tensor(K, low, turned(p.k), false);
    const desc vt = g.tensor(V, low, turned(p.v), false);
    const desc o = g.tensor(O, low, p.o, false);
    const desc d_o = g.tensor(D_O, low, rows, false);
    const desc stats = g.tensor(STATS, wide, p.row, false);
    const desc scale = g.tensor(SCALE, wide, one, true);

    // The engines expect the two factors that dropout would bring (cuDNN 9.14 reads
    // beyond its memory without them).
    const desc unit = g.tensor(ONE, wide, one, true);
    const desc mean =
        g.apply(CUDNN_POINTWISE_MUL,
                g.reduce(CUDNN_REDUCE_TENSOR_ADD,
                         g.apply(CUDNN_POINTWISE_MUL, d_o, o, product),
                         g.scratch(wide, p.row)),
                unit, p.row);
    const desc s = scores(g, a, p, q, kt, scale);
    const desc w =
        g.apply(CUDNN_POINTWISE_EXP,
                g.apply(CUDNN_POINTWISE_SUB, s, stats, p.score), NULL, p.score);
    const desc wt = g.turn(w, g.scratch(low, turned(p.score)));
    sum_heads(g, a, wt, d_o, g.tensor(D_V, low, dv, false));

    desc ds = g.multiply(d_o, vt, g.scratch(wide, p.score));
    ds = g.apply(CUDNN_POINTWISE_MUL, ds, unit, p.score);
    ds = g.apply(CUDNN_POINTWISE_SUB, ds, mean, p.score);
    ds = g.apply(CUDNN_POINTWISE_MUL, ds, w, p.score);
    ds = g.apply(CUDNN_POINTWISE_MUL, ds, scale, p.score);
    const desc dst = g.turn(ds, g.scratch(low, turned(p.score)));
    sum_heads(g, a, dst, q, g.tensor(D_K, low, dk, false));

    const desc k = g.turn(kt, g.scratch(low, p.k));
    g.multiply(ds, k, g.tensor(D_Q, low, dq, false));
}

// ---- plans -----------------------------------------------------------------------

struct plan {
    desc execution;
    int64_t workspace_bytes;
};

// The first engine that takes the graph; NULL: none.
static desc find_engine(graph &g, cudnnHandle_t handle)
{
    const desc all = g.make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    g.set(all, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    g.set(all, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
          (int64_t)g.ops.size(), g.ops.data());
    g.finalize(all);
    const desc heuristic = g.make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    g.set(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, all);
    g.set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1,
          &mode);
    g.finalize(heuristic);
    enum { MOST = 8 };
    desc config[MOST];
    for (desc &c : config)
        c = g.make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    int64_t n = 0;
    if (!g.good() ||
        dnn().cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST, &n,
                                       config) != CUDNN_STATUS_SUCCESS)
        return NULL;
    for (int64_t i = 0; i < n; i++) {
        desc e = NULL;
        if (dnn().cudnnBackendCreateDescriptor(
                CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &e) !=
            CUDNN_STATUS_SUCCESS)
            return NULL;
        if (dnn().cudnnBackendSetAttribute(e, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                                           CUDNN_TYPE_HANDLE, 1,
                                           &handle) == CUDNN_STATUS_SUCCESS &&
            dnn().cudnnBackendSetAttribute(
                e, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                &config[i]) == CUDNN_STATUS_SUCCESS &&
            dnn().cudnnBackendFinalize(e) == CUDNN_STATUS_SUCCESS)
            return e;
        dnn().cudnnBackendDestroyDescriptor(e);
    }
    return NULL;
}

static plan make_plan(cudnnHandle_t handle, const tt_cuda_attention_args &a,
                      bool is_grad)
{
    graph g;
    plan p = {NULL, 0};
    if (is_grad)
        backward(g, a);
    else
        forward(g, a);
    if (g.good())
        p.execution = find_engine(g, handle);
    int64_t n = 0;
    if (p.execution != NULL &&
        dnn().cudnnBackendGetAttribute(
            p.execution, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
            CUDNN_TYPE_INT64, 1, &n,
            &p.workspace_bytes) != CUDNN_STATUS_SUCCESS)
        p.execution = NULL;
    return p;
}

typedef std::vector<int64_t> key;

static key key_of(const tt_cuda_attention_args &a, bool is_grad)
{
    key k = {a.type,     is_grad, a.is_causal, a.batch, a.q_heads,
             a.kv_heads, a.q_len, a.k_len,     a.head};
    const tt_cuda_heads *all[] = {&a.q,   &a.k,   &a.v,   &a.o,
                                  &a.d_o, &a.d_q, &a.d_k, &a.d_v};
    for (const tt_cuda_heads *x : all) {
        k.push_back(x->batch);
        k.push_back(x->seq);
        k.push_back(x->head);
    }
    return k;
}

static std::mutex plans_lock;
static std::map<key, plan> plans;

struct tt_cuda_sdpa {
    tt_cuda *own; // NULL: by cuDNN
    cudnnHandle_t handle;
    bool is_grad;
    plan p;
};

// The sites that cuDNN's kernels are made for. Smaller ones are as fast by plain
// kernels.
static bool fits(const tt_cuda_attention_args &a, bool is_grad)
{
    const tt_cuda_heads *all[] = {&a.q,   &a.k,   &a.v,   &a.o,
                                  &a.d_o, &a.d_q, &a.d_k, &a.d_v};
    const int n = is_grad ? 8 : 4;
    for (int i = 0; i < n; i++)
        if (all[i]->batch % 8 != 0 || all[i]->seq % 8 != 0 ||
            all[i]->head % 8 != 0)
            return false;
    return is_low(a.type) && a.head % 8 == 0 && a.head <= 128 &&
           a.q_len >= 64 && a.q_len == a.k_len && a.q_first == a.k_first;
}

// An execution of NULL: cuDNN cannot.
static plan find_plan(cudnnHandle_t handle, const tt_cuda_attention_args &a,
                      bool is_grad)
{
    const std::lock_guard<std::mutex> guard(plans_lock);
    const key k = key_of(a, is_grad);
    if (plans.find(k) == plans.end())
        plans[k] = make_plan(handle, a, is_grad);
    return plans[k];
}

extern "C" const char *tt_cuda_sdpa_create(tt_cuda *cuda,
                                           const tt_cuda_attention_args *args,
                                           bool is_grad,
                                           tt_cuda_sdpa **sdpa_out)
{
    tt_cuda_sdpa s = {NULL, NULL, is_grad, {NULL, 0}};
    *sdpa_out = NULL;
    if (!fits(*args, is_grad))
        return NULL;
    if (is_grad && attention_hopper_grad_can(cuda, *args)) {
        s.own = cuda;
        s.p.workspace_bytes = attention_hopper_grad_scratch(cuda, *args);
    } else if (!is_grad && attention_hopper_can(cuda, *args)) {
        s.own = cuda;
    } else {
        s.handle = dnn_handle(cuda);
        if (s.handle != NULL)
            s.p = find_plan(s.handle, *args, is_grad);
        if (s.p.execution == NULL)
            return NULL;
    }
    *sdpa_out = new (std::nothrow) tt_cuda_sdpa(s);
    return *sdpa_out == NULL ? tt_cuda_failed_text("no memory") : NULL;
}

extern "C" void tt_cuda_sdpa_destroy(tt_cuda_sdpa *sdpa)
{
    delete sdpa;
}

extern "C" int64_t tt_cuda_sdpa_scratch(const tt_cuda_sdpa *sdpa)
{
    return sdpa->p.workspace_bytes + 256;
}

extern "C" const char *tt_cuda_sdpa_run(tt_cuda_sdpa *sdpa,
                                        const tt_cuda_attention_args *args)
{
    enum { FORWARD = 7, ALL = 12 };
    if (sdpa->own != NULL)
        return sdpa->is_grad ? attention_hopper_grad_run(sdpa->own, *args)
                             : attention_hopper_run(sdpa->own, *args);
    float scale = args->scale, lowest = -FLT_MAX, unit = 1;
    const int64_t ids[ALL] = {Q,      K,   V,   O,   STATS, SCALE,
                              LOWEST, ONE, D_O, D_Q, D_K,   D_V};
    void *data[ALL] = {args->q.data,   args->k.data,   args->v.data,
                       args->o.data,   args->lse,      &scale,
                       &lowest,        &unit,          args->d_o.data,
                       args->d_q.data, args->d_k.data, args->d_v.data};
    std::vector<int64_t> used;
    std::vector<void *> from;
    for (int i = 0; i < (sdpa->is_grad ? ALL : FORWARD); i++) {
        if (ids[i] == LOWEST && !args->is_causal)
            continue;
        used.push_back(ids[i]);
        from.push_back(data[i]);
    }
    void *workspace =
        (void *)(((uintptr_t)args->scratch + 255) & ~(uintptr_t)255);
    const cudnnStatus_t status =
        dnn_execute(sdpa->handle, sdpa->p.execution, used, from, workspace);
    if (status != CUDNN_STATUS_SUCCESS)
        return tt_cuda_failed_text("cuDNN: attention: %s",
                                   dnn().cudnnGetErrorString(status));
    return NULL;
}
