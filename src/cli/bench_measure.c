// bench_measure - the limits of this machine, and small helpers of benchmarks.

#include "base/alloc.h"
#include "base/clock.h"
#include "cli/bench.h"
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

// Fills with small numbers that are no powers of two.
static void *make_data(tt_backend *backend, const tt_operand *o)
{
    const int64_t bytes = tt_target_bytes(&backend->target, o);
    void *data = tt_alloc_aligned(bytes, 64);
    if (data != NULL && o->layout == 0)
        for (int64_t i = 0; i < tt_operand_count(o); i++)
            tt_dtype_store(o->dtype, data, i, 0.1 + (double)(i % 13) / 16);
    return data;
}

static tt_status time_kernel(const tt_choice *choice, const tt_args *args,
                             double *seconds_out)
{
    double best = 0, total = 0;
    for (int i = 0; i < 20 && (i < 3 || total < 0.1); i++) {
        const double start = tt_clock_seconds();
        TT_TRY(tt_kernel_run(choice->kernel, args));
        const double seconds = tt_clock_seconds() - start;
        total += seconds;
        if (i == 0 || seconds < best)
            best = seconds;
    }
    *seconds_out = best;
    return TT_OK;
}

static tt_status run_product(tt_backend *backend, const tt_choice *choice,
                             const tt_operand *operand, double *seconds_out)
{
    void *a = make_data(backend, &operand[0]);
    void *b = make_data(backend, &operand[1]);
    void *c = make_data(backend, &operand[2]);
    void *scratch = tt_alloc_aligned(choice->scratch_bytes + 64, 64);
    tt_status status = TT_ERR_NOMEM;
    if (a == NULL || b == NULL || c == NULL || scratch == NULL) {
        (void)tt_fail(status, "no memory to measure a product");
    } else {
        const void *in[2] = {a, b};
        void *out[1] = {c};
        const tt_args args = {.in = in, .out = out, .scratch = scratch};
        status = time_kernel(choice, &args, seconds_out);
    }
    tt_free_aligned(scratch);
    tt_free_aligned(c);
    tt_free_aligned(b);
    tt_free_aligned(a);
    return status;
}

tt_status tt_bench_product(tt_backend *backend, tt_dtype dtype,
                           const int64_t mnk[3], double *seconds_out)
{
    tt_operand operand[3];
    const tt_matmul_params params = {0};
    tt_choice choice;
    make_operand(&operand[0], dtype, mnk[0], mnk[2]);
    make_operand(&operand[1], dtype, mnk[2], mnk[1]);
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
        run_product(backend, &choice, operand, seconds_out);
    tt_kernel_free(choice.kernel);
    return status;
}

tt_status tt_bench_copy_rate(double *rate_out)
{
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
        if (i == 1 || (i > 1 && seconds < best)) // 0 touches the pages
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
        const double start = tt_clock_seconds();
        TT_TRY(tt_job_step(job, tt_job_feed_random, NULL, last_out));
        if (seconds != NULL)
            seconds[i] = tt_clock_seconds() - start;
    }
    return TT_OK;
}
