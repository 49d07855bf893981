// conv_grad_w - the gradient of a convolution's weights, through oneDNN.
//
// This is a sum over the whole batch, so it is the one convolution where threads must
// meet. The library may share the batch among its threads and add their sums. Then the
// last bits depend on the number of threads. There are two ways:
//
//   whole    one primitive does it all; the fastest
//   pieces   in exact mode, where results must not depend on threads: the batch is cut
//            into at most 8 pieces, by its size alone. One thread computes each piece,
//            and the pieces are added in order
//
// Pieces cost scratch memory of as many gradients as there are pieces, and a pass over
// it; no more than 8 threads have work.

#include "backend/cpu/conv_parts.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/wrap.h"
#include "base/alloc.h"
#include "ops/ops.h"

#include <omp.h>

enum { MAX_PIECES = 8 };

typedef struct piece {
    tt__prim *prim;
    int64_t x, y; // where its samples start, in bytes
} piece;

typedef struct state {
    bool is_exact;
    int n, n_threads;
    int64_t count;                   // elements of dw, with padding
    int64_t dw_bytes, scratch_bytes; // of one piece; of one thread
    piece piece[MAX_PIECES];
} state;

static void release(void *kernel_state)
{
    state *s = kernel_state;
    for (int i = 0; s != NULL && i < s->n; i++)
        tt__prim_destroy(s->piece[i].prim);
    tt_free(s);
}

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__cpu_is_fast(site->in[0].dtype);
}

// A primitive that writes dw in the layout of the weights, so that the optimiser needs
// no conversion. If the library has only a slow kernel for that, it chooses itself.
static tt_status create(tt_backend *backend, const tt__cpu_conv_desc *d,
                        int32_t wished, tt__prim **prim_out)
{
    tt__cpu_conv_desc wish = *d, own = *d;
    wish.w.layout = wished;
    if (wished > 0) {
        tt__prim *prim = NULL;
        const tt_status status = tt__cpu_conv_create(backend, &wish, &prim);
        if (status == TT_OK && !tt__prim_is_slow(prim)) {
            *prim_out = prim;
            return TT_OK;
        }
        tt__prim_destroy(prim);
        if (status != TT_OK && status != TT_ERR_UNSUPPORTED)
            return status;
    }
    return tt__cpu_conv_create(backend, &own, prim_out);
}

// ---- pieces of the batch ----

static void set_samples(tt__dnnl_tensor *t, int64_t n)
{
    t->dims[0] = n;
}

// Describes an image of t->dims[0] samples with its channels in blocks, and its bytes.
static tt_status set_blocks(tt__dnnl *dnnl, tt__dnnl_tensor *t, int64_t block,
                            int64_t *bytes_out)
{
    int32_t layout = 0;
    TT_TRY(tt__dnnl_layout_of_blocks(dnnl, t, block, &layout));
    *t = tt__dnnl_tensor_dense(t->dtype, t->ndim, t->dims);
    t->layout = layout;
    *bytes_out = layout > 0
                     ? tt__dnnl_layout_bytes(dnnl, layout)
                     : t->dims[0] * t->stride[0] * tt_dtype_bytes(t->dtype);
    return TT_OK;
}

typedef struct forms {
    int64_t x_block, y_block;
    int32_t w_layout;
} forms;

// The formats that the library prefers for a piece. All pieces use them, because they
// are parts of one image and terms of one sum.
static tt_status find_forms(tt_backend *backend, const tt__cpu_conv_desc *d,
                            int32_t wished, forms *f)
{
    const tt__dnnl *dnnl = tt__cpu_dnnl(backend);
    tt__prim *prim = NULL;
    TT_TRY(create(backend, d, wished, &prim));
    f->x_block =
        tt__dnnl_layout_channel_block(dnnl, tt__prim_layout(prim, TT__X));
    f->y_block =
        tt__dnnl_layout_channel_block(dnnl, tt__prim_layout(prim, TT__Y));
    f->w_layout = tt__prim_layout(prim, TT__W);
    tt__prim_destroy(prim);
    return f->x_block == 0 || f->y_block == 0 ? TT_ERR_UNSUPPORTED : TT_OK;
}

static tt_status make_piece(tt_backend *backend, const tt__cpu_conv_desc *whole,
                            const forms *f, state *s, int i)
{
    tt__dnnl *dnnl = tt__cpu_dnnl(backend);
    const int64_t n = whole->x.dims[0];
    const int64_t from = i * n / s->n, to = (i + 1) * n / s->n;
    tt__cpu_conv_desc d = *whole;
    piece *p = &s->piece[i];
    int64_t x_bytes, y_bytes;
    set_samples(&d.x, to - from);
    set_samples(&d.y, to - from);
    TT_TRY(set_blocks(dnnl, &d.x, f->x_block, &x_bytes));
    TT_TRY(set_blocks(dnnl, &d.y, f->y_block, &y_bytes));
    d.w = tt__dnnl_tensor_dense(d.w.dtype, d.w.ndim, d.w.dims);
    d.w.layout = f->w_layout;
    p->x = x_bytes / (to - from) * from;
    p->y = y_bytes / (to - from) * from;
    TT_TRY(tt__cpu_conv_create(backend, &d, &p->prim));
    const int64_t scratch = tt__round64(tt__prim_scratch_bytes(p->prim));
    if (scratch > s->scratch_bytes)
        s->scratch_bytes = scratch;
    return TT_OK;
}

static tt_status make_pieces(tt_backend *backend, tt__cpu_conv_desc *d,
                             tt_site *site, state *s)
{
    tt__dnnl *dnnl = tt__cpu_dnnl(backend);
    const int64_t n = d->x.dims[0];
    tt__dnnl_tensor x = d->x, y = d->y;
    forms f;
    int64_t bytes;
    s->n = n < MAX_PIECES ? (int)n : MAX_PIECES;
    d->is_serial = true;
    tt__cpu_conv_desc first = *d;
    set_samples(&first.x, n / s->n);
    set_samples(&first.y, n / s->n);
    TT_TRY(find_forms(backend, &first, site->out[0].layout, &f));
    for (int i = 0; i < s->n; i++)
        TT_TRY(make_piece(backend, d, &f, s, i));
    TT_TRY(set_blocks(dnnl, &x, f.x_block, &bytes));
    TT_TRY(set_blocks(dnnl, &y, f.y_block, &bytes));
    tt__operand_set_layout(&site->in[0], x.layout);
    tt__operand_set_layout(&site->in[1], y.layout);
    tt__operand_set_layout(&site->out[0], f.w_layout);
    return TT_OK;
}

// ---- the kernel ----

static tt_status make_whole(tt_backend *backend, const tt__cpu_conv_desc *d,
                            tt_site *site, state *s)
{
    s->n = 1;
    TT_TRY(create(backend, d, site->out[0].layout, &s->piece[0].prim));
    const tt__prim *prim = s->piece[0].prim;
    s->scratch_bytes = tt__prim_scratch_bytes(prim);
    tt__operand_set_layout(&site->in[0], tt__prim_layout(prim, TT__X));
    tt__operand_set_layout(&site->in[1], tt__prim_layout(prim, TT__Y));
    tt__operand_set_layout(&site->out[0], tt__prim_layout(prim, TT__W));
    return TT_OK;
}

// oneDNN 2.6 has a bug: in bf16, with a stride, it reads beside an input that is one column
// wide, and taps that see padding alone get what is in memory there. Where there is one result
// a stride moves nothing.
static void forget_stride(tt__cpu_conv_desc *d)
{
    tt__conv_window *w = &d->window;
    const int last = w->n - 1;
    const int64_t reach = (w->kernel[last] - 1) * w->dilation[last];
    if (d->x.dims[d->x.ndim - 1] == 1 && d->y.dims[d->y.ndim - 1] == 1 &&
        w->pad_lo[last] + w->pad_hi[last] == reach)
        w->stride[last] = 1;
}

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    tt__cpu_conv_desc d = {.way = TT__GRAD_W};
    TT_TRY(tt__cpu_conv_describe(backend, site->params, &site->in[0],
                                 &site->out[0], &site->in[1], &d));
    forget_stride(&d);
    state *s = tt_alloc(sizeof(*s));
    if (s == NULL)
        return tt_fail(TT_ERR_NOMEM, "conv_grad_w: no memory for a kernel");
    s->is_exact = backend->options.exact;
    s->n_threads = tt__dnnl_threads(tt__cpu_dnnl(backend));
    const tt_status status = s->is_exact ? make_pieces(backend, &d, site, s)
                                         : make_whole(backend, &d, site, s);
    if (status != TT_OK) {
        release(s);
        return status;
    }
    const int64_t bytes = tt_target_bytes(&backend->target, &site->out[0]);
    s->count = bytes / 4;
    s->dw_bytes = tt__round64(bytes);
    prepared_out->state = s;
    prepared_out->scratch_bytes =
        s->is_exact ? s->n * s->dw_bytes + s->n_threads * s->scratch_bytes
                    : s->scratch_bytes;
    return TT_OK;
}

static tt_status run_piece(const piece *p, const tt_args *args, void *dw,
                           void *scratch)
{
    const void *data[] = {(const char *)args->in[0] + p->x, dw, NULL,
                          (const char *)args->in[1] + p->y};
    return tt__prim_run(p->prim, data, scratch);
}

static tt_status run_pieces(const state *s, const tt_args *args)
{
    char *terms = args->scratch;
    char *scratch = terms + s->n * s->dw_bytes;
    int worst = TT_OK;
#pragma omp parallel for schedule(static) reduction(min                        \
                                                    : worst)                   \
    num_threads(s->n_threads)
    for (int i = 0; i < s->n; i++) {
        const int status =
            (int)run_piece(&s->piece[i], args, terms + i * s->dw_bytes,
                           scratch + omp_get_thread_num() * s->scratch_bytes);
        worst = status < worst ? status : worst;
    }
    if (worst != TT_OK)
        return tt_fail((tt_status)worst, "oneDNN: a convolution failed");
    return TT_OK;
}

static void add_pieces(const state *s, const tt_args *args)
{
    const float *terms = args->scratch;
    const int64_t step = s->dw_bytes / 4;
    float *dw = args->out[0];
#pragma omp parallel for schedule(static) num_threads(s->n_threads)
    for (int64_t i = 0; i < s->count; i++) {
        float sum = terms[i];
        for (int k = 1; k < s->n; k++)
            sum += terms[k * step + i];
        dw[i] = sum;
    }
}

static tt_status run(void *kernel_state, const tt_site *site,
                     const tt_args *args)
{
    const state *s = kernel_state;
    (void)site;
    if (!s->is_exact)
        return run_piece(&s->piece[0], args, args->out[0], args->scratch);
    TT_TRY(run_pieces(s, args));
    add_pieces(s, args);
    return TT_OK;
}

const tt_kernel_def tt__cpu_conv_grad_w_kernels[] = {
    {TT_KERNEL(cpu, conv_grad_w), .can = can, .prepare = prepare, .run = run,
     .release = release},
    {0},
};
