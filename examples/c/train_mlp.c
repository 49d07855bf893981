// train_mlp - trains a small classifier on made-up images until the loss has
// fallen, saves the weights, loads them into a second session and compares.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

static void need(tutti_status status)
{
    if (status == TUTTI_OK)
        return;
    fprintf(stderr, "%s\n", tutti_error());
    exit(1);
}

// A bright stripe in row `label`, under noise.
static tutti_status stripes(void *user, const tutti_batch *batch)
{
    uint32_t *random = user;
    float *x = batch->x;
    int32_t *y = batch->y;
    const int64_t rows = batch->x_type.dim[2], columns = batch->x_type.dim[3];
    for (int64_t n = 0; n < batch->x_type.dim[0]; n++) {
        y[n] = (int32_t)(n % rows);
        for (int64_t i = 0; i < rows * columns; i++) {
            *random = *random * 1664525u + 1013904223u;
            *x++ = (float)(*random >> 8) / (1 << 24) +
                   (i / columns == y[n] ? 1.0f : 0.0f);
        }
    }
    return TUTTI_OK;
}

static tutti_session *open_session(void)
{
    tutti_session *s;
    need(tutti_create(&s));
    need(tutti_set(s, "model", "mlp"));
    need(tutti_set(s, "model.layers", "1"));
    need(tutti_set(s, "model.width", "32"));
    need(tutti_set(s, "image", "8"));
    need(tutti_set(s, "batch", "64"));
    need(tutti_build(s));
    return s;
}

static void train(tutti_session *s)
{
    uint32_t random = 1;
    tutti_result result = {0};
    double first = 0;
    for (int i = 0; i < 100; i++) {
        need(tutti_set_rate(s, i < 10 ? 1e-3 * (i + 1) : 1e-2));
        need(tutti_step(s, stripes, &random, &result));
        if (i == 0)
            first = result.loss;
        if (i % 25 == 0)
            printf("step %3d  loss %.4f\n", i, result.loss);
    }
    printf("step 100  loss %.4f, %.0f of %.0f right\n", result.loss,
           result.correct, result.count);
    if (result.loss > first / 2) {
        fprintf(stderr, "the loss did not fall\n");
        exit(1);
    }
}

static void compare(tutti_session *a, tutti_session *b)
{
    for (int64_t i = 0; i < tutti_tensor_count(a); i++) {
        tutti_tensor t;
        need(tutti_tensor_at(a, i, &t));
        if (t.role != TUTTI_PARAMETER)
            continue;
        const int64_t bytes = t.type.count * tutti_dtype_bytes(t.type.dtype);
        char *left = malloc((size_t)bytes), *right = malloc((size_t)bytes);
        need(tutti_read(a, t.name, left, bytes));
        need(tutti_read(b, t.name, right, bytes));
        const int differs = memcmp(left, right, (size_t)bytes);
        printf("%-16s [%s]  %s\n", t.name, t.type.shape,
               differs ? "DIFFERS" : "equal");
        free(left);
        free(right);
        if (differs)
            exit(1);
    }
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "mlp.safetensors";
    tutti_session *trained = open_session(), *fresh = open_session();
    tutti_info info;
    need(tutti_get_info(trained, &info));
    printf("%lld parameters, %lld bytes\n", (long long)info.parameters,
           (long long)info.peak_bytes);
    train(trained);
    need(tutti_save(trained, path));
    need(tutti_load(fresh, path));
    compare(trained, fresh);
    tutti_destroy(trained);
    tutti_destroy(fresh);
    return 0;
}
