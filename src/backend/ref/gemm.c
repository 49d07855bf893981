// gemm - the matrix product of ref/.
//
// The usual blocking, in plain C: blocks of both sides are copied to scratch as
// doubles, in strips of 4 lines whose entries alternate, and tiles of 4 x 4 results are
// summed in registers. Strips make the inner loop read both sides in order, whatever
// their strides are in memory. The sum over l keeps its order: blocks of l come one
// after another and continue the same sums.

#include "backend/ref/gemm.h"

#include <string.h>

enum { TILE = 4 };

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void load_f64(const double *x, int64_t stride, int64_t n, double *out,
                     int64_t step)
{
    for (int64_t i = 0; i < n; i++)
        out[i * step] = x[i * stride];
}

static void load_f32(const float *x, int64_t stride, int64_t n, double *out,
                     int64_t step)
{
    for (int64_t i = 0; i < n; i++)
        out[i * step] = (double)x[i * stride];
}

void tt__matrix_read(const void *side, int64_t line, int64_t l0, int64_t n,
                     double *out, int64_t step)
{
    const tt__matrix *x = side;
    const int64_t stride = x->entry_stride;
    const int64_t first = line * x->line_stride + l0 * stride;
    if (x->dtype == TT_F64)
        load_f64((const double *)x->base + first, stride, n, out, step);
    else if (x->dtype == TT_F32)
        load_f32((const float *)x->base + first, stride, n, out, step);
    else
        for (int64_t i = 0; i < n; i++)
            out[i * step] =
                tt_dtype_load(x->dtype, x->base, first + i * stride);
}

void tt__sum_write(const void *to, int64_t i, int64_t j0, int64_t n,
                   const double *c)
{
    const tt__sum *y = to;
    for (int64_t j = 0; j < n; j++) {
        const int64_t at = i * y->row + j0 + j;
        const double old =
            y->accumulate ? tt_dtype_load(y->dtype, y->base, at) : 0;
        tt_dtype_store(y->dtype, y->base, at, old + c[j]);
    }
}

typedef struct block {
    int64_t i0, n; // lines
    int64_t l0, k; // entries
} block;

// Copies a block as strips: entry 0 of TILE lines, then entry 1 of them, and so on. The
// last strip is filled up with lines of zeros.
static void pack(const void *side, tt__gemm_read_fn *read, const block *b,
                 double *out)
{
    for (int64_t i = 0; i < b->n; i += TILE, out += TILE * b->k)
        for (int64_t t = 0; t < TILE; t++) {
            if (i + t < b->n)
                read(side, b->i0 + i + t, b->l0, b->k, out + t, TILE);
            else
                for (int64_t l = 0; l < b->k; l++)
                    out[l * TILE + t] = 0;
        }
}

typedef double pair __attribute__((vector_size(16), aligned(8), may_alias));

// c[4,4] += a * b over k entries of one strip each.
static void tile(int64_t k, const double *a, const double *b, double *c,
                 int64_t row)
{
    pair s[TILE][2];
    for (int i = 0; i < TILE; i++) {
        s[i][0] = *(const pair *)(c + i * row);
        s[i][1] = *(const pair *)(c + i * row + 2);
    }
    for (int64_t l = 0; l < k; l++, a += TILE, b += TILE) {
        const pair b0 = *(const pair *)b;
        const pair b1 = *(const pair *)(b + 2);
        for (int i = 0; i < TILE; i++) {
            const pair ai = {a[i], a[i]};
            s[i][0] += ai * b0;
            s[i][1] += ai * b1;
        }
    }
    for (int i = 0; i < TILE; i++) {
        *(pair *)(c + i * row) = s[i][0];
        *(pair *)(c + i * row + 2) = s[i][1];
    }
}

static void multiply(int64_t rows, int64_t cols, int64_t k, const double *a,
                     const double *b, double *c)
{
    for (int64_t i = 0; i < rows; i += TILE)
        for (int64_t j = 0; j < cols; j += TILE)
            tile(k, a + i * k, b + j * k, c + i * TT__GEMM_COLS + j,
                 TT__GEMM_COLS);
}

void tt__gemm_run(const tt__gemm *g, void *scratch)
{
    double *a = scratch;
    double *b = a + (int64_t)TT__GEMM_ROWS * TT__GEMM_DEPTH;
    double *c = b + (int64_t)TT__GEMM_COLS * TT__GEMM_DEPTH;
    for (int64_t i = 0; i < g->m; i += TT__GEMM_ROWS) {
        const int64_t rows = min(g->m - i, TT__GEMM_ROWS);
        for (int64_t j = 0; j < g->n; j += TT__GEMM_COLS) {
            const int64_t cols = min(g->n - j, TT__GEMM_COLS);
            memset(c, 0, sizeof(double) * TT__GEMM_ROWS * TT__GEMM_COLS);
            for (int64_t l = 0; l < g->k; l += TT__GEMM_DEPTH) {
                const int64_t k = min(g->k - l, TT__GEMM_DEPTH);
                pack(g->a, g->read_a, &(block){i, rows, l, k}, a);
                pack(g->b, g->read_b, &(block){j, cols, l, k}, b);
                multiply(rows, cols, k, a, b, c);
            }
            for (int64_t r = 0; r < rows; r++)
                g->write(g->to, i + r, j, cols, c + r * TT__GEMM_COLS);
        }
    }
}

tt_status tt__gemm_prepare(tt_backend *backend, tt_site *site,
                           tt_prepared *prepared_out)
{
    (void)backend;
    (void)site;
    prepared_out->scratch_bytes = TT__GEMM_SCRATCH;
    return TT_OK;
}
