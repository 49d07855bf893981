// own_model - a model and an operator that the library does not have: y = x * x
// as the activation of a two-layer network, with its gradient, checked by the
// library's laws and then trained.

#include <stdio.h>
#include <stdlib.h>
#include <tutti/tutti.h>

static void need(tutti_status status)
{
    if (status == TUTTI_OK)
        return;
    fprintf(stderr, "%s\n", tutti_error());
    exit(1);
}

// ---- the operator: square, and square_grad -------------------------------

static tutti_status like_input(const tutti_op_types *types,
                               tutti_op_result *result)
{
    (void)types;
    tutti_result_add_like(result, 0);
    return TUTTI_OK;
}

static tutti_status square_f64(const tutti_op_data *d)
{
    const double *x = d->in[0];
    double *y = d->out[0];
    for (int64_t i = 0; i < d->out_type[0].count; i++)
        y[i] = x[i] * x[i];
    return TUTTI_OK;
}

static tutti_status square_f32(const tutti_op_data *d)
{
    const float *x = d->in[0];
    float *y = d->out[0];
    for (int64_t i = 0; i < d->out_type[0].count; i++)
        y[i] = x[i] * x[i];
    return TUTTI_OK;
}

// Inputs: what square had, then the gradient of its output.
static tutti_status square_grad_f64(const tutti_op_data *d)
{
    const double *x = d->in[0], *dy = d->in[1];
    double *dx = d->out[0];
    for (int64_t i = 0; i < d->out_type[0].count; i++)
        dx[i] = 2 * x[i] * dy[i];
    return TUTTI_OK;
}

static double one_per_element(const tutti_op_types *types)
{
    return (double)types->in[0].count;
}

static void register_square(void)
{
    static const tutti_sample samples[] = {{"", {"f a:3 b:5"}, 15}, {0}};
    static const tutti_sample grad_samples[] = {
        {"", {"f a:3 b:5", "f a:3 b:5"}, 0}, {0}};
    const tutti_operator square = {.name = "square",
                                   .doc = "Every element squared.",
                                   .infer = like_input,
                                   .forward_f32 = square_f32,
                                   .forward_f64 = square_f64,
                                   .gradient_op = "square_grad",
                                   .flops = one_per_element,
                                   .samples = samples};
    const tutti_operator grad = {.name = "square_grad",
                                 .doc = "The gradient of square.",
                                 .infer = like_input,
                                 .forward_f64 = square_grad_f64,
                                 .samples = grad_samples};
    need(tutti_op_register(&square));
    need(tutti_op_register(&grad));
}

// ---- the model -----------------------------------------------------------

typedef struct options {
    int64_t width, classes;
} options;

static tutti_value linear(tutti_builder *b, tutti_value x, const char *name,
                          const char *out, int64_t units)
{
    const long long inputs = tutti_dim(b, x, 1);
    const int scope = tutti_scope_push(b, "%s", name);
    const tutti_init init = {TUTTI_INIT_NORMAL, 0.1};
    const tutti_init zero = {TUTTI_INIT_CONST, 0};
    const tutti_value in[] = {
        x,
        tutti_param(b, "weight", init, "%s:%lld in:%lld", out, (long long)units,
                    inputs),
        tutti_param(b, "bias", zero, "%s:%lld", out, (long long)units)};
    const tutti_value y =
        tutti_op(b, "matmul", "transpose_b=true", in, 3, NULL);
    tutti_scope_pop(b, scope);
    return y;
}

static tutti_status build(tutti_builder *b, const void *chosen,
                          tutti_model_io *io, void *user)
{
    const options *o = chosen;
    (void)user;
    if (io->image == 0)
        io->image = 8;
    tutti_value x =
        tutti_input(b, "x", tutti_compute_dtype(b), "batch:%lld in:%lld",
                    (long long)io->batch, (long long)(io->image * io->image));
    io->labels =
        tutti_input(b, "y", TUTTI_I32, "batch:%lld", (long long)io->batch);
    x = linear(b, x, "hidden", "ff", o->width);
    x = tutti_op(b, "square", "", &x, 1, NULL);
    io->logits = linear(b, x, "head", "classes", o->classes);
    return TUTTI_OK;
}

static const tutti_option option_table[] = {
    {"width", "16", "hidden units", TUTTI_OPTION_I64, offsetof(options, width),
     NULL, 1, 4096},
    {"classes", "4", "classes", TUTTI_OPTION_I64, offsetof(options, classes),
     NULL, 2, 4096},
    {0},
};

// ---- training ------------------------------------------------------------

// Class k is bright in the k-th quarter.
static tutti_status quarters(void *user, const tutti_batch *batch)
{
    const int64_t n = batch->x_type.dim[1];
    (void)user;
    for (int64_t s = 0; s < batch->x_type.dim[0]; s++) {
        ((int32_t *)batch->y)[s] = (int32_t)(s % 4);
        for (int64_t i = 0; i < n; i++)
            ((float *)batch->x)[s * n + i] =
                4 * i / n == s % 4 ? 1.0f : 0.1f * (float)((s + i) % 3);
    }
    return TUTTI_OK;
}

int main(void)
{
    const tutti_model model = {.name = "squares",
                               .doc = "Two layers with a square between.",
                               .task = TUTTI_IMAGES,
                               .options = option_table,
                               .options_bytes = sizeof(options),
                               .build = build};
    tutti_check_result laws;
    tutti_session *s;
    tutti_result first, last;
    register_square();
    need(tutti_model_register(&model));
    need(tutti_check("square", &laws));
    printf("%lld checks of the laws, %lld failed\n", (long long)laws.checks,
           (long long)laws.failed);
    if (laws.failed > 0) {
        fprintf(stderr, "%s\n", tutti_error());
        return 1;
    }
    need(tutti_create(&s));
    need(tutti_set(s, "model", "squares"));
    need(tutti_set(s, "model.width", "32"));
    need(tutti_set(s, "batch", "16"));
    need(tutti_set(s, "optim.lr", "0.01"));
    need(tutti_build(s));
    need(tutti_feed_register(s, "quarters", quarters, NULL));
    need(tutti_step_from(s, "quarters", &first));
    for (int i = 0; i < 50; i++)
        need(tutti_step_from(s, "quarters", &last));
    printf("loss %.4f, after 50 steps %.4f\n", first.loss, last.loss);
    tutti_destroy(s);
    return last.loss < first.loss / 4 ? 0 : 1;
}
