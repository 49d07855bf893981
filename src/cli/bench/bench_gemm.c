// bench_gemm - matrix products of given or common shapes, against the best rate that
// one of them, or a large square product, reaches in the same run.

#include "base/json.h"
#include "base/settings/opt.h"
#include "cli/bench/bench.h"

#include <math.h>
#include <stdio.h>

typedef struct options {
    int64_t m, n, k, threads;
    int precision;
    const char *device;
} options;

static const tt_opt table[] = {
    {"m", "0", "rows; 0: a list of usual shapes", TT_OPT_I64,
     offsetof(options, m), NULL, 0, 1 << 20},
    {"n", "0", "columns; 0: as m", TT_OPT_I64, offsetof(options, n), NULL, 0,
     1 << 20},
    {"k", "0", "inner extent; 0: as m", TT_OPT_I64, offsetof(options, k), NULL,
     0, 1 << 20},
    {"precision", "fp32", "of the operands", TT_OPT_CHOICE,
     offsetof(options, precision), "fp32|bf16"},
    {"device", "cpu", "cpu or ref", TT_OPT_STR, offsetof(options, device)},
    {"threads", "0", "threads; 0: all cores", TT_OPT_I64,
     offsetof(options, threads), NULL, 0, 4096},
    {0},
};

static const int64_t usual[][3] = {
    {64, 64, 64},      {256, 256, 256},  {512, 2304, 768},  {512, 768, 3072},
    {256, 50257, 768}, {768, 768, 1024}, {1024, 3072, 768}, {2048, 2048, 2048},
};

enum { N_USUAL = sizeof usual / sizeof usual[0] };

static double flops(const int64_t *d)
{
    return 2 * (double)d[0] * (double)d[1] * (double)d[2];
}

static void print_row(const int64_t *d, double seconds, double best,
                      tt_json *json)
{
    const double rate = flops(d) / seconds;
    if (json == NULL) {
        printf("%6lld %6lld %6lld %10.3f ms %8.1f GFLOP/s %7.0f%%\n",
               (long long)d[0], (long long)d[1], (long long)d[2], seconds * 1e3,
               rate / 1e9, 100 * rate / best);
        return;
    }
    tt_json_open(json, NULL, '{');
    tt_json_i64(json, "m", d[0]);
    tt_json_i64(json, "n", d[1]);
    tt_json_i64(json, "k", d[2]);
    tt_json_f64(json, "ms", seconds * 1e3);
    tt_json_f64(json, "gflops", rate / 1e9);
    tt_json_f64(json, "of_best", rate / best);
    tt_json_close(json, '}');
}

static tt_status sweep(const tt_cli *cli, tt_backend *backend, const options *o)
{
    const int64_t big[3] = {2048, 2048, 2048};
    const int64_t one[1][3] = {{o->m, o->n ? o->n : o->m, o->k ? o->k : o->m}};
    const int64_t(*shape)[3] = o->m > 0 ? one : usual;
    const int n = o->m > 0 ? 1 : N_USUAL;
    const tt_dtype dtype = o->precision == 1 ? TT_BF16 : TT_F32;
    const bool is_json = tt_cli_has(cli, "--json");
    double seconds = 1, each[N_USUAL];
    tt_str text = {0};
    tt_json json = {.out = &text};
    TT_TRY(tt_bench_product(backend, dtype, big, &seconds));
    double best = flops(big) / seconds;
    for (int i = 0; i < n; i++) {
        TT_TRY(tt_bench_product(backend, dtype, shape[i], &each[i]));
        best = fmax(best, flops(shape[i]) / each[i]);
    }
    if (!is_json)
        printf("%6s %6s %6s %13s %16s %8s\n", "m", "n", "k", "time", "rate",
               "of best");
    tt_json_open(&json, NULL, '[');
    for (int i = 0; i < n; i++)
        print_row(shape[i], each[i], best, is_json ? &json : NULL);
    tt_json_close(&json, ']');
    if (is_json)
        puts(tt_str_text(&text));
    else
        printf("best: the fastest of these and of 2048 x 2048 x 2048, %.1f "
               "GFLOP/s\n",
               best / 1e9);
    const tt_status status = tt_str_status(&text);
    tt_str_fini(&text);
    return status;
}

tt_status tt_bench_gemm(tt_cli *cli)
{
    options o;
    TT_TRY(tt_cli_options(cli, table, &o));
    const tt_backend_def *def = tt_backend_find(o.device);
    if (def == NULL)
        return tt_fail(TT_ERR_ARG, "unknown device \"%s\"; use cpu or ref",
                       o.device);
    if (o.precision == 1 && !def->has_dtype(TT_BF16))
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "this %s has no fast bf16 arithmetic; use "
                       "precision=fp32",
                       o.device);
    const tt_backend_options how = {.n_threads = (int)o.threads,
                                    .cache = cli->settings.cache};
    tt_backend *backend = NULL;
    TT_TRY(tt_backend_open(def, &how, &backend));
    const tt_status status = sweep(cli, backend, &o);
    tt_backend_close(backend);
    return status;
}
