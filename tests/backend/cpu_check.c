// cpu_check - see the header.

#include "backend/cpu_check.h"

#include "backend/cpu/cpu.h"
#include "base/alloc.h"
#include "base/rng.h"
#include "ops/ops.h"
#include "test.h"

#include <string.h>

typedef struct bench {
    tt_arena *arena;
    tt_backend *backend;
    tt_site site;
    tt_operand in[CPU_MAX_IN], out[TT_MAX_OUT];
    const void *in_data[CPU_MAX_IN];
    void *out_data[TT_MAX_OUT];
    void *owned[64];
    int n_owned;
} bench;

static void *own(bench *b, int64_t bytes)
{
    void *p = tt_alloc_aligned(bytes, 64);
    CHECK(p != NULL && b->n_owned < 64);
    b->owned[b->n_owned++] = p;
    return p;
}

static void set_operand(tt_operand *o, const tt_type *type)
{
    *o = (tt_operand){.dtype = type->dtype};
    if (type->dtype == TT_N_DTYPES)
        return;
    tt_local_whole(&type->shape, &o->local);
    tt_operand_set_dense(o);
}

static void infer(bench *b, const cpu_case *c)
{
    tt_type in[CPU_MAX_IN] = {0}, out[TT_MAX_OUT] = {0};
    tt_op_io io = {.in = in, .out = out, .op = c->op};
    void *params = NULL;
    if (c->op->options != NULL) {
        params = tt_arena_alloc(b->arena, c->op->params_bytes);
        CHECK(params != NULL);
        CHECK_OK(tt_opt_defaults(c->op->options, params, b->arena));
        CHECK_OK(tt_opt_parse(c->op->options, params, c->params, b->arena));
    }
    io.params = params;
    for (; io.n_in < CPU_MAX_IN && c->in[io.n_in] != NULL; io.n_in++) {
        const int i = io.n_in;
        const char *text = c->in[i];
        in[i].dtype = (c->f32_in >> i & 1) != 0   ? TT_F32
                      : (c->i32_in >> i & 1) != 0 ? TT_I32
                      : (c->i64_in >> i & 1) != 0 ? TT_I64
                      : (c->u8_in >> i & 1) != 0  ? TT_U8
                                                  : c->dtype;
        if (strcmp(text, "-") == 0)
            in[i].dtype = TT_N_DTYPES;
        else
            CHECK_OK(tt_shape_parse(text, &in[i].shape));
    }
    CHECK_OK(c->op->infer(&io));
    b->site = (tt_site){.op = c->op,
                        .params = params,
                        .origin = "test",
                        .n_in = io.n_in,
                        .n_out = io.n_out,
                        .in = b->in,
                        .out = b->out};
    for (int i = 0; i < io.n_in; i++)
        set_operand(&b->in[i], &in[i]);
    for (int i = 0; i < io.n_out; i++)
        set_operand(&b->out[i], &out[i]);
    if (c->place != NULL)
        c->place(&b->site);
}

static void fill(bench *b, const cpu_case *c)
{
    const uint64_t key = tt_rng_key(7, "cpu_check", 0);
    for (int i = 0; i < b->site.n_in; i++) {
        const tt_operand *o = &b->in[i];
        if (!tt_site_has(&b->site, i))
            continue;
        const int64_t n = tt_operand_count(o);
        const double *given = c->input == NULL ? NULL : c->input(i, n);
        void *data = own(b, n * tt_dtype_bytes(o->dtype));
        for (int64_t e = 0; e < n; e++) {
            const double u = tt_rng_uniform(key, (uint64_t)(i * 1000003 + e));
            const double value = o->dtype == TT_U8 ? floor(4 * u) : 2 * u - 1;
            tt_dtype_store(o->dtype, data, e, given != NULL ? given[e] : value);
        }
        b->in_data[i] = data;
    }
}

static void run_kernel(bench *b, const tt_choice *choice, const tt_args *args,
                       bool adds)
{
    tt_args run = *args;
    run.scratch = own(b, choice->scratch_bytes + 64);
    CHECK_OK(tt_kernel_run(choice->kernel, &run));
    run.accumulate = true;
    CHECK(!adds || choice->accumulates);
    if (adds)
        CHECK_OK(tt_kernel_run(choice->kernel, &run));
    b->backend->target.release(&b->backend->target, choice->kernel);
}

static void *convert(bench *b, const void *data, const tt_operand *from,
                     const tt_operand *to)
{
    if (tt_operand_same_form(from, to))
        return (void *)(uintptr_t)data;
    tt_operand in = *from, out = *to;
    out.dtype = in.dtype;
    out.local = in.local;
    tt_site site = {.op = &tt_op_reorder,
                    .origin = "test",
                    .n_in = 1,
                    .n_out = 1,
                    .in = &in,
                    .out = &out};
    const void *src[] = {data};
    void *dst[] = {own(b, tt_target_bytes(&b->backend->target, to) + 64)};
    tt_choice choice;
    CHECK_OK(b->backend->target.choose(&b->backend->target, &site, &choice));
    CHECK(tt_operand_same_form(&in, from) && tt_operand_same_form(&out, to));
    run_kernel(b, &choice, &(tt_args){.in = src, .out = dst}, false);
    return dst[0];
}

// Inputs as a convolution would leave them.
static void block_inputs(bench *b, const cpu_case *c)
{
    for (int i = 0; i < b->site.n_in; i++) {
        if ((c->blocked_in >> i & 1) == 0)
            continue;
        const tt_operand dense = b->in[i];
        const tt__dnnl_tensor t = tt__dnnl_tensor_any(&dense);
        CHECK_OK(tt__dnnl_layout_of_blocks(tt__cpu_dnnl(b->backend), &t,
                                           c->block, &b->in[i].layout));
        b->in_data[i] = convert(b, b->in_data[i], &dense, &b->in[i]);
    }
}

// Chooses once to learn the forms that the kernel wants, converts, and runs.
static void run_converted(bench *b, const cpu_case *c, cpu_result *r)
{
    tt_operand in[CPU_MAX_IN], out[TT_MAX_OUT];
    tt_choice choice;
    memcpy(in, b->in, sizeof(in));
    memcpy(out, b->out, sizeof(out));
    CHECK_OK(b->backend->target.choose(&b->backend->target, &b->site, &choice));
    for (int i = 0; i < b->site.n_in; i++)
        if (tt_site_has(&b->site, i) && (c->op->shape_only >> i & 1) == 0)
            b->in_data[i] = convert(b, b->in_data[i], &in[i], &b->in[i]);
    for (int i = 0; i < b->site.n_out; i++)
        b->out_data[i] =
            own(b, tt_target_bytes(&b->backend->target, &b->out[i]) + 64);
    r->kernel = choice.name;
    run_kernel(b, &choice, &(tt_args){.in = b->in_data, .out = b->out_data},
               c->twice);
    r->n_out = b->site.n_out;
    for (int i = 0; i < r->n_out; i++) {
        const void *dense = convert(b, b->out_data[i], &b->out[i], &out[i]);
        r->count[i] = tt_operand_count(&out[i]);
        r->out[i] = tt_alloc(r->count[i] * 8);
        CHECK(r->out[i] != NULL);
        for (int64_t e = 0; e < r->count[i]; e++)
            r->out[i][e] = tt_dtype_load(out[i].dtype, dense, e);
    }
}

void cpu_run(const char *backend, const cpu_case *c, cpu_result *result_out)
{
    const tt_backend_options options = {
        .n_threads = c->n_threads == 0 ? 2 : c->n_threads,
        .exact = c->is_exact};
    bench *b = tt_alloc(sizeof(*b));
    CHECK(b != NULL);
    *result_out = (cpu_result){0};
    b->arena = tt_arena_create();
    CHECK(b->arena != NULL);
    CHECK_OK(tt_backend_open(tt_backend_find(backend), &options, &b->backend));
    infer(b, c);
    fill(b, c);
    if (strcmp(backend, "cpu") == 0)
        block_inputs(b, c);
    run_converted(b, c, result_out);
    for (int i = 0; i < b->n_owned; i++)
        tt_free_aligned(b->owned[i]);
    tt_backend_close(b->backend);
    tt_arena_destroy(b->arena);
    tt_free(b);
}

void cpu_shape_of(const cpu_case *c, int out, tt_shape *shape_out)
{
    bench *b = tt_alloc(sizeof(*b));
    CHECK(b != NULL);
    b->arena = tt_arena_create();
    CHECK(b->arena != NULL);
    infer(b, c);
    *shape_out = b->out[out].local.shape;
    tt_arena_destroy(b->arena);
    tt_free(b);
}

void cpu_result_fini(cpu_result *r)
{
    for (int i = 0; i < r->n_out; i++)
        tt_free(r->out[i]);
}

void cpu_check(const cpu_case *c, double tolerance)
{
    cpu_result fast, ref;
    cpu_run("cpu", c, &fast);
    cpu_run("ref", c, &ref);
    if (c->kernel != NULL)
        CHECK_MSG(strcmp(fast.kernel, c->kernel) == 0, "%s %s: chose %s",
                  c->params, c->in[0], fast.kernel);
    CHECK(fast.n_out == ref.n_out);
    for (int i = 0; i < ref.n_out; i++) {
        double most = 1e-6;
        for (int64_t e = 0; e < ref.count[i]; e++)
            most = fmax(most, fabs(ref.out[i][e]));
        for (int64_t e = 0; e < ref.count[i]; e++)
            CHECK_MSG(fabs(fast.out[i][e] - ref.out[i][e]) <= tolerance * most,
                      "%s [%s] [%s] %s: output %d element %lld is %.9g, not "
                      "%.9g (largest %.3g)",
                      c->op->name, c->in[0], c->params, fast.kernel, i,
                      (long long)e, fast.out[i][e], ref.out[i][e], most);
    }
    cpu_result_fini(&fast);
    cpu_result_fini(&ref);
}

void cpu_check_threads(const cpu_case *c)
{
    cpu_case some = *c;
    cpu_result one, other;
    some.n_threads = 1;
    cpu_run("cpu", &some, &one);
    for (some.n_threads = 2; some.n_threads <= 3; some.n_threads++) {
        cpu_run("cpu", &some, &other);
        for (int i = 0; i < one.n_out; i++)
            CHECK_MSG(
                memcmp(one.out[i], other.out[i], (size_t)one.count[i] * 8) == 0,
                "%s [%s] [%s] %s: %d threads differ in output %d", c->op->name,
                c->in[0], c->params, one.kernel, some.n_threads, i);
        cpu_result_fini(&other);
    }
    cpu_result_fini(&one);
}
