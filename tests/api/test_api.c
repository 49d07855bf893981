// The public interface, through the public header alone.

#include "base/alloc.h"
#include "test.h"
#include "tutti/tutti.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const small_mlp[] = {
    "model", "mlp", "model.layers", "1",    "model.width", "5", "image", "3",
    "batch", "4",   "optim.lr",     "0.01", "threads",     "1", NULL};

static const char *const small_gpt[] = {
    "model",       "gpt", "model.layers",  "1",
    "model.width", "8",   "model.heads",   "2",
    "model.vocab", "11",  "model.context", "6",
    "batch",       "2",   "threads",       "1",
    NULL};

static tutti_session *open_with(const char *const *settings)
{
    tutti_session *s = NULL;
    CHECK(tutti_create(&s) == TUTTI_OK);
    for (int i = 0; settings[i] != NULL; i += 2)
        CHECK(tutti_set(s, settings[i], settings[i + 1]) == TUTTI_OK);
    return s;
}

static tutti_session *build_with(const char *const *settings)
{
    tutti_session *s = open_with(settings);
    CHECK_MSG(tutti_build(s) == TUTTI_OK, "%s", tutti_error());
    return s;
}

static void says(const char *text)
{
    CHECK_MSG(strstr(tutti_error(), text) != NULL, "\"%s\" lacks \"%s\"",
              tutti_error(), text);
}

static tutti_status feed(void *user, const tutti_batch *batch)
{
    if (user != NULL)
        ++*(int *)user;
    for (int64_t i = 0; i < batch->x_type.count; i++)
        if (batch->x_type.dtype == TUTTI_F32)
            ((float *)batch->x)[i] = (float)((i * 7 + batch->micro) % 5) / 5;
        else
            ((int32_t *)batch->x)[i] = (int32_t)(i % 3);
    for (int64_t i = 0; i < batch->y_type.count; i++)
        ((int32_t *)batch->y)[i] = (int32_t)(i % 3);
    return TUTTI_OK;
}

TEST(api_version_is_the_headers)
{
    CHECK(strcmp(tutti_version(), TUTTI_VERSION) == 0);
}

TEST(api_wants_things_in_order)
{
    tutti_session *s = open_with(small_mlp);
    tutti_info info;
    tutti_result result;
    float x;
    CHECK(tutti_get_info(s, &info) == TUTTI_ERR_STATE);
    says("tutti_plan");
    CHECK(tutti_step(s, feed, NULL, &result) == TUTTI_ERR_STATE);
    says("tutti_build");
    CHECK(tutti_read(s, "layers.0.bias", &x, 4) == TUTTI_ERR_STATE);
    CHECK(tutti_tensor_count(s) == 0);
    CHECK(tutti_plan(s) == TUTTI_OK);
    CHECK(tutti_set(s, "batch", "2") == TUTTI_ERR_STATE);
    CHECK(tutti_get_info(s, &info) == TUTTI_OK);
    CHECK(info.parameters == 9 * 5 + 5 + 5 * 10 + 10);
    CHECK(info.parameter_bytes == 4 * info.parameters);
    CHECK(info.peak_bytes == info.parameter_bytes + info.gradient_bytes +
                                 info.optimiser_bytes + info.buffer_bytes +
                                 info.activation_bytes + info.scratch_bytes +
                                 info.gap_bytes);
    CHECK(info.flops > 0 && info.note == NULL);
    CHECK(tutti_build(s) == TUTTI_OK && tutti_build(s) == TUTTI_OK);
    tutti_destroy(s);
    tutti_destroy(NULL);
}

TEST(api_settings_may_change_after_a_refusal)
{
    tutti_session *s = open_with(small_gpt);
    CHECK(tutti_set(s, "model.heads", "3") == TUTTI_OK);
    CHECK(tutti_build(s) == TUTTI_ERR_ARG);
    says("model.width=8 is not a multiple of model.heads=3");
    CHECK(tutti_set(s, "model.hats", "3") == TUTTI_OK);
    CHECK(tutti_plan(s) == TUTTI_ERR_ARG);
    says("model.hats");
    tutti_destroy(s);
    s = open_with(small_gpt);
    CHECK(tutti_set(s, "seq", "7") == TUTTI_OK);
    CHECK(tutti_plan(s) == TUTTI_ERR_ARG);
    CHECK(tutti_set(s, "seq", "5") == TUTTI_OK);
    CHECK(tutti_build(s) == TUTTI_OK);
    tutti_destroy(s);
}

static void append(void *user, const char *text)
{
    strncat(user, text, 4000);
}

TEST(api_prints_the_plan)
{
    tutti_session *s = open_with(small_mlp);
    char text[8000] = "", steps[8000] = "";
    CHECK(tutti_print_plan(s, false, append, text) == TUTTI_ERR_STATE);
    CHECK(tutti_plan(s) == TUTTI_OK);
    CHECK(tutti_print_plan(s, false, append, text) == TUTTI_OK);
    CHECK(tutti_print_plan(s, true, append, steps) == TUTTI_OK);
    CHECK(strstr(text, "optimiser state") != NULL);
    CHECK(strlen(steps) > strlen(text));
    tutti_destroy(s);
}

TEST(api_steps_lower_the_loss)
{
    tutti_session *s = build_with(small_gpt);
    tutti_result first, last;
    int fed = 0;
    CHECK(tutti_step(s, feed, &fed, &first) == TUTTI_OK);
    CHECK(first.count == 12 && first.norm > 0 && first.loss > 1);
    CHECK(tutti_set_rate(s, 0.05) == TUTTI_OK);
    for (int i = 0; i < 20; i++)
        CHECK(tutti_step(s, feed, &fed, &last) == TUTTI_OK);
    CHECK(last.loss < first.loss / 4 && last.correct == 12);
    CHECK(fed == 21);
    CHECK(tutti_set_rate(s, -1) == TUTTI_ERR_ARG);
    tutti_destroy(s);
}

static tutti_status refuse(void *user, const tutti_batch *batch)
{
    (void)batch;
    return user == NULL ? TUTTI_ERR_IO
                        : tutti_fail(TUTTI_ERR_IO, "out of %s", "data");
}

static tutti_status mislabel(void *user, const tutti_batch *batch)
{
    (void)feed(user, batch);
    ((int32_t *)batch->y)[1] = 10;
    return TUTTI_OK;
}

TEST(api_feeds_have_names_and_may_fail)
{
    tutti_session *s = build_with(small_mlp);
    tutti_result r;
    float before[5], after[5];
    CHECK(tutti_feed_register(s, "good", feed, NULL) == TUTTI_OK);
    CHECK(tutti_feed_register(s, "good", feed, NULL) == TUTTI_ERR_ARG);
    CHECK(tutti_step_from(s, "gold", &r) == TUTTI_ERR_ARG);
    CHECK(tutti_step_from(s, "good", &r) == TUTTI_OK);
    CHECK(tutti_read(s, "layers.0.bias", before, 20) == TUTTI_OK);
    CHECK(tutti_step(s, refuse, NULL, &r) == TUTTI_ERR_IO);
    says("the feed failed in step 1");
    CHECK(tutti_step(s, refuse, &r, &r) == TUTTI_ERR_IO);
    says("out of data");
    CHECK(tutti_step(s, mislabel, NULL, &r) == TUTTI_ERR_ARG);
    says("label 10 at 1: the last class is 9");
    CHECK(tutti_read(s, "layers.0.bias", after, 20) == TUTTI_OK);
    CHECK(memcmp(before, after, sizeof before) == 0);
    tutti_destroy(s);
}

// One step of plain SGD takes the gradient that is read afterwards.
TEST(api_reads_gradients)
{
    tutti_session *s = open_with(small_mlp);
    tutti_result r;
    float before[10], after[10], grad[10];
    CHECK(tutti_set(s, "optim", "sgd") == TUTTI_OK);
    CHECK(tutti_set(s, "optim.clip", "0") == TUTTI_OK);
    CHECK(tutti_set(s, "accumulate", "2") == TUTTI_OK);
    CHECK(tutti_build(s) == TUTTI_OK);
    CHECK(tutti_read(s, "layers.2.bias.grad", grad, 40) == TUTTI_ERR_STATE);
    CHECK(tutti_read(s, "layers.2.bias", before, 40) == TUTTI_OK);
    CHECK(tutti_step(s, feed, NULL, &r) == TUTTI_OK);
    CHECK(tutti_read(s, "layers.2.bias", after, 40) == TUTTI_OK);
    CHECK(tutti_read(s, "layers.2.bias.grad", grad, 40) == TUTTI_OK);
    for (int i = 0; i < 10; i++)
        CHECK_CLOSE(before[i] - 0.01f * grad[i], after[i], 1e-6);
    CHECK(tutti_write(s, "layers.2.bias.grad", grad, 40) == TUTTI_ERR_ARG);
    tutti_destroy(s);
}

TEST(api_lists_and_finds_tensors)
{
    tutti_session *s = build_with(small_mlp);
    tutti_tensor t;
    float x[10] = {1, 2, 3};
    int64_t n_role[4] = {0};
    for (int64_t i = 0; i < tutti_tensor_count(s); i++) {
        CHECK(tutti_tensor_at(s, i, &t) == TUTTI_OK);
        n_role[t.role]++;
    }
    CHECK(n_role[TUTTI_PARAMETER] == 4 && n_role[TUTTI_OPTIMISER] == 8);
    CHECK(n_role[TUTTI_GRADIENT] == 4 && n_role[TUTTI_BUFFER] == 0);
    CHECK(tutti_tensor_at(s, -1, &t) == TUTTI_ERR_ARG);
    CHECK(tutti_tensor_at(s, 16, &t) == TUTTI_ERR_ARG);
    CHECK(tutti_tensor_find(s, "layers.2.weight", &t) == TUTTI_OK);
    CHECK(t.type.ndim == 2 && t.type.dim[0] == 10 && t.type.dim[1] == 5);
    CHECK(t.type.dtype == TUTTI_F32 && t.type.count == 50);
    CHECK(tutti_tensor_find(s, "layers.2.weigth", &t) == TUTTI_ERR_ARG);
    says("did you mean layers.2.weight?");
    CHECK(tutti_write(s, "layers.2.bias", x, 40) == TUTTI_OK);
    memset(x, 0, sizeof x);
    CHECK(tutti_read(s, "layers.2.bias", x, 40) == TUTTI_OK && x[2] == 3);
    CHECK(tutti_read(s, "layers.2.bias", x, 36) == TUTTI_ERR_ARG);
    says("has 40 bytes, not 36");
    CHECK(tutti_tensor_find(s, "layers.2.bias.exp_avg", &t) == TUTTI_OK);
    CHECK(t.role == TUTTI_OPTIMISER);
    tutti_destroy(s);
}

// ---- files ---------------------------------------------------------------

TEST(api_saves_and_loads)
{
    char path[] = "/tmp/tutti-api-XXXXXX";
    const int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    tutti_session *a = build_with(small_gpt), *b = open_with(small_gpt);
    tutti_result r, again;
    CHECK(tutti_set(b, "seed", "2") == TUTTI_OK);
    CHECK(tutti_set(b, "precision", "fp64") == TUTTI_OK);
    CHECK(tutti_build(b) == TUTTI_OK);
    CHECK(tutti_step(a, feed, NULL, &r) == TUTTI_OK);
    CHECK(tutti_save(a, path) == TUTTI_OK);
    CHECK_MSG(tutti_load(b, path) == TUTTI_OK, "%s", tutti_error());
    CHECK(tutti_step(a, feed, NULL, &r) == TUTTI_OK);
    CHECK(tutti_step(b, feed, NULL, &again) == TUTTI_OK);
    CHECK_CLOSE(r.loss, again.loss, 1e-5);
    tutti_session *other = build_with(small_mlp);
    CHECK(tutti_load(other, path) == TUTTI_ERR_ARG);
    says("it lacks layers.0.weight");
    says("and 13 more");
    CHECK(tutti_load(other, "/no/such/file") != TUTTI_OK);
    CHECK(tutti_save(other, "/no/such/folder/file") == TUTTI_ERR_IO);
    tutti_destroy(a);
    tutti_destroy(b);
    tutti_destroy(other);
    unlink(path);
}

TEST(api_refuses_weights_of_another_shape)
{
    char path[] = "/tmp/tutti-api-XXXXXX";
    const int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    tutti_session *a = build_with(small_mlp), *b = open_with(small_mlp);
    CHECK(tutti_set(b, "model.width", "6") == TUTTI_OK);
    CHECK(tutti_build(b) == TUTTI_OK);
    CHECK(tutti_save(a, path) == TUTTI_OK);
    CHECK(tutti_load(b, path) == TUTTI_ERR_ARG);
    says("layers.0.weight is [5, 9], but the model wants [6, 9]");
    tutti_destroy(a);
    tutti_destroy(b);
    unlink(path);
}

TEST(api_reads_settings_from_a_file)
{
    char path[] = "/tmp/tutti-api-XXXXXX";
    const int fd = mkstemp(path);
    const char text[] = "model: mlp\nbatch: 3\nmodel:\n";
    CHECK(fd >= 0 && write(fd, text, 20) == 20);
    tutti_session *s = NULL;
    tutti_info info;
    CHECK(tutti_create(&s) == TUTTI_OK);
    CHECK(tutti_read_file(s, path) == TUTTI_OK);
    CHECK(tutti_plan(s) == TUTTI_OK && tutti_get_info(s, &info) == TUTTI_OK);
    CHECK(info.parameters == 269322);
    tutti_destroy(s);
    CHECK(tutti_create(&s) == TUTTI_OK);
    CHECK(write(fd, text + 20, 7) == 7); // the same key twice
    close(fd);
    CHECK(tutti_read_file(s, path) == TUTTI_ERR_ARG);
    CHECK(tutti_read_file(s, "/no/such/file.yaml") == TUTTI_ERR_IO);
    tutti_destroy(s);
    unlink(path);
}

// ---- from outside --------------------------------------------------------

typedef struct power {
    double factor;
} power;

static tutti_status same(const tutti_op_types *types, tutti_op_result *result)
{
    if (types->n_in == 3)
        return tutti_fail(TUTTI_ERR_ARG, "cube takes one input");
    tutti_result_add_like(result, 0);
    return TUTTI_OK;
}

static tutti_status cube(const tutti_op_data *d)
{
    const double *x = d->in[0];
    const power *p = d->options;
    for (int64_t i = 0; i < d->out_type[0].count; i++)
        ((double *)d->out[0])[i] = p->factor * x[i] * x[i] * x[i];
    return TUTTI_OK;
}

// 3 factor x x dy, from operators of the library.
static tutti_status cube_grad(tutti_builder *b, const tutti_op_gradient *g)
{
    char text[64];
    const power *p = g->options;
    CHECK(g->n_in == 1 && g->n_out == 1 && g->need[0]);
    snprintf(text, sizeof text, "by=%.17g", 3 * p->factor);
    const tutti_value square =
        tutti_op(b, "mul", "", (tutti_value[]){g->in[0], g->in[0]}, 2, NULL);
    const tutti_value flow =
        tutti_op(b, "mul", "", (tutti_value[]){square, g->dout[0]}, 2, NULL);
    g->din[0] = tutti_op(b, "scale", text, &flow, 1, NULL);
    return TUTTI_OK;
}

static const tutti_option power_options[] = {
    {"factor", "1", "in front", TUTTI_OPTION_F64, offsetof(power, factor)},
    {0},
};
static const tutti_sample cube_samples[] = {
    {"factor=0.5", {"f a:2 b:3"}, 0},
    {"", {"f a:7"}, 0},
    {0},
};

static tutti_operator cube_operator(void)
{
    return (tutti_operator){.name = "cube",
                            .doc = "Third power.",
                            .options = power_options,
                            .options_bytes = sizeof(power),
                            .infer = same,
                            .forward_f64 = cube,
                            .gradient = cube_grad,
                            .samples = cube_samples};
}

TEST_SLOW(api_laws_look_at_operators_from_outside, 120)
{
    tutti_operator op = cube_operator();
    tutti_check_result laws;
    CHECK_MSG(tutti_op_register(&op) == TUTTI_OK, "%s", tutti_error());
    CHECK(tutti_check("cube", &laws) == TUTTI_OK);
    CHECK_MSG(laws.checks > 20 && laws.failed == 0, "%s", tutti_error());
    CHECK(tutti_op_register(&op) == TUTTI_ERR_ARG);
    says("there is an operator \"cube\" already");
    op.name = "wrong_cube"; // claims to be its own gradient
    op.gradient = NULL;
    op.gradient_op = "cube";
    CHECK(tutti_op_register(&op) == TUTTI_OK);
    CHECK(tutti_check("wrong_cube", &laws) == TUTTI_OK);
    CHECK(laws.failed > 0);
    says("wrong_cube");
}

TEST(api_refuses_operators_that_cannot_be)
{
    tutti_operator op = cube_operator();
    op.forward_f64 = NULL;
    CHECK(tutti_op_register(&op) == TUTTI_ERR_ARG);
    op = cube_operator();
    op.infer = NULL;
    CHECK(tutti_op_register(&op) == TUTTI_ERR_ARG);
    op = cube_operator();
    op.gradient_op = "gelu";
    CHECK(tutti_op_register(&op) == TUTTI_ERR_ARG);
    op = cube_operator();
    op.options_bytes = 4;
    CHECK(tutti_op_register(&op) == TUTTI_ERR_ARG);
    says("option factor lies outside of its 4 bytes");
    op = cube_operator();
    op.name = "matmul";
    CHECK(tutti_op_register(&op) == TUTTI_ERR_ARG);
    says("already");
}

// What a model from outside does besides the usual.
enum {
    GOOD,
    NO_LOGITS,
    NO_OPERATOR,
    BAD_SHAPE,
    GIVES_UP,
    WITH_CUBE,
    WITH_NORM
};

static tutti_value norm(tutti_builder *b, tutti_value x)
{
    const tutti_init zero = {TUTTI_INIT_CONST, 0}, one = {TUTTI_INIT_CONST, 1};
    const long long n = tutti_dim(b, x, 1);
    const tutti_value mean = tutti_buffer(b, "mean", zero, "ff:%lld", n);
    const tutti_value variance = tutti_buffer(b, "variance", one, "ff:%lld", n);
    const tutti_value in[] = {x, tutti_param(b, "scale", one, "ff:%lld", n),
                              tutti_param(b, "shift", zero, "ff:%lld", n), mean,
                              variance};
    tutti_value out[TUTTI_MAX_OUT];
    const tutti_value y = tutti_op(b, "batch_norm", "", in, 5, out);
    tutti_update(b, mean, out[1]);
    tutti_update(b, variance, out[2]);
    return y;
}

static tutti_status build(tutti_builder *b, const void *options,
                          tutti_model_io *io, void *user)
{
    const int how = *(const int *)user;
    const tutti_init init = {TUTTI_INIT_UNIFORM, 0.5};
    const long long n = io->batch;
    (void)options;
    const tutti_value x =
        tutti_input(b, "x", tutti_compute_dtype(b), "batch:%lld in:4", n);
    io->labels = tutti_input(b, "y", TUTTI_I32, "batch:%lld", n);
    const int scope = tutti_scope_push(b, "part.%d", 1);
    const tutti_value in[] = {
        x, tutti_param(b, "w", init,
                       how == BAD_SHAPE ? "ff:3 in:0" : "ff:3 in:4")};
    tutti_value y = tutti_op(b, how == NO_OPERATOR ? "matnul" : "matmul",
                             "transpose_b=true", in, 2, NULL);
    if (how == WITH_CUBE)
        y = tutti_op(b, "cube", "factor=2", &y, 1, NULL);
    if (how == WITH_NORM)
        y = norm(b, y);
    tutti_scope_pop(b, scope);
    if (how != NO_LOGITS)
        io->logits = y;
    return how == GIVES_UP ? tutti_fail(TUTTI_ERR_UNSUPPORTED, "not today")
                           : TUTTI_OK;
}

static tutti_session *open_own(int *how, const char *precision)
{
    const tutti_model model = {
        .name = "own", .task = TUTTI_IMAGES, .build = build, .user = how};
    CHECK(tutti_model_register(&model) == TUTTI_OK);
    return open_with((const char *const[]){"model", "own", "batch", "6",
                                           "optim.lr", "0.05", "precision",
                                           precision, "threads", "1", NULL});
}

TEST(api_models_from_outside_fail_with_a_reason)
{
    static const struct {
        int how;
        tutti_status status;
        const char *says;
    } cases[] = {
        {NO_LOGITS, TUTTI_ERR_ARG, "set no logits"},
        {NO_OPERATOR, TUTTI_ERR_ARG, "did you mean matmul?"},
        {BAD_SHAPE, TUTTI_ERR_ARG, "part.1.w"},
        {GIVES_UP, TUTTI_ERR_UNSUPPORTED, "not today"},
    };
    int how = GOOD;
    tutti_session *s = open_own(&how, "fp32");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        how = cases[i].how;
        CHECK_MSG(tutti_plan(s) == cases[i].status, "%s", tutti_error());
        says(cases[i].says);
    }
    how = GOOD;
    CHECK(tutti_build(s) == TUTTI_OK);
    tutti_tensor t;
    CHECK(tutti_tensor_find(s, "part.1.w", &t) == TUTTI_OK);
    const tutti_model again = {.name = "gpt2-124m", .build = build};
    CHECK(tutti_model_register(&again) == TUTTI_ERR_ARG);
    says("there is a model \"gpt2-124m\" already");
    tutti_destroy(s);
}

static tutti_status feed_any(void *user, const tutti_batch *batch)
{
    const int64_t bytes = tutti_dtype_bytes(batch->x_type.dtype);
    (void)user;
    for (int64_t i = 0; i < batch->x_type.count; i++) {
        const float value = i % 4 == i / 4 % 3 ? 1.0f : 0.25f;
        uint32_t bits;
        memcpy(&bits, &value, 4);
        const uint16_t high = (uint16_t)(bits >> 16); // bf16 of these is exact
        memcpy((char *)batch->x + i * bytes,
               bytes == 2 ? (const void *)&high : (const void *)&value,
               (size_t)bytes);
    }
    for (int64_t i = 0; i < batch->y_type.count; i++)
        ((int32_t *)batch->y)[i] = (int32_t)(i % 3);
    return TUTTI_OK;
}

TEST(api_trains_a_model_and_operator_from_outside)
{
    static const char *const precision[] = {"fp32", "bf16"};
    const tutti_operator op = cube_operator();
    int how = WITH_CUBE;
    tutti_session *s = open_own(&how, precision[0]);
    CHECK(tutti_op_register(&op) == TUTTI_OK);
    for (int p = 0; p < 2; p++) {
        tutti_result first, last;
        if (p == 1) {
            s = open_with((const char *const[]){
                "model", "own", "batch", "6", "optim.lr", "0.05", "precision",
                precision[1], "threads", "1", NULL});
        }
        CHECK_MSG(tutti_build(s) == TUTTI_OK, "%s", tutti_error());
        CHECK(tutti_step(s, feed_any, NULL, &first) == TUTTI_OK);
        for (int i = 0; i < 30; i++)
            CHECK(tutti_step(s, feed_any, NULL, &last) == TUTTI_OK);
        CHECK_MSG(last.loss < first.loss / 2, "%g after %g", last.loss,
                  first.loss);
        tutti_destroy(s);
    }
}

TEST(api_buffers_are_updated_and_saved)
{
    char path[] = "/tmp/tutti-api-XXXXXX";
    const int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    int how = WITH_NORM;
    tutti_session *s = open_own(&how, "fp32");
    tutti_result r;
    float mean[3] = {9, 9, 9}, zero[3] = {0};
    CHECK_MSG(tutti_build(s) == TUTTI_OK, "%s", tutti_error());
    CHECK(tutti_read(s, "part.1.mean", mean, 12) == TUTTI_OK);
    CHECK(memcmp(mean, zero, 12) == 0);
    CHECK(tutti_step(s, feed_any, NULL, &r) == TUTTI_OK);
    CHECK(tutti_read(s, "part.1.mean", mean, 12) == TUTTI_OK);
    CHECK(memcmp(mean, zero, 12) != 0);
    CHECK(tutti_save(s, path) == TUTTI_OK);
    CHECK(tutti_write(s, "part.1.mean", zero, 12) == TUTTI_OK);
    CHECK(tutti_load(s, path) == TUTTI_OK);
    CHECK(tutti_read(s, "part.1.mean", zero, 12) == TUTTI_OK);
    CHECK(memcmp(mean, zero, 12) == 0);
    tutti_destroy(s);
    unlink(path);
}

// ---- memory --------------------------------------------------------------

static tutti_status live(const char *path)
{
    tutti_session *s = NULL;
    tutti_result r;
    tutti_status status = tutti_create(&s);
    for (int i = 0; status == TUTTI_OK && small_mlp[i] != NULL; i += 2)
        status = tutti_set(s, small_mlp[i], small_mlp[i + 1]);
    if (status == TUTTI_OK)
        status = tutti_build(s);
    if (status == TUTTI_OK)
        status = tutti_step(s, feed, NULL, &r);
    if (status == TUTTI_OK)
        status = tutti_save(s, path);
    if (status == TUTTI_OK)
        status = tutti_load(s, path);
    tutti_destroy(s);
    return status;
}

TEST_SLOW(api_survives_every_failing_allocation, 120)
{
    char path[] = "/tmp/tutti-api-XXXXXX";
    const int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    CHECK(live(path) == TUTTI_OK); // what the first use sets up for good
    const int64_t before = tt_alloc_live();
    tutti_status status = TUTTI_ERR_NOMEM;
    for (int64_t k = 1; status != TUTTI_OK; k++) {
        tt_alloc_fail_at(k);
        status = live(path);
        tt_alloc_fail_at(0);
        CHECK_MSG(status == TUTTI_OK || status == TUTTI_ERR_NOMEM,
                  "allocation %lld: %d %s", (long long)k, status,
                  tutti_error());
        CHECK_MSG(tt_alloc_live() == before, "allocation %lld leaks",
                  (long long)k);
        CHECK(k < 100000);
    }
    unlink(path);
}
