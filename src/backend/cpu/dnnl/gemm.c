// gemm - matrix products whose bits do not depend on the number of threads.
//
// The problem. A library may share the inner dimension k among its threads: each thread
// sums a part, and the parts are added. Then the order of the additions, and with it
// the last bits, depends on how many threads there are. A run on another machine would
// drift away from the first, and nobody could tell rounding from a bug.
//
// The idea. The product is cut into pieces by its shape alone, so that inside of each
// piece the order is known:
//
//   whole    one primitive. oneDNN's AVX-512 kernel ("brg") gives each result to one
//            thread and sums over k in a fixed order. This was found to hold for 1 to
//            32 threads, with one exception: a transposed `a` with k of 2048 or more,
//            where the library shares k among the threads
//   chunks   that exception: k is cut into chunks below 2048, which are added one
//            after the other, each by all threads
//   panels   every other kernel of the library: the result is cut into fixed panels of
//            rows or columns, and each panel is computed by one thread
//
//      whole            chunks of k             panels of the result
//      a . b = c        a0.b0 + a1.b1 = c       a0 . b = c0    thread 0
//                                               a1 . b = c1    thread 1
//
// The cost. On 2 Zen 4 cores chunks are as fast as the whole (190-216 GFLOP/s of bf16
// per core), because a shorter k stays in cache. Panels need a primitive per panel,
// which is made once, when the kernel is prepared.

#include "backend/cpu/dnnl/gemm.h"

#include "backend/cpu/dnnl/dnnl_wide.h"
#include "base/alloc.h"

#include <assert.h>
#include <omp.h>
#include <string.h>

enum {
    MAX_K = 1984,
    CHUNK_STEP = 64,
    PANEL = 64, // least rows or columns of a panel
    MAX_PANELS = 64
};

typedef struct piece {
    tt__prim *writes, *adds;
    int64_t offset[4]; // bytes, of a, b, bias, c
} piece;

struct tt__cpu_gemm {
    tt__wide once[2]; // a and b, if all pieces read them as floats
    int n;
    bool is_parallel;      // pieces at the same time, one thread each
    int64_t scratch_bytes; // of one piece
    int n_threads;
    piece piece[];
};

void tt__cpu_gemm_destroy(void *gemm)
{
    tt__cpu_gemm *g = gemm;
    if (g == NULL)
        return;
    for (int i = 0; i < g->n; i++) {
        tt__prim_destroy(g->piece[i].writes);
        tt__prim_destroy(g->piece[i].adds);
    }
    tt_free(g);
}

// The scratch of the pieces. After it come the operands that all pieces read as floats.
static int64_t pieces_scratch(const tt__cpu_gemm *gemm)
{
    return gemm->scratch_bytes * (gemm->is_parallel ? gemm->n_threads : 1);
}

int64_t tt__cpu_gemm_scratch_bytes(const tt__cpu_gemm *gemm)
{
    return pieces_scratch(gemm) + tt__wide_bytes(&gemm->once[TT__A]) +
           tt__wide_bytes(&gemm->once[TT__B]);
}

// ---- how to cut ----

// How the product is cut: piece i has the entries [i * step, (i + 1) * step) of
// dimension dim[t] of tensor t (a, b, bias, c). -1: all pieces read the whole tensor.
typedef struct cut {
    int n;
    int64_t extent, step;
    int dim[4];
    bool is_parallel, adds_up; // adds_up: pieces are terms of one sum
} cut;

static bool is_transposed(const tt__dnnl_tensor *t)
{
    return t->stride[t->ndim - 1] != 1 && t->dims[t->ndim - 1] > 1;
}

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

static cut cut_into(int64_t extent, int64_t step)
{
    return (cut){.n = (int)((extent + step - 1) / step),
                 .extent = extent,
                 .step = step,
                 .dim = {-1, -1, -1, -1}};
}

static cut cut_chunks(const tt__cpu_gemm_desc *d)
{
    const int last = d->a.ndim - 1;
    const int64_t k = d->a.dims[last];
    const int64_t n = (k + MAX_K - 1) / MAX_K;
    cut c = cut_into(k, round_up((k + n - 1) / n, CHUNK_STEP));
    c.dim[TT__A] = last;
    c.dim[TT__B] = last - 1;
    c.adds_up = true;
    return c;
}

static cut cut_panels(const tt__cpu_gemm_desc *d)
{
    const int last = d->c.ndim - 1;
    const int64_t m = d->c.dims[last - 1], n = d->c.dims[last];
    if (d->c.ndim > 2) {
        cut c = cut_into(d->c.dims[0], 1);
        c.dim[TT__A] = c.dim[TT__B] = c.dim[TT__C] = 0;
        c.is_parallel = true;
        return c;
    }
    const bool by_rows = m >= n;
    const int64_t extent = by_rows ? m : n;
    const int64_t least = (extent + MAX_PANELS - 1) / MAX_PANELS;
    cut c = cut_into(extent, round_up(least, PANEL));
    c.dim[by_rows ? TT__A : TT__B] = by_rows ? last - 1 : last;
    c.dim[TT__BIAS] = by_rows ? -1 : 0;
    c.dim[TT__C] = by_rows ? last - 1 : last;
    c.is_parallel = true;
    return c;
}

static cut cut_whole(void)
{
    return cut_into(1, 1);
}

// ---- pieces ----

static tt_status make_piece(tt__dnnl *dnnl, const tt__cpu_gemm_desc *d,
                            const cut *c, int i, piece *out)
{
    tt__matmul_desc m = {d->a, d->b, d->bias, d->c, false, c->is_parallel};
    tt__dnnl_tensor *t[] = {&m.a, &m.b, &m.bias, &m.c};
    const int64_t first = i * c->step;
    for (int j = 0; j < 4; j++) {
        if (c->dim[j] < 0 || t[j]->ndim == 0)
            continue;
        const int64_t left = c->extent - first;
        t[j]->dims[c->dim[j]] = left < c->step ? left : c->step;
        out->offset[j] =
            first * t[j]->stride[c->dim[j]] * tt_dtype_bytes(t[j]->dtype);
    }
    const bool is_later = c->adds_up && i > 0;
    if (!is_later)
        TT_TRY(tt__prim_matmul(dnnl, &m, &out->writes));
    if (is_later)
        m.bias = (tt__dnnl_tensor){0};
    m.adds = true;
    if (is_later || d->can_add)
        TT_TRY(tt__prim_matmul(dnnl, &m, &out->adds));
    return TT_OK;
}

static int64_t prim_scratch(const tt__prim *prim)
{
    return prim == NULL ? 0 : round_up(tt__prim_scratch_bytes(prim), 64);
}

// Without bf16 instructions an operand is widened to floats first. One that all pieces
// read is widened once, here; the others are widened by each piece for itself.
static void widen_once(tt__cpu_gemm *g, const cut *c, tt__cpu_gemm_desc *d)
{
    tt__dnnl_tensor *t[] = {&d->a, &d->b};
    for (int j = 0; j < 2; j++)
        if (c->dim[j] < 0 && tt__is_widened(t[j]->dtype))
            g->once[j] = tt__wide_strided(t[j], t[j]);
}

static tt_status make(tt__dnnl *dnnl, const tt__cpu_gemm_desc *desc,
                      const cut *c, tt__cpu_gemm **gemm_out)
{
    tt__cpu_gemm_desc wide = *desc, *d = &wide;
    tt__cpu_gemm *g =
        tt_alloc((int64_t)sizeof(*g) + c->n * (int64_t)sizeof(g->piece[0]));
    if (g == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a matrix product");
    g->n = c->n;
    g->is_parallel = c->is_parallel;
    g->n_threads = tt__dnnl_threads(dnnl);
    widen_once(g, c, d);
    for (int i = 0; i < c->n; i++) {
        const tt_status status = make_piece(dnnl, d, c, i, &g->piece[i]);
        if (status != TT_OK) {
            tt__cpu_gemm_destroy(g);
            return status;
        }
        const int64_t writes = prim_scratch(g->piece[i].writes);
        const int64_t adds = prim_scratch(g->piece[i].adds);
        const int64_t most = writes > adds ? writes : adds;
        if (most > g->scratch_bytes)
            g->scratch_bytes = most;
    }
    *gemm_out = g;
    return TT_OK;
}

static bool has_fixed_order(const tt__cpu_gemm *g)
{
    return strncmp(tt__prim_name(g->piece[0].writes), "brg", 3) == 0;
}

tt_status tt__cpu_gemm_create(tt__dnnl *dnnl, const tt__cpu_gemm_desc *d,
                              tt__cpu_gemm **gemm_out)
{
    assert(d->a.ndim == d->b.ndim && d->a.ndim == d->c.ndim);
    const bool shares_k =
        is_transposed(&d->a) && d->a.dims[d->a.ndim - 1] > MAX_K;
    const cut first =
        shares_k && d->c.dtype == TT_F32 ? cut_chunks(d) : cut_whole();
    tt__cpu_gemm *g = NULL;
    TT_TRY(make(dnnl, d, &first, &g));
    if (tt__prim_is_slow(g->piece[0].writes)) {
        tt__cpu_gemm_destroy(g);
        return TT_ERR_UNSUPPORTED;
    }
    if (!has_fixed_order(g) || (shares_k && !first.adds_up)) {
        tt__cpu_gemm_destroy(g);
        const cut panels = cut_panels(d);
        return make(dnnl, d, &panels, gemm_out);
    }
    *gemm_out = g;
    return TT_OK;
}

// ---- running ----

static tt_status run_piece(const piece *p, const void *const data[4], bool adds,
                           void *scratch)
{
    const void *at[4];
    for (int j = 0; j < 4; j++)
        at[j] = data[j] == NULL ? NULL : (const char *)data[j] + p->offset[j];
    tt__prim *prim = adds || p->writes == NULL ? p->adds : p->writes;
    return tt__prim_run(prim, at, scratch);
}

static tt_status run_parallel(const tt__cpu_gemm *g, const void *const data[4],
                              bool adds, char *scratch)
{
    int worst = TT_OK;
#pragma omp parallel for schedule(static) reduction(min                        \
                                                    : worst)                   \
    num_threads(g->n_threads)
    for (int i = 0; i < g->n; i++) {
        const int status =
            (int)run_piece(&g->piece[i], data, adds,
                           scratch + omp_get_thread_num() * g->scratch_bytes);
        worst = status < worst ? status : worst;
    }
    return worst == TT_OK
               ? TT_OK
               : tt_fail((tt_status)worst, "oneDNN: a matrix product failed");
}

tt_status tt__cpu_gemm_run(tt__cpu_gemm *gemm, const void *const data[4],
                           bool adds, void *scratch)
{
    const void *at[] = {data[0], data[1], data[2], data[3]};
    char *floats = (char *)scratch + pieces_scratch(gemm);
    for (int j = 0; j < 2; j++) {
        if (gemm->once[j].count == 0)
            continue;
        at[j] = floats;
        tt__wide_read(&gemm->once[j], data[j], (float *)(void *)floats);
        floats += tt__wide_bytes(&gemm->once[j]);
    }
    if (gemm->is_parallel)
        return run_parallel(gemm, at, adds, scratch);
    for (int i = 0; i < gemm->n; i++)
        TT_TRY(run_piece(&gemm->piece[i], at, adds, scratch));
    return TT_OK;
}
