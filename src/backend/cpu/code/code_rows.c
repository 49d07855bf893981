// code_rows - kernels of codes of rows (ops/codec/code_rows.h): the vectorised functions of
// packets, part by part. Tensors of other types than f32 are the reference's.

#include "ops/codec/code_rows.h"

#include "backend/cpu/simd/parallel.h"
#include "backend/cpu/wrap.h"
#include "backend/ref/code/packets.h"
#include "ops/ops.h"

typedef void encode_fn(const tt_simd_code_args *a);
typedef void add_fn(const tt_simd_code_add *a);

static encode_fn *encoder(const tt_code_rows_params *p)
{
    const tt_simd_code *code = tt_simd_get()->code;
    encode_fn *const all[TT_ROWS_KINDS] = {code->int8, code->natural,
                                           code->ternary};
    return all[p->kind];
}

static add_fn *adder(const tt_code_rows_params *p)
{
    const tt_simd_code *code = tt_simd_get()->code;
    add_fn *const all[TT_ROWS_KINDS] = {code->int8_add, code->natural_add,
                                        code->ternary_add};
    return all[p->kind];
}

static bool can_encode(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "ffII", "u");
}

static bool can_sum(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "uf", "f");
}

static tt_status encode(const tt_site *site, const tt_args *args)
{
    const tt_code_rows_params *p = site->params;
    const tt_local *local = &site->in[TT_PX].local;
    const tt_code_rows rows = tt_code_rows_of(p, local);
    const uint64_t key = tt__packet_key(site, args);
    encode_fn *run = encoder(p);
#pragma omp parallel for schedule(static) if (rows.n * rows.columns >=         \
                                              TT_FORK_ELEMENTS)
    for (int64_t r = 0; r < rows.n; r++) {
        const int64_t first = r * rows.columns;
        const tt_simd_code_args a = {
            .n = rows.columns,
            .block = p->code.block,
            .key = tt_code_rows_key(key, tt_local_to_global(local, first)),
            .x = (const float *)args->in[TT_PX] + first,
            .body = (unsigned char *)args->out[0] + r * rows.bytes};
        run(&a);
    }
    return TT_OK;
}

static tt_status sum(const tt_site *site, const tt_args *args)
{
    const tt_code_rows_params *p = site->params;
    const tt_code_rows rows = tt_code_rows_of(p, &site->out[0].local);
    const int64_t all = rows.n * rows.bytes;
    const int64_t terms =
        tt_operand_count(&site->in[TT_PSUM_PACKETS]) / (all > 0 ? all : 1);
    add_fn *run = adder(p);
#pragma omp parallel for schedule(static) if (rows.n * rows.columns >=         \
                                              TT_FORK_ELEMENTS)
    for (int64_t r = 0; r < rows.n; r++) {
        tt_simd_code_add a = {.n = rows.columns,
                              .block = p->code.block,
                              .y = (float *)args->out[0] + r * rows.columns,
                              .is_first = true};
        for (int64_t t = 0; t < terms; t++, a.is_first = false) {
            a.body = (const unsigned char *)args->in[TT_PSUM_PACKETS] +
                     t * all + r * rows.bytes;
            run(&a);
        }
    }
    return TT_OK;
}

TT_KERNEL_RUN(run_encode, encode(site, args))
TT_KERNEL_RUN(run_sum, sum(site, args))

const tt_kernel_def tt__cpu_code_rows_kernels[] = {
    {TT_KERNEL(cpu, rows_encode), .can = can_encode, .run = run_encode},
    {TT_KERNEL(cpu, rows_sum), .can = can_sum, .run = run_sum},
    {0},
};
