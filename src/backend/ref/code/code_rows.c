// code_rows - reference kernels of codes of rows (ops/codec/code_rows.h): each part of a
// row by itself.

#include "ops/codec/code_rows.h"

#include "backend/ref/code/packets.h"
#include "ops/ops.h"

#include <string.h>

static tt__ref_job job_of(const tt_site *site, const tt_code_rows *rows)
{
    const tt_code_rows_params *p = site->params;
    const tt_packet_form *form = tt_code_rows_forms[p->kind];
    return (tt__ref_job){.op = site->op->name,
                         .form = form,
                         .how = tt__ref_code_of(form)->how,
                         .params = &p->code,
                         .n = rows->columns,
                         .capacity = rows->bytes};
}

static tt_status encode(const tt_site *site, const tt_args *args)
{
    const tt_operand *x = &site->in[TT_PX];
    const tt_code_rows rows = tt_code_rows_of(site->params, &x->local);
    const uint64_t key = tt__packet_key(site, args);
    double *e = args->scratch;
    unsigned char *codes = args->out[0];
    tt__ref_job job = job_of(site, &rows);
    job.e = e;
    memset(codes, 0, (size_t)(rows.n * rows.bytes));
    for (int64_t r = 0; r < rows.n; r++) {
        const int64_t first = r * rows.columns;
        for (int64_t i = 0; i < rows.columns; i++)
            e[i] = tt_dtype_load(x->dtype, args->in[TT_PX], first + i);
        job.key = tt_code_rows_key(key, tt_local_to_global(&x->local, first));
        (void)tt__ref_code_of(job.form)->encode(&job, codes + r * rows.bytes);
    }
    return TT_OK;
}

static double add(tt_dtype dtype, double a, double b)
{
    return dtype == TT_F64 ? a + b : (double)((float)a + (float)b);
}

static tt_status sum(const tt_site *site, const tt_args *args)
{
    const tt_operand *y = &site->out[0];
    const tt_code_rows rows = tt_code_rows_of(site->params, &y->local);
    const int64_t all = rows.n * rows.bytes;
    const int64_t terms =
        tt_operand_count(&site->in[TT_PSUM_PACKETS]) / (all > 0 ? all : 1);
    const unsigned char *codes = args->in[TT_PSUM_PACKETS];
    double *sum = args->scratch, *d = sum + rows.columns;
    const tt__ref_job job = job_of(site, &rows);
    for (int64_t r = 0; r < rows.n; r++) {
        for (int64_t t = 0; t < terms; t++) {
            if (!tt__ref_code_of(job.form)->decode(
                    &job, codes + t * all + r * rows.bytes, rows.bytes, d))
                return tt_packet_refuse(site->op->name, t);
            for (int64_t i = 0; i < rows.columns; i++)
                sum[i] = t == 0 ? d[i] : add(y->dtype, sum[i], d[i]);
        }
        for (int64_t i = 0; i < rows.columns; i++)
            tt_dtype_store(y->dtype, args->out[0], r * rows.columns + i,
                           sum[i]);
    }
    return TT_OK;
}

TT_KERNEL_RUN(run_encode, encode(site, args))
TT_KERNEL_RUN(run_sum, sum(site, args))

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    const tt_operand *x =
        site->op == &tt_op_rows_sum ? &site->out[0] : &site->in[TT_PX];
    (void)backend;
    prepared_out->scratch_bytes =
        tt_code_rows_of(site->params, &x->local).columns * 2 *
        (int64_t)sizeof(double);
    return TT_OK;
}

const tt_kernel_def tt__ref_code_rows_kernels[] = {
    {TT_KERNEL(ref, rows_encode), .prepare = prepare, .run = run_encode},
    {TT_KERNEL(ref, rows_sum), .prepare = prepare, .run = run_sum},
    {0},
};
