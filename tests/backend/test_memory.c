// Memory that the host cannot address: a backend whose addresses lie where no memory
// is, so that whoever reads or writes there himself is stopped at once.

#include "base/alloc.h"
#include "exec/world.h"
#include "test.h"

#include <string.h>

static const uintptr_t distance = (uintptr_t)1 << 46;
static int64_t reads_left; // until one fails; negative: all succeed

static void *near_of(const void *far)
{
    return (void *)((uintptr_t)far - distance);
}

static tt_status far_alloc(tt_backend *backend, int64_t bytes, void **block_out)
{
    (void)backend;
    void *block = tt_alloc_aligned(bytes, 64);
    if (block == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory far away");
    *block_out = (void *)((uintptr_t)block + distance);
    return TT_OK;
}

static void far_free(tt_backend *backend, void *block)
{
    (void)backend;
    if (block != NULL)
        tt_free_aligned(near_of(block));
}

static tt_status far_fill(tt_backend *backend, void *to, int byte,
                          int64_t bytes)
{
    (void)backend;
    memset(near_of(to), byte, (size_t)bytes);
    return TT_OK;
}

static tt_status far_write(tt_backend *backend, void *to, const void *host,
                           int64_t bytes)
{
    (void)backend;
    memcpy(near_of(to), host, (size_t)bytes);
    return TT_OK;
}

static tt_status far_read(tt_backend *backend, void *host, const void *from,
                          int64_t bytes)
{
    (void)backend;
    if (reads_left-- == 0)
        return tt_fail(TT_ERR_IO, "far away");
    memcpy(host, near_of(from), (size_t)bytes);
    return TT_OK;
}

static tt_status far_wait(tt_backend *backend)
{
    (void)backend;
    return TT_OK;
}

static const tt_memory_def far_memory = {
    .alloc = far_alloc,
    .free = far_free,
    .fill = far_fill,
    .write = far_write,
    .read = far_read,
    .wait = far_wait,
};

static bool has_dtype(tt_dtype dtype)
{
    return dtype < TT_N_DTYPES;
}

static const tt_kernel_def *const no_kernels[] = {NULL};

static const tt_backend_def far_backend = {
    .name = "far",
    .doc = "No kernels of its own.",
    .kernels = no_kernels,
    .memory = &far_memory,
    .has_dtype = has_dtype,
};

typedef struct outcome {
    double loss, w1[24], w2[16], bias[4];
    int64_t peak_used;
} outcome;

static outcome train(const tt_backend_def *def)
{
    world w;
    outcome o;
    memset(&o, 0, sizeof o);
    world_init(&w);
    world_build_mlp(&w.b, 4);
    world_open(&w, def, &(tt_lower_options){.n_micro = 3});
    for (int i = 0; i < 2; i++)
        CHECK_OK(tt_exec_run(w.exec, world_feed_rows, &w));
    o.loss = world_scalar(&w, "loss");
    world_read(&w, "w1", o.w1);
    world_read(&w, "w2", o.w2);
    world_read(&w, "bias", o.bias);
    o.peak_used = w.plan->peak_bytes - tt_exec_peak_used(w.exec);
    CHECK(tt_exec_overrun(w.exec) < 0);
    world_fini(&w);
    return o;
}

TEST(kernels_of_the_host_give_the_same_bits_on_far_memory)
{
    reads_left = -1;
    const outcome here = train(NULL), far = train(&far_backend);
    CHECK(memcmp(&here, &far, sizeof here) == 0);
    CHECK(here.loss > 0 && here.peak_used == 0);
}

TEST(a_copy_that_fails_ends_the_step)
{
    world w;
    reads_left = -1;
    world_init(&w);
    world_build_mlp(&w.b, 4);
    world_open(&w, &far_backend, &(tt_lower_options){.n_micro = 3});
    int n_failed = 0;
    for (int64_t k = 0; k < 40; k += 13) {
        reads_left = k;
        n_failed += tt_exec_run(w.exec, world_feed_rows, &w) == TT_ERR_IO;
    }
    reads_left = -1;
    CHECK(n_failed == 4);
    CHECK_OK(tt_exec_run(w.exec, world_feed_rows, &w));
    world_fini(&w);
}
