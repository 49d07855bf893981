// test_simd_train - optimisers, the LSTM cell and batch norm.

#include "backend/simd_check.h"
#include "test.h"

enum { N = 20003 };

typedef struct weights {
    buf w, g, m, v, copy, update;
} weights;

static weights make_weights(void)
{
    weights t = {
        .w = buf_random(TT_SIMD_F32, N, 1.0),
        .g = buf_random(TT_SIMD_F32, N, 4.0),
        .m = buf_random(TT_SIMD_F32, N, 1.0),
        .v = buf_random(TT_SIMD_F32, N, 1.0),
        .copy = buf_filled(TT_SIMD_BF16, N, 0),
        .update = buf_filled(TT_SIMD_F32, N, 0),
    };
    for (int64_t i = 0; i < N; i++)
        buf_set(&t.v, i, fabs(buf_get(&t.v, i)) + 0.01);
    return t;
}

static tt_simd_optimizer_args args_of(const weights *t)
{
    return (tt_simd_optimizer_args){
        .n = N,
        .w = t->w.data,
        .g = t->g.data,
        .grad_scale = 0.5f,
        .w_bf16 = t->copy.data,
        .m = t->m.data,
        .v = t->v.data,
        .step = 3,
        .lr = 0.01,
        .weight_decay = 0.1,
        .epsilon = 1e-8,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .momentum = 0.9,
        .dampening = 0.2,
        .alpha = 0.99,
        .lr_decay = 0.1,
        .trust = 0.7,
        .update = t->update.data,
    };
}

// One element by the book; s holds w, m, v before and after.
typedef struct element {
    double w, m, v, g;
} element;

typedef void rule_fn(const tt_simd_optimizer_args *a, element *e);

static void sgd(const tt_simd_optimizer_args *a, element *e)
{
    const double d = e->g + a->weight_decay * e->w;
    if (a->m == NULL) {
        e->w -= a->lr * d;
        return;
    }
    e->m = a->step == 1 ? d : a->momentum * e->m + (1 - a->dampening) * d;
    e->w -= a->lr * (a->is_nesterov ? d + a->momentum * e->m : e->m);
}

static void adagrad(const tt_simd_optimizer_args *a, element *e)
{
    const double d = e->g + a->weight_decay * e->w;
    e->v += d * d;
    e->w -= a->lr / (1 + (double)(a->step - 1) * a->lr_decay) * d /
            (sqrt(e->v) + a->epsilon);
}

static void rmsprop(const tt_simd_optimizer_args *a, element *e)
{
    const double d = e->g + a->weight_decay * e->w;
    e->v = a->alpha * e->v + (1 - a->alpha) * d * d;
    const double u = d / (sqrt(e->v) + a->epsilon);
    if (a->m == NULL) {
        e->w -= a->lr * u;
        return;
    }
    e->m = a->momentum * e->m + u;
    e->w -= a->lr * e->m;
}

static double adam_step(const tt_simd_optimizer_args *a, element *e, double d)
{
    e->m = a->beta1 * e->m + (1 - a->beta1) * d;
    e->v = a->beta2 * e->v + (1 - a->beta2) * d * d;
    const double mhat = e->m / (1 - pow(a->beta1, (double)a->step));
    const double vhat = e->v / (1 - pow(a->beta2, (double)a->step));
    return mhat / (sqrt(vhat) + a->epsilon);
}

static void adam(const tt_simd_optimizer_args *a, element *e)
{
    e->w -= a->lr * adam_step(a, e, e->g + a->weight_decay * e->w);
}

static void adamw(const tt_simd_optimizer_args *a, element *e)
{
    const double u = adam_step(a, e, e->g);
    e->w = e->w * (1 - a->lr * a->weight_decay) - a->lr * u;
}

static void yogi(const tt_simd_optimizer_args *a, element *e)
{
    const double d = e->g + a->weight_decay * e->w;
    const double square = d * d;
    const double step = (1 - a->beta2) * square;
    e->m = a->beta1 * e->m + (1 - a->beta1) * d;
    e->v += e->v < square ? step : -step;
    const double mhat = e->m / (1 - pow(a->beta1, (double)a->step));
    const double vhat = e->v / (1 - pow(a->beta2, (double)a->step));
    e->w -= a->lr * mhat / (sqrt(vhat) + a->epsilon);
}

static void lars(const tt_simd_optimizer_args *a, element *e)
{
    const double d = e->g + a->weight_decay * e->w;
    e->m = a->momentum * e->m + a->lr * a->trust * d;
    e->w -= e->m;
}

static void lamb(const tt_simd_optimizer_args *a, element *e)
{
    const double u = adam_step(a, e, e->g) + a->weight_decay * e->w;
    e->w -= a->lr * a->trust * u;
}

// Runs `fast` (and `then`) on three threads and compares with `rule`.
static void check_rule(const tt_simd_optimizer_args *settings, rule_fn *rule,
                       tt_simd_optimizer_fn *fast, tt_simd_optimizer_fn *then)
{
    const weights t = make_weights();
    tt_simd_optimizer_args a = args_of(&t);
    a.step = settings->step, a.is_nesterov = settings->is_nesterov;
    a.m = settings->m == NULL ? NULL : a.m;
    double *w = doubles(N), *m = doubles(N), *v = doubles(N);
    for (int64_t i = 0; i < N; i++) {
        element e = {buf_get(&t.w, i), buf_get(&t.m, i), buf_get(&t.v, i),
                     0.5 * buf_get(&t.g, i)};
        rule(&a, &e);
        w[i] = e.w, m[i] = e.m, v[i] = e.v;
    }
    use_threads(3);
    fast(&a);
    if (then != NULL)
        then(&a);
    buf_check(&t.w, w, "w");
    buf_check(&t.m, m, "m");
    buf_check(&t.v, v, "v");
    buf_check(&t.copy, w, "copy of w");
}

static void optimizer_case(const tt_simd *simd, tt_simd_type type)
{
    const tt_simd_optimizer *o = simd->optimizer;
    static float some;
    tt_simd_optimizer_args with = {.step = 3, .m = &some},
                           without = {.step = 3};
    if (type == TT_SIMD_BF16)
        return;
    check_rule(&without, sgd, o->sgd, NULL);
    check_rule(&with, sgd, o->sgd, NULL);
    check_rule(&with, adagrad, o->adagrad, NULL);
    check_rule(&without, rmsprop, o->rmsprop, NULL);
    check_rule(&with, rmsprop, o->rmsprop, NULL);
    check_rule(&with, adam, o->adam, NULL);
    check_rule(&with, adamw, o->adamw, NULL);
    check_rule(&with, yogi, o->yogi, NULL);
    check_rule(&with, lars, o->lars, NULL);
    check_rule(&with, lamb, o->lamb_update, o->lamb_apply);
    with.is_nesterov = true;
    check_rule(&with, sgd, o->sgd, NULL);
    with.step = 1;
    check_rule(&with, sgd, o->sgd, NULL);
    check_rule(&with, adamw, o->adamw, NULL);
}

TEST(optimizers_equal_their_formulas)
{
    simd_each(optimizer_case);
}

typedef struct lstm_tensors {
    buf gates, c_prev, c, h, d_h, d_c, d_gates, d_c_prev;
} lstm_tensors;

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

// h and c of the cell k of row r, with gate `which` moved by `shift`.
static void lstm_cell(const lstm_tensors *t, int64_t n, int64_t k,
                      const double shift[5], double out[2])
{
    const int64_t r = k / n, j = k % n;
    double z[4];
    for (int g = 0; g < 4; g++)
        z[g] = buf_get(&t->gates, (r * 4 + g) * n + j) + shift[g];
    const double c = sigmoid(z[1]) * (buf_get(&t->c_prev, k) + shift[4]) +
                     sigmoid(z[0]) * tanh(z[2]);
    out[0] = c;
    out[1] = sigmoid(z[3]) * tanh(c);
}

// d (d_c c + d_h h) / d input `which`, by a central difference.
static double lstm_slope(const lstm_tensors *t, int64_t n, int64_t k, int which)
{
    double shift[5] = {0}, up[2], down[2];
    shift[which] = 1e-5;
    lstm_cell(t, n, k, shift, up);
    shift[which] = -1e-5;
    lstm_cell(t, n, k, shift, down);
    return (buf_get(&t->d_c, k) * (up[0] - down[0]) +
            buf_get(&t->d_h, k) * (up[1] - down[1])) /
           2e-5;
}

static void lstm_check(const tt_simd *simd, tt_simd_type type, int64_t rows,
                       int64_t n)
{
    const int64_t size = rows * n;
    const lstm_tensors t = {
        .gates = buf_random(type, 4 * size, 3.0),
        .c_prev = buf_random(TT_SIMD_F32, size, 1.0),
        .c = buf_filled(TT_SIMD_F32, size, 0),
        .h = buf_filled(type, size, 0),
        .d_h = buf_random(type, size, 1.0),
        .d_c = buf_random(TT_SIMD_F32, size, 1.0),
        .d_gates = buf_filled(type, 4 * size, 0),
        .d_c_prev = buf_filled(TT_SIMD_F32, size, 0),
    };
    const tt_simd_lstm_args a = {type,           rows,           n,
                                 t.gates.data,   t.c_prev.data,  t.c.data,
                                 t.h.data,       t.d_h.data,     t.d_c.data,
                                 t.d_gates.data, t.d_c_prev.data};
    double *c = doubles(size), *h = doubles(size), *dc = doubles(size);
    double *dg = doubles(4 * size);
    use_threads(3);
    simd->lstm->forward(&a);
    simd->lstm->backward(&a);
    for (int64_t k = 0; k < size; k++) {
        double out[2];
        lstm_cell(&t, n, k, (const double[5]){0}, out);
        c[k] = out[0], h[k] = out[1];
        dc[k] = lstm_slope(&t, n, k, 4);
        for (int g = 0; g < 4; g++)
            dg[(k / n * 4 + g) * n + k % n] = lstm_slope(&t, n, k, g);
    }
    buf_check(&t.c, c, "c");
    buf_check(&t.h, h, "h");
    buf_check(&t.d_gates, dg, "d_gates");
    buf_check(&t.d_c_prev, dc, "d_c_prev");
}

static void lstm_case(const tt_simd *simd, tt_simd_type type)
{
    lstm_check(simd, type, 1, 1);
    lstm_check(simd, type, 3, 19);
    lstm_check(simd, type, 40, 130);
}

TEST(lstm_cell_equals_the_naive_one)
{
    simd_each(lstm_case);
}
