// bench_measure - the limits of this machine, and small helpers of benchmarks.

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "cli/bench/bench.h"
#include "ops/arith.h"
#include "ops/codec/fp8.h"
#include "ops/matmul.h"
#include "ops/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double tt_bench_median(double *value, int64_t n)
{
    qsort(value, (size_t)n, sizeof *value, compare);
    return n % 2 == 1 ? value[n / 2] : (value[n / 2 - 1] + value[n / 2]) / 2;
}

int64_t tt_bench_resident_bytes(void)
{
    long long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%lld %lld", &size, &resident) != 2)
        resident = 0;
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

enum { MAX_OPERANDS = 4 };

static void make_vector(tt_operand *o, tt_dtype dtype, int64_t n)
{
    tt_shape shape = {0};
    (void)tt_shape_push(&shape, "entries", n);
    *o = (tt_operand){.dtype = dtype};
    tt_local_whole(&shape, &o->local);
    tt_operand_set_dense(o);
}

static void make_operand(tt_operand *o, tt_dtype dtype, int64_t rows,
                         int64_t cols)
{
    tt_shape shape = {0};
    (void)tt_shape_push(&shape, "rows", rows);
    (void)tt_shape_push(&shape, "cols", cols);
    *o = (tt_operand){.dtype = dtype};
    tt_local_whole(&shape, &o->local);
    tt_operand_set_dense(o);
}

// An operand's memory, filled with random numbers: a GPU multiplies regular ones
// faster. One random piece is repeated.
static tt_status make_data(tt_backend *backend, const tt_operand *o,
                           void **data_out)
{
    enum { PIECE = 1 << 20 }; // elements
    const int64_t size = tt_dtype_bytes(o->dtype);
    const int64_t bytes = tt_target_bytes(&backend->target, o);
    char *piece = tt_alloc(PIECE * size);
    if (piece == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to measure a product");
    for (int64_t i = 0; i < PIECE; i++)
        tt_dtype_store(o->dtype, piece, i,
                       tt_rng_uniform(1, (uint64_t)i) - 0.5);
    tt_status status = tt_memory_alloc(backend, bytes, data_out);
    int64_t done = bytes < PIECE * size ? bytes : PIECE * size;
    if (status == TT_OK)
        status = tt_memory_write(backend, *data_out, piece, done);
    for (int64_t n; done < bytes && status == TT_OK; done += n) {
        n = bytes - done < done ? bytes - done : done;
        status =
            tt_memory_copy(backend, (char *)*data_out + done, *data_out, n);
    }
    tt_free(piece);
    return status;
}

// The best of some runs. A device works asynchronously and is waited for, so there it
// is the best of groups of runs: launch and wait are shared by several.
static tt_status time_kernel(tt_backend *backend, const tt_choice *choice,
                             const tt_args *args, double *seconds_out)
{
    const int group = backend->def->memory == NULL ? 1 : 5;
    double best = 0, total = 0;
    for (int i = 0; i < 20 && (i < 3 || total < 0.1); i++) {
        const double start = tt_clock_seconds();
        for (int k = 0; k < group; k++)
            TT_TRY(tt_kernel_run(choice->kernel, args));
        TT_TRY(tt_memory_wait(backend));
        const double seconds = (tt_clock_seconds() - start) / group;
        total += seconds * group;
        if (i == 0 || seconds < best)
            best = seconds;
    }
    *seconds_out = best;
    return TT_OK;
}

// The last operand is the result.
static tt_status run_product(tt_backend *backend, const tt_choice *choice,
                             const tt_operand *operand, int n,
                             double *seconds_out)
{
    void *data[MAX_OPERANDS] = {0}, *scratch = NULL;
    tt_status status =
        tt_memory_alloc(backend, choice->scratch_bytes + 64, &scratch);
    for (int i = 0; i < n && status == TT_OK; i++)
        status = make_data(backend, &operand[i], &data[i]);
    if (status == TT_OK) {
        const void *in[MAX_OPERANDS] = {data[0], data[1], data[2]};
        const tt_args args = {
            .in = in, .out = &data[n - 1], .scratch = scratch};
        status = time_kernel(backend, choice, &args, seconds_out);
    }
    tt_memory_free(backend, scratch);
    for (int i = 0; i < n; i++)
        tt_memory_free(backend, data[i]);
    return status;
}

// A product of two fp8 operands. Their scales are 16 bytes apart in one vector.
static tt_status product_fp8(tt_backend *backend, const int64_t mnk[3],
                             double *seconds_out)
{
    enum { APART = 4 };
    tt_operand operand[4];
    const tt_matmul_fp8_params params = {.a_site = 0, .b_site = APART};
    tt_choice choice;
    make_operand(&operand[0], TT_E4M3, mnk[0], mnk[2]);
    make_operand(&operand[1], TT_E4M3, mnk[1], mnk[2]);
    make_vector(&operand[2], TT_F32, 2 * (int64_t)APART);
    make_operand(&operand[3], TT_BF16, mnk[0], mnk[1]);
    tt_site site = {.op = &tt_op_matmul_fp8,
                    .params = &params,
                    .origin = "bench",
                    .n_in = 3,
                    .n_out = 1,
                    .in = operand,
                    .out = operand + 3};
    TT_TRY(backend->target.choose(&backend->target, &site, &choice));
    const tt_status status =
        run_product(backend, &choice, operand, 4, seconds_out);
    tt_kernel_free(choice.kernel);
    return status;
}

tt_status tt_bench_product(tt_backend *backend, tt_dtype dtype,
                           const int64_t mnk[3], double *seconds_out)
{
    tt_operand operand[3];
    if (dtype == TT_E4M3)
        return product_fp8(backend, mnk, seconds_out);
    // A weight with n not a multiple of 8 is stored transposed: its last extent is k.
    const tt_matmul_params params = {.transpose_b = mnk[1] % 8 != 0};
    tt_choice choice;
    make_operand(&operand[0], dtype, mnk[0], mnk[2]);
    make_operand(&operand[1], dtype, mnk[params.transpose_b ? 1 : 2],
                 mnk[params.transpose_b ? 2 : 1]);
    make_operand(&operand[2], dtype, mnk[0], mnk[1]);
    tt_site site = {.op = &tt_op_matmul,
                    .params = &params,
                    .origin = "bench",
                    .n_in = 2,
                    .n_out = 1,
                    .in = operand,
                    .out = operand + 2};
    TT_TRY(backend->target.choose(&backend->target, &site, &choice));
    const tt_status status =
        run_product(backend, &choice, operand, 3, seconds_out);
    tt_kernel_free(choice.kernel);
    return status;
}

// By a kernel that reads and writes every element once.
static tt_status device_copy_rate(tt_backend *backend, double *rate_out)
{
    tt_operand operand[2];
    const tt_scale_params params = {.by = 1};
    tt_choice choice;
    make_operand(&operand[0], TT_F32, 1 << 14, 1 << 14);
    make_operand(&operand[1], TT_F32, 1 << 14, 1 << 14);
    tt_site site = {.op = &tt_op_scale,
                    .params = &params,
                    .origin = "bench",
                    .n_in = 1,
                    .n_out = 1,
                    .in = operand,
                    .out = operand + 1};
    TT_TRY(backend->target.choose(&backend->target, &site, &choice));
    void *from = NULL, *to = NULL;
    tt_status status = make_data(backend, &operand[0], &from);
    if (status == TT_OK)
        status = make_data(backend, &operand[1], &to);
    double seconds = 1;
    if (status == TT_OK) {
        const tt_args args = {.in = (const void *const *)&from, .out = &to};
        status = time_kernel(backend, &choice, &args, &seconds);
    }
    tt_memory_free(backend, from);
    tt_memory_free(backend, to);
    tt_kernel_free(choice.kernel);
    *rate_out = 8.0 * (1 << 28) / seconds;
    return status;
}

tt_status tt_bench_copy_rate(tt_backend *backend, double *rate_out)
{
    if (backend->def->memory != NULL)
        return device_copy_rate(backend, rate_out);
    const int64_t bytes = 256 << 20;
    char *from = tt_alloc_aligned(bytes, 4096);
    char *to = tt_alloc_aligned(bytes, 4096);
    double best = 0;
    if (from == NULL || to == NULL) {
        tt_free_aligned(from);
        tt_free_aligned(to);
        return tt_fail(TT_ERR_NOMEM, "no memory to measure a copy");
    }
    memset(from, 1, (size_t)bytes);
    for (int i = 0; i < 4; i++) {
        const double start = tt_clock_seconds();
#pragma omp parallel for schedule(static)
        for (int64_t k = 0; k < 64; k++)
            memcpy(to + k * (bytes / 64), from + k * (bytes / 64),
                   (size_t)(bytes / 64));
        const double seconds = tt_clock_seconds() - start;
        // Run 0 touches the pages: it does not count.
        if (i == 1 || (i > 1 && seconds < best))
            best = seconds;
    }
    tt_free_aligned(from);
    tt_free_aligned(to);
    *rate_out = 2 * (double)bytes / best;
    return TT_OK;
}

tt_status tt_bench_run(tt_job *job, int64_t n, double *seconds,
                       tt_step_result *last_out)
{
    for (int64_t i = 0; i < n; i++) {
        tt_job_feed_fn *feed = job->step == 0 ? tt_job_feed_random : NULL;
        const double start = tt_clock_seconds();
        TT_TRY(tt_job_step(job, feed, NULL, last_out));
        if (seconds != NULL)
            seconds[i] = tt_clock_seconds() - start;
    }
    return TT_OK;
}
