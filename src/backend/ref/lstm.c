// lstm, lstm_cell and their gradients - reference kernels. The gradient walks backward
// over the steps; what passes from step to step is kept in scratch as doubles.

#include "ops/nn/lstm.h"

#include "backend/ref/activation.h"
#include "backend/ref/gemm.h"
#include "backend/ref/ref.h"
#include "ops/ops.h"

#include <math.h>
#include <string.h>

enum { I, F, G, O, N_GATES };

typedef struct cell {
    double gate[N_GATES]; // after their functions
    double c_prev, c;
} cell;

static void activate(const double *sum, double *gate)
{
    for (int k = 0; k < N_GATES; k++)
        gate[k] = tt__activate(k == G ? TT_ACT_TANH : TT_ACT_SIGMOID, sum[k]);
}

static void advance(cell *x)
{
    x->c = x->gate[F] * x->c_prev + x->gate[I] * x->gate[G];
}

// Gradients before the gates' functions, and of c_prev.
static void retreat(const cell *x, double dh, double dc, double *dgate,
                    double *dc_prev)
{
    const double *g = x->gate;
    const double t = tanh(x->c);
    const double d = dc + dh * g[O] * (1 - t * t);
    dgate[I] = d * g[G] * g[I] * (1 - g[I]);
    dgate[F] = d * x->c_prev * g[F] * (1 - g[F]);
    dgate[G] = d * g[I] * (1 - g[G] * g[G]);
    dgate[O] = dh * t * g[O] * (1 - g[O]);
    *dc_prev = d * g[F];
}

// Entry (row, k, j) of gates [rows, 4, hidden].
static int64_t gate_at(int64_t row, int k, int64_t hidden, int64_t j)
{
    return (row * N_GATES + k) * hidden + j;
}

typedef struct extents {
    int64_t steps, batch, hidden;
} extents;

static extents extents_of(const tt_operand *gates)
{
    return (extents){tt_operand_dim(gates, 0), tt_operand_dim(gates, 1),
                     tt_operand_dim(gates, 2) / N_GATES};
}

static int64_t state_bytes(const tt_operand *gates, int64_t per_unit)
{
    const extents n = extents_of(gates);
    return TT__GEMM_SCRATCH +
           n.batch * n.hidden * per_unit * (int64_t)sizeof(double);
}

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    (void)backend;
    prepared_out->scratch_bytes = state_bytes(&site->in[0], N_GATES);
    return TT_OK;
}

static tt_status prepare_grad(tt_backend *backend, tt_site *site,
                              tt_prepared *prepared_out)
{
    (void)backend;
    prepared_out->scratch_bytes = state_bytes(&site->in[3], N_GATES + 2);
    return TT_OK;
}

static double in_at(const tt_site *site, const tt_args *args, int i, int64_t at)
{
    return args->in[i] == NULL
               ? 0
               : tt_dtype_load(site->in[i].dtype, args->in[i], at);
}

static void out_at(const tt_site *site, const tt_args *args, int i, int64_t at,
                   double value)
{
    tt_dtype_store(site->out[i].dtype, args->out[i], at, value);
}

// sum[batch, 4 hidden] = h(t-1) * w_hh^T
static void recur(const tt_site *site, const tt_args *args, extents n,
                  int64_t step, double *sum)
{
    const int64_t all = n.batch * n.hidden;
    const tt_operand *h = &site->out[0];
    const void *before = args->in[3];
    if (step > 0)
        before = (const char *)args->out[0] +
                 (step - 1) * all * tt_dtype_bytes(h->dtype);
    const tt__matrix a = {before, h->dtype, n.hidden, 1};
    const tt__matrix b = {args->in[1], site->in[1].dtype, n.hidden, 1};
    const tt__sum to = {TT_F64, sum, N_GATES * n.hidden, false};
    const tt__gemm g = {
        .m = n.batch,
        .n = N_GATES * n.hidden,
        .k = n.hidden,
        .a = &a,
        .b = &b,
        .to = &to,
        .read_a = tt__matrix_read,
        .read_b = tt__matrix_read,
        .write = tt__sum_write,
    };
    tt__gemm_run(&g, args->scratch);
}

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const extents n = extents_of(&site->in[0]);
    double *sum = (double *)(void *)((char *)args->scratch + TT__GEMM_SCRATCH);
    for (int64_t t = 0; t < n.steps; t++) {
        recur(site, args, n, t, sum);
        for (int64_t e = 0; e < n.batch * n.hidden; e++) {
            const int64_t row = e / n.hidden, j = e % n.hidden;
            const int64_t here = t * n.batch * n.hidden + e;
            cell x;
            double gate[N_GATES];
            for (int k = 0; k < N_GATES; k++)
                gate[k] = sum[gate_at(row, k, n.hidden, j)] +
                          in_at(site, args, 0,
                                gate_at(t * n.batch + row, k, n.hidden, j)) +
                          in_at(site, args, 2, k * n.hidden + j);
            activate(gate, x.gate);
            x.c_prev = t == 0 ? in_at(site, args, 4, e)
                              : tt_dtype_load(site->out[1].dtype, args->out[1],
                                              here - n.batch * n.hidden);
            advance(&x);
            out_at(site, args, 0, here, x.gate[O] * tanh(x.c));
            out_at(site, args, 1, here, x.c);
            for (int k = 0; k < N_GATES; k++)
                out_at(site, args, 2,
                       gate_at(t * n.batch + row, k, n.hidden, j), x.gate[k]);
        }
    }
    return TT_OK;
}

// What passes from step to step, in scratch.
typedef struct carry {
    double *dgates, *dh, *dc; // [batch, 4 hidden], [batch, hidden] twice
} carry;

// dh(t-1) = dgates(t) * w_hh
static void recur_back(const tt_site *site, const tt_args *args, extents n,
                       const carry *s)
{
    const tt__matrix a = {s->dgates, TT_F64, N_GATES * n.hidden, 1};
    const tt__matrix b = {args->in[2], site->in[2].dtype, 1, n.hidden};
    const tt__sum to = {TT_F64, s->dh, n.hidden, false};
    const tt__gemm g = {
        .m = n.batch,
        .n = n.hidden,
        .k = N_GATES * n.hidden,
        .a = &a,
        .b = &b,
        .to = &to,
        .read_a = tt__matrix_read,
        .read_b = tt__matrix_read,
        .write = tt__sum_write,
    };
    tt__gemm_run(&g, args->scratch);
}

// Element e of [batch, hidden] at step t.
static void step_back(const tt_site *site, const tt_args *args, int64_t t,
                      int64_t e, const carry *s)
{
    const extents n = extents_of(&site->in[3]);
    const int64_t all = n.batch * n.hidden;
    const int64_t row = e / n.hidden, j = e % n.hidden;
    const int64_t here = t * all + e;
    cell x;
    double dgate[N_GATES];
    for (int k = 0; k < N_GATES; k++)
        x.gate[k] =
            in_at(site, args, 3, gate_at(t * n.batch + row, k, n.hidden, j));
    x.c = in_at(site, args, 4, here);
    x.c_prev =
        t == 0 ? in_at(site, args, 5, e) : in_at(site, args, 4, here - all);
    retreat(&x, s->dh[e] + in_at(site, args, 0, here),
            s->dc[e] + in_at(site, args, 1, here), dgate, &s->dc[e]);
    // The gradient that passes to the step before is the stored one, rounded to its
    // type: fast kernels read it back from memory.
    for (int k = 0; k < N_GATES; k++) {
        const int64_t at = gate_at(t * n.batch + row, k, n.hidden, j);
        out_at(site, args, 0, at, dgate[k]);
        s->dgates[gate_at(row, k, n.hidden, j)] =
            tt_dtype_load(site->out[0].dtype, args->out[0], at);
    }
}

static tt_status run_grad(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const extents n = extents_of(&site->in[3]);
    const int64_t all = n.batch * n.hidden;
    carry s;
    s.dgates = (double *)(void *)((char *)args->scratch + TT__GEMM_SCRATCH);
    s.dh = s.dgates + N_GATES * all;
    s.dc = s.dh + all;
    memset(s.dh, 0, sizeof(double) * (size_t)(2 * all));
    for (int64_t t = n.steps - 1; t >= 0; t--) {
        for (int64_t e = 0; e < all; e++)
            step_back(site, args, t, e, &s);
        recur_back(site, args, n, &s);
    }
    for (int64_t e = 0; e < all; e++) {
        out_at(site, args, 1, e, s.dh[e]);
        out_at(site, args, 2, e, s.dc[e]);
    }
    return TT_OK;
}

// Columns of h one step earlier: line j, entries (step, row).
typedef struct earlier {
    const tt_site *site;
    const tt_args *args;
    int64_t batch, hidden;
} earlier;

static void read_earlier(const void *side, int64_t line, int64_t l0, int64_t n,
                         double *out, int64_t step)
{
    const earlier *x = side;
    for (int64_t l = 0; l < n; l++) {
        const int64_t row = l0 + l;
        out[l * step] = row < x->batch
                            ? in_at(x->site, x->args, 2, row * x->hidden + line)
                            : in_at(x->site, x->args, 1,
                                    (row - x->batch) * x->hidden + line);
    }
}

static tt_status run_grad_w(void *state, const tt_site *site,
                            const tt_args *args)
{
    (void)state;
    const extents n = extents_of(&site->in[0]);
    const tt__matrix a = {args->in[0], site->in[0].dtype, 1,
                          N_GATES * n.hidden};
    const earlier b = {site, args, n.batch, n.hidden};
    const tt__sum to = {site->out[0].dtype, args->out[0], n.hidden,
                        args->accumulate};
    const tt__gemm g = {
        .m = N_GATES * n.hidden,
        .n = n.hidden,
        .k = n.steps * n.batch,
        .a = &a,
        .b = &b,
        .to = &to,
        .read_a = tt__matrix_read,
        .read_b = read_earlier,
        .write = tt__sum_write,
    };
    tt__gemm_run(&g, args->scratch);
    return TT_OK;
}

// ---- cell ----

static cell cell_at(const tt_site *site, const tt_args *args, int64_t e)
{
    const int64_t hidden = tt_operand_dim(&site->in[1], 1);
    cell x;
    double sum[N_GATES];
    for (int k = 0; k < N_GATES; k++)
        sum[k] =
            in_at(site, args, 0, gate_at(e / hidden, k, hidden, e % hidden));
    activate(sum, x.gate);
    x.c_prev = in_at(site, args, 1, e);
    advance(&x);
    return x;
}

static tt_status run_cell(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    for (int64_t e = 0; e < tt_operand_count(&site->in[1]); e++) {
        const cell x = cell_at(site, args, e);
        out_at(site, args, 0, e, x.gate[O] * tanh(x.c));
        out_at(site, args, 1, e, x.c);
    }
    return TT_OK;
}

static tt_status run_cell_grad(void *state, const tt_site *site,
                               const tt_args *args)
{
    (void)state;
    const int64_t hidden = tt_operand_dim(&site->in[1], 1);
    for (int64_t e = 0; e < tt_operand_count(&site->in[1]); e++) {
        const cell x = cell_at(site, args, e);
        double dgate[N_GATES], dc_prev;
        const double dh = tt_site_has(site, 2) ? in_at(site, args, 2, e) : 0;
        const double dc = tt_site_has(site, 3) ? in_at(site, args, 3, e) : 0;
        retreat(&x, dh, dc, dgate, &dc_prev);
        for (int k = 0; k < N_GATES; k++)
            out_at(site, args, 0, gate_at(e / hidden, k, hidden, e % hidden),
                   dgate[k]);
        out_at(site, args, 1, e, dc_prev);
    }
    return TT_OK;
}

const tt_kernel_def tt__ref_lstm_kernels[] = {
    {TT_KERNEL(ref, lstm), .prepare = prepare, .run = run},
    {TT_KERNEL(ref, lstm_grad), .prepare = prepare_grad, .run = run_grad},
    {TT_KERNEL(ref, lstm_grad_w), .accumulates = true,
     .prepare = tt__gemm_prepare, .run = run_grad_w},
    {TT_KERNEL(ref, lstm_cell), .run = run_cell},
    {TT_KERNEL(ref, lstm_cell_grad), .run = run_cell_grad},
    {0},
};
