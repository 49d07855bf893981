// bench - measurements, each printed against a limit of this machine that was measured
// in the same run.
//
// A number alone ("41 ms a step") says nothing about what is left to gain, and
// machines change speed from hour to hour. So a step is compared with the rate of its
// own matrix products, an operator with the product rate or the copy rate, an
// all-reduce with a copy, and many ranks with one, in turns.

#ifndef TT_CLI_BENCH_BENCH_H
#define TT_CLI_BENCH_BENCH_H

#include "cli/command.h"
#include "job/job.h"

tt_status tt_bench_step(tt_cli *cli);
tt_status tt_bench_gemm(tt_cli *cli);
tt_status tt_bench_op(tt_cli *cli);
tt_status tt_bench_allreduce(tt_cli *cli);
tt_status tt_bench_codec(tt_cli *cli);

// Steps on several ranks, against one rank with one rank's share of the batch.
tt_status tt_bench_ranks(tt_cli *cli, const tt_peers *peers);

double tt_bench_median(double *value, int64_t n); // sorts
int64_t tt_bench_resident_bytes(void);            // of this process, now

// Seconds of one m x n x k product on the backend: the best of a few.
tt_status tt_bench_product(tt_backend *backend, tt_dtype dtype,
                           const int64_t mnk[3], double *seconds_out);

// FLOP/s of the products that the plan's steps are made of: each shape is measured by
// itself and weighted by its FLOPs. A convolution counts as the product that it is.
tt_status tt_bench_model_products(const tt_job *job, double *rate_out);

// Bytes per second of a large copy in the backend's memory, reads plus writes.
tt_status tt_bench_copy_rate(tt_backend *backend, double *rate_out);

// Runs `n` steps on random data. `seconds` gets the time of each, and may be NULL.
tt_status tt_bench_run(tt_job *job, int64_t n, double *seconds,
                       tt_step_result *last_out);

// n numbers of a gradient after some steps of training: of the settings' model on its data
// if a file was given, else of a small GPT. `table` has the command's own settings.
tt_status tt_bench_gradient(tt_cli *cli, const tt_opt *table, int64_t steps,
                            float *x, int64_t n);

#endif
