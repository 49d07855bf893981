// test_simd_rows - kernels that work on rows: norms, softmax, cross-entropy,
// reductions, embedding.

#include "backend/simd_check.h"
#include "test.h"

enum { N_SHAPES = 6 };

static const int64_t shapes[N_SHAPES][2] = {
    {1, 1}, {3, 5}, {7, 33}, {64, 300}, {129, 257}, {2, 9000},
};

typedef struct norm_tensors {
    buf x, y, d_y, d_x, gamma, beta, mean, rstd, d_gamma, d_beta;
} norm_tensors;

static norm_tensors norm_make(tt_simd_type type, int64_t rows, int64_t cols)
{
    const int64_t n = rows * cols;
    return (norm_tensors){
        .x = buf_random(type, n, 2.0),
        .y = buf_filled(type, n, 0),
        .d_y = buf_random(type, n, 1.0),
        .d_x = buf_filled(type, n, 0),
        .gamma = buf_random(TT_SIMD_F32, cols, 2.0),
        .beta = buf_random(TT_SIMD_F32, cols, 1.0),
        .mean = buf_filled(TT_SIMD_F32, rows, 0),
        .rstd = buf_filled(TT_SIMD_F32, rows, 0),
        .d_gamma = buf_filled(TT_SIMD_F32, cols, 0.5),
        .d_beta = buf_filled(TT_SIMD_F32, cols, 0.25),
    };
}

static void norm_run(const tt_simd *simd, const norm_tensors *t, int64_t rows,
                     int64_t cols, bool is_rms)
{
    tt_simd_norm_args a = {
        .type = t->x.type,
        .is_rms = is_rms,
        .rows = rows,
        .cols = cols,
        .epsilon = 1e-5f,
        .x = t->x.data,
        .gamma = t->gamma.data,
        .beta = is_rms ? NULL : t->beta.data,
        .y = t->y.data,
        .mean = t->mean.data,
        .rstd = t->rstd.data,
        .d_y = t->d_y.data,
        .d_x = t->d_x.data,
        .d_gamma = t->d_gamma.data,
        .d_beta = is_rms ? NULL : t->d_beta.data,
        .accumulates = true,
    };
    a.scratch = doubles(simd->norm->params_scratch_bytes(rows, cols) / 8 + 1);
    simd->norm->forward(&a);
    simd->norm->backward_input(&a);
    simd->norm->backward_params(&a);
}

typedef struct norm_expected {
    double *y, *d_x, *d_gamma, *d_beta;
} norm_expected;

static void norm_row(const norm_tensors *t, int64_t r, int64_t n, bool is_rms,
                     norm_expected *e)
{
    double mean = 0, var = 0, g_mean = 0, g_dot = 0;
    for (int64_t j = r * n; j < (r + 1) * n; j++)
        mean += is_rms ? 0 : buf_get(&t->x, j) / (double)n;
    for (int64_t j = r * n; j < (r + 1) * n; j++)
        var += pow(buf_get(&t->x, j) - mean, 2) / (double)n;
    const double rstd = 1 / sqrt(var + (double)1e-5f);
    for (int64_t c = 0; c < n; c++) {
        const int64_t j = r * n + c;
        const double xhat = (buf_get(&t->x, j) - mean) * rstd;
        const double gamma = buf_get(&t->gamma, c), dy = buf_get(&t->d_y, j);
        e->y[j] = xhat * gamma + (is_rms ? 0 : buf_get(&t->beta, c));
        g_mean += is_rms ? 0 : dy * gamma / (double)n;
        g_dot += dy * gamma * xhat / (double)n;
        e->d_gamma[c] += dy * xhat;
        e->d_beta[c] += dy;
    }
    for (int64_t c = 0; c < n; c++) {
        const int64_t j = r * n + c;
        const double xhat = (buf_get(&t->x, j) - mean) * rstd;
        const double dy = buf_get(&t->d_y, j);
        e->d_x[j] = rstd * (dy * buf_get(&t->gamma, c) - g_mean - xhat * g_dot);
    }
}

static void norm_check(const tt_simd *simd, tt_simd_type type, int64_t rows,
                       int64_t cols, bool is_rms)
{
    const norm_tensors t = norm_make(type, rows, cols);
    norm_tensors u = t;
    u.y = buf_copy(&t.y), u.d_x = buf_copy(&t.d_x);
    u.d_gamma = buf_copy(&t.d_gamma), u.d_beta = buf_copy(&t.d_beta);
    use_threads(1);
    norm_run(simd, &t, rows, cols, is_rms);
    use_threads(3);
    norm_run(simd, &u, rows, cols, is_rms);
    buf_check_same(&t.y, &u.y, "y");
    buf_check_same(&t.d_x, &u.d_x, "d_x");
    buf_check_same(&t.d_gamma, &u.d_gamma, "d_gamma");
    norm_expected e = {doubles(t.y.n), doubles(t.y.n), doubles(cols),
                       doubles(cols)};
    for (int64_t c = 0; c < cols; c++)
        e.d_gamma[c] = 0.5, e.d_beta[c] = 0.25;
    for (int64_t r = 0; r < rows; r++)
        norm_row(&t, r, cols, is_rms, &e);
    buf_check(&t.y, e.y, "y");
    buf_check(&t.d_x, e.d_x, "d_x");
    buf_check(&t.d_gamma, e.d_gamma, "d_gamma");
    if (!is_rms)
        buf_check(&t.d_beta, e.d_beta, "d_beta");
}

static void norm_case(const tt_simd *simd, tt_simd_type type)
{
    // One column has no variance: its gradient is all cancellation.
    for (int i = 1; i < N_SHAPES; i++) {
        norm_check(simd, type, shapes[i][0], shapes[i][1], false);
        norm_check(simd, type, shapes[i][0], shapes[i][1], true);
    }
}

TEST(norms_equal_the_naive_ones)
{
    simd_each(norm_case);
}

static void softmax_check(const tt_simd *simd, tt_simd_type type, int64_t rows,
                          int64_t cols)
{
    const int64_t n = rows * cols;
    const buf x = buf_random(type, n, 20.0), d_y = buf_random(type, n, 1.0);
    const buf y = buf_filled(type, n, 0), d_x = buf_filled(type, n, 0);
    const tt_simd_softmax_args a = {type,   rows,     cols,    x.data,
                                    y.data, d_y.data, d_x.data};
    use_threads(3);
    simd->loss->softmax(&a);
    simd->loss->softmax_backward(&a);
    double *want = doubles(n), *d_want = doubles(n);
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0, dot = 0;
        for (int64_t j = r * cols; j < (r + 1) * cols; j++)
            sum += exp(buf_get(&x, j));
        for (int64_t j = r * cols; j < (r + 1) * cols; j++) {
            want[j] = exp(buf_get(&x, j)) / sum;
            dot += buf_get(&y, j) * buf_get(&d_y, j);
        }
        for (int64_t j = r * cols; j < (r + 1) * cols; j++)
            d_want[j] = buf_get(&y, j) * (buf_get(&d_y, j) - dot);
    }
    buf_check(&y, want, "softmax");
    buf_check(&d_x, d_want, "d_x");
}

static void softmax_case(const tt_simd *simd, tt_simd_type type)
{
    for (int i = 0; i < N_SHAPES; i++)
        softmax_check(simd, type, shapes[i][0], shapes[i][1]);
}

TEST(softmax_equals_the_naive_one)
{
    simd_each(softmax_case);
}

typedef struct loss_tensors {
    buf logits, d, loss, lse;
    int32_t labels[129];
} loss_tensors;

static void loss_run(const tt_simd *simd, const loss_tensors *t, int64_t rows,
                     int64_t cols, double smoothing)
{
    const tt_simd_cross_entropy_args a = {
        t->logits.type, rows,      cols,         (float)smoothing,
        t->logits.data, t->labels, t->loss.data, t->lse.data,
        0.5f,           t->d.data};
    double sum = 0, want = 0;
    int64_t count = 0, counted = 0;
    simd->loss->cross_entropy(&a);
    simd->loss->cross_entropy_backward(&a);
    simd->loss->total(&a, &sum, &count);
    for (int64_t r = 0; r < rows; r++) {
        want += buf_get(&t->loss, r);
        counted += t->labels[r] >= 0;
    }
    CHECK(sum == want && count == counted);
}

static void loss_naive(const loss_tensors *t, int64_t r, int64_t cols,
                       double smoothing, double *loss, double *d)
{
    const int32_t label = t->labels[r];
    double sum = 0, mean = 0;
    for (int64_t j = 0; j < cols; j++) {
        sum += exp(buf_get(&t->logits, r * cols + j));
        mean += buf_get(&t->logits, r * cols + j) / (double)cols;
    }
    if (label < 0)
        return;
    loss[r] = log(sum) - smoothing * mean -
              (1 - smoothing) * buf_get(&t->logits, r * cols + label);
    for (int64_t j = 0; j < cols; j++) {
        const double target =
            smoothing / (double)cols + (j == label ? 1 - smoothing : 0);
        const double p = exp(buf_get(&t->logits, r * cols + j)) / sum;
        d[r * cols + j] = 0.5 * (p - target);
    }
}

static void loss_check(const tt_simd *simd, tt_simd_type type, int64_t rows,
                       int64_t cols, double smoothing)
{
    loss_tensors t = {.logits = buf_random(type, rows * cols, 5.0),
                      .d = buf_filled(type, rows * cols, 3),
                      .loss = buf_filled(TT_SIMD_F32, rows, 3),
                      .lse = buf_filled(TT_SIMD_F32, rows, 3)};
    for (int64_t r = 0; r < rows; r++)
        t.labels[r] = (int32_t)(r % 4 == 3 ? -100 : r * 7919 % cols);
    loss_tensors u = t;
    u.d = buf_copy(&t.logits), u.logits = u.d; // in place
    u.loss = buf_copy(&t.loss);
    use_threads(1);
    loss_run(simd, &t, rows, cols, smoothing);
    use_threads(3);
    loss_run(simd, &u, rows, cols, smoothing);
    buf_check_same(&t.d, &u.d, "d_logits");
    buf_check_same(&t.loss, &u.loss, "loss");
    double *loss = doubles(rows), *d = doubles(rows * cols);
    for (int64_t r = 0; r < rows; r++)
        loss_naive(&t, r, cols, smoothing, loss, d);
    buf_check(&t.loss, loss, "loss");
    buf_check(&t.d, d, "d_logits");
}

static void loss_case(const tt_simd *simd, tt_simd_type type)
{
    for (int i = 0; i < N_SHAPES; i++) {
        loss_check(simd, type, shapes[i][0], shapes[i][1], 0.0);
        loss_check(simd, type, shapes[i][0], shapes[i][1], 0.1);
    }
}

TEST(cross_entropy_equals_the_naive_one)
{
    simd_each(loss_case);
}

static void reduce_rows_check(const tt_simd *simd, const buf *x, int64_t rows,
                              int64_t cols)
{
    double *want = doubles(rows);
    for (int kind = TT_SIMD_SUM; kind <= TT_SIMD_MAX; kind++) {
        const buf y = buf_filled(x->type, rows, 0);
        simd->reduce->rows((tt_simd_reduction)kind, x->type, x->data, rows,
                           cols, y.data);
        for (int64_t r = 0; r < rows; r++) {
            want[r] = kind == TT_SIMD_MAX ? -(double)INFINITY : 0;
            for (int64_t j = r * cols; j < (r + 1) * cols; j++)
                want[r] = kind == TT_SIMD_MAX ? fmax(want[r], buf_get(x, j))
                                              : want[r] + buf_get(x, j);
            want[r] /= kind == TT_SIMD_MEAN ? (double)cols : 1;
        }
        buf_check(&y, want, "row reduction");
    }
}

static void column_sum_check(const tt_simd *simd, const buf *x, int64_t rows,
                             int64_t cols)
{
    const buf y = buf_filled(TT_SIMD_F32, cols, 2);
    const buf z = buf_filled(TT_SIMD_F32, cols, 2);
    tt_simd_column_args a = {
        x->type,
        rows,
        cols,
        x->data,
        y.data,
        true,
        doubles(simd->reduce->column_sum_scratch_bytes(rows, cols) / 8 + 1)};
    double *want = doubles(cols);
    use_threads(1);
    simd->reduce->column_sum(&a);
    use_threads(3);
    a.y = z.data;
    simd->reduce->column_sum(&a);
    for (int64_t j = 0; j < cols; j++)
        want[j] = 2;
    for (int64_t i = 0; i < rows * cols; i++)
        want[i % cols] += buf_get(x, i);
    buf_check_same(&y, &z, "column sums");
    buf_check(&y, want, "column sums");
    a.accumulates = false;
    simd->reduce->column_sum(&a);
    CHECK_CLOSE(buf_get(&z, cols - 1), want[cols - 1] - 2, 1e-5);
}

static void whole_sum_check(const tt_simd *simd, const buf *x)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < x->n; i++) {
        sum += buf_get(x, i);
        squares += buf_get(x, i) * buf_get(x, i);
    }
    use_threads(1);
    const double one = simd->reduce->sum_squares(x->type, x->data, x->n);
    use_threads(3);
    CHECK(one == simd->reduce->sum_squares(x->type, x->data, x->n));
    CHECK_CLOSE(one, squares, 1e-12);
    CHECK_CLOSE(simd->reduce->sum(x->type, x->data, x->n), sum, 1e-12);
}

static void reduce_case(const tt_simd *simd, tt_simd_type type)
{
    for (int i = 0; i < N_SHAPES; i++) {
        const int64_t rows = shapes[i][0], cols = shapes[i][1];
        const buf x = buf_random(type, rows * cols, 1.0);
        reduce_rows_check(simd, &x, rows, cols);
        column_sum_check(simd, &x, rows, cols);
        whole_sum_check(simd, &x);
    }
    const buf x = buf_filled(type, 40, 1);
    buf_set(&x, 17, (double)NAN);
    const buf y = buf_filled(type, 1, 0);
    simd->reduce->rows(TT_SIMD_MAX, type, x.data, 1, 40, y.data);
    CHECK(isnan(buf_get(&y, 0)));
}

TEST(reductions_equal_the_naive_ones)
{
    simd_each(reduce_case);
}

static void embedding_case(const tt_simd *simd, tt_simd_type type)
{
    enum { N = 250, V = 50, C = 137, T = 25 };
    int32_t ids[N];
    const buf table = buf_random(TT_SIMD_F32, (int64_t)V * C, 1.0);
    const buf positions = buf_random(TT_SIMD_F32, (int64_t)(T + 3) * C, 1.0);
    const buf y = buf_filled(type, (int64_t)N * C, 0);
    const buf d_y = buf_random(type, (int64_t)N * C, 1.0);
    const buf d1 = buf_filled(TT_SIMD_F32, (int64_t)V * C, 1);
    const buf d2 = buf_copy(&d1);
    double *want = doubles(y.n), *d_want = doubles(d1.n);
    for (int i = 0; i < N; i++)
        ids[i] = i * i * 7 % V;
    tt_simd_embedding_args a = {
        .table_type = TT_SIMD_F32,
        .type = type,
        .n_ids = N,
        .vocab = V,
        .cols = C,
        .ids = ids,
        .table = table.data,
        .positions = positions.data,
        .length = T,
        .first_position = 3,
        .y = y.data,
        .d_y = d_y.data,
        .d_table = d1.data,
        .accumulates = true,
    };
    for (int64_t i = 0; i < d1.n; i++)
        d_want[i] = 1;
    for (int64_t i = 0; i < y.n; i++) {
        const int64_t id = ids[i / C], t = i / C % T + 3, c = i % C;
        want[i] = buf_get(&table, id * C + c) + buf_get(&positions, t * C + c);
        d_want[id * C + c] += buf_get(&d_y, i);
    }
    use_threads(1);
    simd->embedding->forward(&a);
    simd->embedding->backward(&a);
    use_threads(3);
    a.d_table = d2.data;
    simd->embedding->backward(&a);
    buf_check(&y, want, "embedding");
    buf_check_same(&d1, &d2, "d_table");
    buf_check(&d1, d_want, "d_table");
}

TEST(embedding_equals_the_naive_one)
{
    simd_each(embedding_case);
}

static void outside_case(const tt_simd *simd, tt_simd_type type)
{
    const int32_t ids[3] = {-1, 2, 1};
    const buf table = buf_filled(type, 8, 1), y = buf_filled(type, 12, 0);
    const buf d = buf_filled(TT_SIMD_F32, 8, 5);
    const tt_simd_embedding_args a = {
        .table_type = type,
        .type = type,
        .n_ids = 3,
        .vocab = 2,
        .cols = 4,
        .ids = ids,
        .table = table.data,
        .y = y.data,
        .d_y = y.data,
        .d_table = d.data,
    };
    simd->embedding->forward(&a);
    CHECK(isnan(buf_get(&y, 0)) && isnan(buf_get(&y, 4)));
    CHECK(buf_get(&y, 8) == 1);
    simd->embedding->backward(&a);
    CHECK(buf_get(&d, 0) == 0 && buf_get(&d, 4) == 1);
}

TEST(an_id_outside_the_table_gives_nan_and_no_gradient)
{
    simd_each(outside_case);
}
