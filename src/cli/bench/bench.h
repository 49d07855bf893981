// bench - measurements, each printed against a limit of this machine that was
// measured in the same run.

#ifndef TT_CLI_BENCH_BENCH_H
#define TT_CLI_BENCH_BENCH_H

#include "cli/command.h"
#include "job/job.h"

tt_status tt_bench_step(tt_cli *cli);
tt_status tt_bench_gemm(tt_cli *cli);
tt_status tt_bench_op(tt_cli *cli);
tt_status tt_bench_allreduce(tt_cli *cli);

// Steps on several ranks, against one rank with the batch of one.
tt_status tt_bench_ranks(tt_cli *cli, const tt_peers *peers);

double tt_bench_median(double *value, int64_t n); // sorts
int64_t tt_bench_resident_bytes(void);            // of this process, now

// Seconds of one m x n x k product on the backend, the best of a few.
tt_status tt_bench_product(tt_backend *backend, tt_dtype dtype,
                           const int64_t mnk[3], double *seconds_out);

// FLOP/s of the products that the plan's steps are made of, each shape measured by
// itself and weighted by its FLOPs. Convolutions count as the products they are.
tt_status tt_bench_model_products(const tt_job *job, double *rate_out);

// Bytes per second of a large copy in the backend's memory, read plus write.
tt_status tt_bench_copy_rate(tt_backend *backend, double *rate_out);

// Runs `n` steps on random data; seconds of each in `seconds` (may be NULL).
tt_status tt_bench_run(tt_job *job, int64_t n, double *seconds,
                       tt_step_result *last_out);

#endif
