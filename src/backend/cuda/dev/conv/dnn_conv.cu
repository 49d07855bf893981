// dnn_conv - a convolution by cuDNN's graph interface. The graph is small: the
// convolution and, for the forward one, bias and activation after it. cuDNN's
// heuristics suggest engines with their settings for it; each suggestion that works
// becomes a plan, and conv_choose.cu times them.
//
// Some suggestions are refused: engines that give other bits from run to run, those
// that reduce in less than f32, and, for f32 operands, those that round them (TF32) or
// use transforms that lose digits (Winograd, FFT). So a choice changes speed, not
// quality.
//
// Plans are known by number: kind of suggestion, place in its list, fused or not. The
// number is what is kept from run to run, and it is looked up again without making all
// the others (`only`).

#include "backend/cuda/dev/conv/conv.cuh"
#include "backend/cuda/dev/conv/dnn_conv.cuh"
#include "backend/cuda/dev/dnn.cuh"

#include <new>

enum id { X = 1, W, Y, BIAS, PRODUCT, SUM };
enum { SUGGESTIONS = TT_DNN_SUGGESTIONS, KINDS = 2 };
static const int64_t most_workspace = (int64_t)1 << 30;

struct tt_dnn_plan {
    cudnnHandle_t handle;
    bool has_bias, has_relu; // in it
    bool is_whole;           // it does all that was asked
    dnn_desc execution;
    int64_t bytes;
};

struct names { // of the attributes of one direction
    cudnnBackendDescriptorType_t op;
    cudnnBackendAttributeName_t conv, x, w, y, alpha, beta;
};

static const names forward_names = {
    CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
};
static const names grad_x_names = {
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
};
static const names grad_w_names = {
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
};

// ---- the graph -------------------------------------------------------------

// Two spatial dimensions unless there are three.
static int first_space(const tt_cuda_conv_desc &d)
{
    const tt_cuda_slide &s = d.slide[0];
    return s.in == 1 && s.out == 1 && s.kernel == 1 && s.pad == 0 ? 1 : 0;
}

// [a, channels, space...], channels last in memory.
static dnn_desc tensor(dnn_graph &g, int64_t id, cudnnDataType_t type,
                       const std::vector<int64_t> &dim, bool is_virtual)
{
    const int64_t n = (int64_t)dim.size(), alignment = 16;
    std::vector<int64_t> stride(dim.size());
    int64_t step = dim[1];
    stride[1] = 1;
    for (size_t i = dim.size() - 1; i >= 2; i--) {
        stride[i] = step;
        step *= dim[i];
    }
    stride[0] = step;
    const dnn_desc t = g.make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    g.set(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    g.set(t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    g.set(t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, n, dim.data());
    g.set(t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, n, stride.data());
    g.set(t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    g.set(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    g.finalize(t);
    return t;
}

static dnn_desc image(dnn_graph &g, id name, cudnnDataType_t type,
                      const tt_cuda_conv_desc &d, bool is_virtual)
{
    std::vector<int64_t> dim;
    if (name == X)
        dim = {d.n, d.groups * d.c};
    else if (name == W)
        dim = {d.groups * d.o, d.c};
    else
        dim = {d.n, d.groups * d.o};
    for (int i = first_space(d); i < TT_CUDA_SPACE; i++)
        dim.push_back(name == X   ? d.slide[i].in
                      : name == W ? d.slide[i].kernel
                                  : d.slide[i].out);
    return tensor(g, name, type, dim, is_virtual);
}

static dnn_desc window(dnn_graph &g, const tt_cuda_conv_desc &d)
{
    const cudnnDataType_t math = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    std::vector<int64_t> stride, dilation, before, after;
    for (int i = first_space(d); i < TT_CUDA_SPACE; i++) {
        const tt_cuda_slide &s = d.slide[i];
        const int64_t more = is_even(s) ? s.pad : pad_after(s);
        stride.push_back(s.stride);
        dilation.push_back(s.dilation);
        before.push_back(s.pad);
        after.push_back(more > 0 ? more : 0);
    }
    const int64_t n = (int64_t)stride.size();
    const dnn_desc c = g.make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    g.set(c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &math);
    g.set(c, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1,
          &mode);
    g.set(c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &n);
    g.set(c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, n,
          stride.data());
    g.set(c, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, n,
          dilation.data());
    g.set(c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, n,
          before.data());
    g.set(c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, n,
          after.data());
    g.finalize(c);
    return c;
}

// y = mode(x, b)
static void apply(dnn_graph &g, cudnnPointwiseMode_t mode, dnn_desc x,
                  dnn_desc b, dnn_desc y)
{
    const cudnnDataType_t math = CUDNN_DATA_FLOAT;
    const dnn_desc p = g.make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    g.set(p, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    g.set(p, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &math);
    g.finalize(p);
    const dnn_desc op = g.make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    g.set(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, p);
    g.set(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b != NULL)
        g.set(op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    g.set(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    g.finalize(op);
    g.ops.push_back(op);
}

static dnn_desc bias(dnn_graph &g, const tt_cuda_conv_desc &d,
                     cudnnDataType_t type)
{
    std::vector<int64_t> dim(2 + (size_t)(TT_CUDA_SPACE - first_space(d)), 1);
    dim[1] = d.groups * d.o;
    return tensor(g, BIAS, type, dim, false);
}

// Tensors between two operations are virtual: they stay in the kernel, as floats.
static void build(dnn_graph &g, const tt_cuda_conv_desc &d, bool has_bias,
                  bool has_relu)
{
    const cudnnDataType_t type = d.type == TT_BF16  ? CUDNN_DATA_BFLOAT16
                                 : d.type == TT_F16 ? CUDNN_DATA_HALF
                                                    : CUDNN_DATA_FLOAT;
    const names &name = d.way == TT_CUDA_FORWARD  ? forward_names
                        : d.way == TT_CUDA_GRAD_X ? grad_x_names
                                                  : grad_w_names;
    const float one = 1, beta = d.adds ? 1 : 0;
    const dnn_desc product = has_bias || has_relu
                                 ? image(g, PRODUCT, CUDNN_DATA_FLOAT, d, true)
                                 : image(g, Y, type, d, false);
    const dnn_desc op = g.make(name.op);
    g.set(op, name.conv, window(g, d));
    g.set(op, name.x, image(g, X, type, d, false));
    g.set(op, name.w, image(g, W, type, d, false));
    g.set(op, name.y, product);
    g.set(op, name.alpha, CUDNN_TYPE_FLOAT, 1, &one);
    g.set(op, name.beta, CUDNN_TYPE_FLOAT, 1, &beta);
    g.finalize(op);
    g.ops.push_back(op);
    dnn_desc last = product;
    if (has_bias) {
        last = has_relu ? image(g, SUM, CUDNN_DATA_FLOAT, d, true)
                        : image(g, Y, type, d, false);
        apply(g, CUDNN_POINTWISE_ADD, product, bias(g, d, type), last);
    }
    if (has_relu)
        apply(g, CUDNN_POINTWISE_RELU_FWD, last, NULL,
              image(g, Y, type, d, false));
}

// ---- engines ---------------------------------------------------------------

static bool is_refused(cudnnBackendNumericalNote_t note, tt_dtype type)
{
    switch (note) {
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
        return true;
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
    case CUDNN_NUMERICAL_NOTE_FFT:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD:
        return type == TT_F32;
    default:
        return false;
    }
}

static bool is_fit(dnn_graph &g, dnn_desc config, tt_dtype type)
{
    enum { NOTES = CUDNN_NUMERICAL_NOTE_TYPE_COUNT };
    dnn_desc engine = g.make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendNumericalNote_t note[NOTES];
    (void)g.get(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine);
    const int64_t n = g.get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                            CUDNN_TYPE_NUMERICAL_NOTE, NOTES, note);
    for (int64_t i = 0; i < n; i++)
        if (is_refused(note[i], type))
            return false;
    return g.good();
}

// NULL: this engine does not take it after all.
static dnn_desc make_plan(cudnnHandle_t handle, dnn_desc config,
                          int64_t *bytes_out)
{
    dnn_graph g;
    const dnn_desc e = g.make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    g.set(e, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    g.set(e, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    g.finalize(e);
    (void)g.get(e, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                1, bytes_out);
    if (!g.good() || *bytes_out > most_workspace)
        return NULL;
    g.owned.clear(); // the caller's
    return e;
}

// What heuristics suggest; their number.
static int64_t suggest(dnn_graph &g, dnn_desc all, cudnnBackendHeurMode_t mode,
                       dnn_desc *config)
{
    const dnn_desc h = g.make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    g.set(h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, all);
    g.set(h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    g.finalize(h);
    for (int i = 0; i < SUGGESTIONS; i++)
        config[i] = g.make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    return g.get(h, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                 CUDNN_TYPE_BACKEND_DESCRIPTOR, SUGGESTIONS, config);
}

// cuDNN cannot express windows that begin inside the image or that leave out more of
// its end than a stride. Its weight gradients have come out wrong with more padding
// after the image than before it.
static bool is_expressible(const tt_cuda_conv_desc &d)
{
    for (const tt_cuda_slide &s : d.slide)
        if (s.pad < 0 || pad_after(s) <= -s.stride ||
            (d.way == TT_CUDA_GRAD_W && !is_even(s)))
            return false;
    return true;
}

static tt_dnn_plan *make_plan_of(const tt_dnn_plan &like, dnn_graph &g,
                                 dnn_desc config, tt_dtype type)
{
    tt_dnn_plan p = like;
    if (!is_fit(g, config, type))
        return NULL;
    p.execution = make_plan(p.handle, config, &p.bytes);
    if (p.execution == NULL)
        return NULL;
    tt_dnn_plan *plan = new (std::nothrow) tt_dnn_plan(p);
    if (plan == NULL)
        dnn().cudnnBackendDestroyDescriptor(p.execution);
    return plan;
}

// cuDNN has fused kernels for a bias of the operands' type, which it is given as, with
// an activation after it.
static tt_dnn_plan describe(cudnnHandle_t handle, const tt_cuda_conv_desc &d,
                            bool is_fused)
{
    tt_dnn_plan p = {};
    p.handle = handle;
    p.has_bias = is_fused;
    p.has_relu = is_fused && d.has_relu;
    p.is_whole = is_fused || (d.bias_type == TT_N_DTYPES && !d.has_relu);
    return p;
}

// ---- menus -----------------------------------------------------------------

struct dnn_item {
    int number, kind;
    int64_t engine;
    dnn_desc config;
};

struct tt_dnn_menu {
    dnn_graph graph[2 * KINDS];
    tt_dnn_plan like[2 * KINDS]; // all but the plan itself
    tt_dtype type;
    std::vector<dnn_item> item;
};

static int64_t engine_of(dnn_graph &g, dnn_desc config)
{
    dnn_desc engine = g.make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    int64_t index = -1;
    (void)g.get(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine);
    (void)g.get(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
                &index);
    return index;
}

// Suggestions of one kind; `only` is the number among them or -1.
static void add_items(tt_dnn_menu *menu, const tt_cuda_conv_desc &d, int kind,
                      int only)
{
    static const cudnnBackendHeurMode_t modes[KINDS] = {
        CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    dnn_graph &g = menu->graph[kind];
    const tt_dnn_plan &like = menu->like[kind];
    dnn_desc config[SUGGESTIONS];
    build(g, d, like.has_bias, like.has_relu);
    const dnn_desc all = g.make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    g.set(all, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
          &like.handle);
    g.set(all, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
          (int64_t)g.ops.size(), g.ops.data());
    g.finalize(all);
    const int64_t n = suggest(g, all, modes[kind % KINDS], config);
    for (int i = 0; i < (int)n; i++)
        if (only < 0 || only == i)
            menu->item.push_back({kind * SUGGESTIONS + i, kind,
                                  engine_of(g, config[i]), config[i]});
}

// The order of trials, as time may run out: the first suggestion of each engine, then
// their others, and last what cuDNN suggests to fall back on.
static void sort_items(std::vector<dnn_item> &item)
{
    std::vector<dnn_item> part[3];
    for (const dnn_item &x : item) {
        int to = x.kind % KINDS == 0 ? 0 : 2;
        for (const dnn_item &y : part[0])
            if (to == 0 && y.engine == x.engine && y.kind == x.kind)
                to = 1;
        part[to].push_back(x);
    }
    item.clear();
    for (const std::vector<dnn_item> &some : part)
        item.insert(item.end(), some.begin(), some.end());
}

tt_dnn_menu *tt_dnn_look(tt_cuda *cuda, const tt_cuda_conv_desc *desc, int only)
{
    const cudnnHandle_t handle = dnn_handle(cuda);
    if (handle == NULL || !is_expressible(*desc))
        return NULL;
    tt_dnn_menu *menu = new (std::nothrow) tt_dnn_menu();
    if (menu == NULL)
        return NULL;
    menu->type = desc->type;
    for (int kind = 0; kind < 2 * KINDS; kind++) {
        const bool is_fused = kind < KINDS;
        const bool is_wanted = only < 0 || only / SUGGESTIONS == kind;
        menu->like[kind] = describe(handle, *desc, is_fused);
        if (is_wanted && (!is_fused || desc->bias_type != TT_N_DTYPES))
            add_items(menu, *desc, kind, only < 0 ? -1 : only % SUGGESTIONS);
    }
    sort_items(menu->item);
    return menu;
}

int tt_dnn_size(const tt_dnn_menu *menu)
{
    return (int)menu->item.size();
}

int tt_dnn_usual(const tt_dnn_menu *menu)
{
    int n = 0;
    for (const dnn_item &x : menu->item)
        n += x.kind % KINDS == 0;
    return n;
}

tt_dnn_plan *tt_dnn_take(tt_dnn_menu *menu, int i, int *number_out)
{
    const dnn_item &x = menu->item[(size_t)i];
    *number_out = x.number;
    return make_plan_of(menu->like[x.kind], menu->graph[x.kind], x.config,
                        menu->type);
}

void tt_dnn_close(tt_dnn_menu *menu)
{
    delete menu;
}

size_t tt_dnn_version(void)
{
    return dnn().is_here ? dnn().cudnnGetVersion() : 0;
}

void tt_dnn_destroy(tt_dnn_plan *plan)
{
    dnn().cudnnBackendDestroyDescriptor(plan->execution);
    delete plan;
}

bool tt_dnn_is_whole(const tt_dnn_plan *plan)
{
    return plan->is_whole;
}

int64_t tt_dnn_bytes(const tt_dnn_plan *plan)
{
    return plan->bytes;
}

const char *tt_dnn_run(tt_dnn_plan *plan, const tt_cuda_conv_args *args)
{
    std::vector<int64_t> ids = {X, W, Y};
    std::vector<void *> data = {args->x, args->w, args->y};
    if (plan->has_bias) {
        ids.push_back(BIAS);
        data.push_back((void *)args->bias);
    }
    const cudnnStatus_t status =
        dnn_execute(plan->handle, plan->execution, ids, data, args->scratch);
    if (status != CUDNN_STATUS_SUCCESS)
        return tt_cuda_failed_text("cuDNN: convolution: %s",
                                   dnn().cudnnGetErrorString(status));
    return NULL;
}
