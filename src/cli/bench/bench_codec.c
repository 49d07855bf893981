// bench_codec - how fast each codec encodes and decodes on one core or a GPU, in how many bytes,
// and how far off what is decoded is.
//
// The numbers are gradients (bench_gradient.c), repeated to fill the tensor: codecs that pick
// large entries, or make zeros short, depend on how gradients are spread. Each codec runs in turns with a
// copy of the same tensor. With a residual where the codec needs one, or where it is asked
// for; the error is that of the first step, before the residual makes it good.

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/settings/opt.h"
#include "cli/bench/bench.h"
#include "codec/codec.h"
#include "ops/arith.h"
#include "ops/codec/packet.h"
#include "ops/gradops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_RUNS = 64 };

typedef struct options {
    int64_t side, runs, steps;
    const char *only, *device;
    bool residual;
} options;

static const tt_opt table[] = {
    {"side", "2048", "rows and columns of the tensor", TT_OPT_I64,
     offsetof(options, side), NULL, 64, 1 << 15},
    {"runs", "7", "runs of each, in turns with a copy", TT_OPT_I64,
     offsetof(options, runs), NULL, 1, MOST_RUNS},
    {"steps", "3", "steps of training before the gradient is taken", TT_OPT_I64,
     offsetof(options, steps), NULL, 0, 1000000},
    {"only", "", "codecs whose name contains this", TT_OPT_STR,
     offsetof(options, only)},
    {"residual", "false",
     "feed back what is lost also where the codec does not need it",
     TT_OPT_BOOL, offsetof(options, residual)},
    {"device", "cpu", "cpu, ref or cuda", TT_OPT_STR,
     offsetof(options, device)},
    {0},
};

// ---- one codec -----------------------------------------------------------

typedef struct bench {
    const tt_codec_def *codec;
    const options *o;
    const float *x;
    int64_t n;
    void *params;
    tt_graph *graph;
    tt_plan *plan;
    tt_backend *backend;
    tt_exec *exec;
    tt_val in, code, sum;
    bool is_device;        // has memory of its own
    int32_t first_encoder; // node; before it is a copy, on a device
    int32_t first_decoder; // node
    int64_t code_bytes;    // of all rounds
} bench;

typedef struct result {
    const char *name;
    double encode, decode, copy; // seconds
    double ratio, error;
    bool feeds_back;
} result;

static bool feeds_back(const bench *m)
{
    return m->codec->needs_feedback ||
           (m->o->residual && !m->codec->is_lossless);
}

static tt_val state_of(tt_builder *b, const tt_codec_state *s)
{
    return tt_state(b, TT_ROLE_OPTIM, s->name, s->dtype, &s->shape, s->init);
}

static tt_status encode_all(bench *m, tt_builder *b, tt_coding *c)
{
    for (int round = 0; round < TT_CODEC_ROUNDS && !c->is_last; round++) {
        const tt_val before = c->code[0];
        TT_TRY(tt_codec_encode(b, c, round == 0 ? NULL : &before));
        const tt_type *type = tt_type_of(b, c->code[0]);
        m->code_bytes +=
            tt_shape_count(&type->shape) * tt_dtype_bytes(type->dtype);
    }
    return b->status;
}

// A training step's part: x, residual and states are states, and are updated.
static tt_status build(bench *m, tt_builder *b)
{
    tt_codec_state state[TT_CODEC_STATES + 2];
    int n = 0;
    const tt_init zero = {.kind = TT_INIT_CONST, .of = TT_NONE};
    tt_shape shape = {0};
    TT_TRY(tt_shape_push(&shape, "rows", m->o->side));
    TT_TRY(tt_shape_push(&shape, "cols", m->o->side));
    b->phase = TT_UPDATE;
    b->origin = "bench";
    m->in = tt_state(b, TT_ROLE_BUFFER, "x", TT_F32, &shape, zero);
    // As many bytes are read and written as by a copy.
    if (m->is_device)
        tt_output(b, "copy", tt_scale(b, m->in, 2));
    m->first_encoder = b->graph->n_nodes;
    const tt_type type = *tt_type_of(b, m->in);
    tt_coding c = {.def = m->codec,
                   .params = m->params,
                   .x = m->in,
                   .residual = TT_NONE,
                   .seed = tt_scalar(b, "seed", TT_I64),
                   .common_seed = tt_scalar(b, "seed", TT_I64),
                   .step = tt_scalar(b, "step", TT_I64),
                   .peers = 1};
    if (feeds_back(m))
        c.residual =
            tt_state(b, TT_ROLE_OPTIM, "residual", TT_F32, &shape, zero);
    TT_TRY(tt_codec_states(m->codec, m->params, &type, state, &n));
    for (int i = 0; i < n; i++)
        c.state[i] = state_of(b, &state[i]);
    TT_TRY(encode_all(m, b, &c));
    m->first_decoder = b->graph->n_nodes;
    m->code = c.code[0];
    TT_TRY(tt_codec_decode(b, &c, c.code, &m->sum));
    if (tt_is(c.residual))
        tt_update(b, c.residual, c.residual_out);
    for (int i = 0; i < n; i++)
        tt_update(b, c.state[i], c.state_out[i]);
    tt_output(b, "sum", m->sum);
    if (tt_type_of(b, m->code)->dtype == TT_U8)
        tt_output(b, "code", m->code);
    return b->status;
}

// A device's own times, unless a step is done by the reference on the host: marks do not
// see it.
static tt_status create_exec(bench *m, const tt_memory_def *memory)
{
    bool can_mark = memory != NULL && memory->mark != NULL;
    for (int32_t s = 0; s < m->plan->n_steps; s++) {
        const char *name = m->plan->step[s].choice.name;
        can_mark &= name == NULL || strncmp(name, "ref.", 4) != 0;
    }
    const tt_exec_options how = {.wait = !can_mark, .marks = can_mark};
    return tt_exec_create(m->plan, m->backend, &how, &m->exec);
}

static tt_status open_codec(bench *m, tt_arena *arena)
{
    tt_builder b;
    const tt_backend_options one = {.n_threads = 1};
    const tt_lower_options lower = {.n_micro = 1};
    const tt_backend_def *def = tt_backend_find(m->o->device);
    if (def == NULL)
        return tt_fail(TT_ERR_ARG, "device=%s; there are cpu, ref and cuda",
                       m->o->device);
    m->is_device = def->memory != NULL;
    m->params = tt_arena_alloc(arena, m->codec->params_bytes + 1);
    if (m->params == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a benchmark");
    if (m->codec->options != NULL)
        TT_TRY(tt_opt_defaults(m->codec->options, m->params, arena));
    TT_TRY(tt_builder_init(&b, &tt_grad_ops_default));
    tt_status status = build(m, &b);
    if (status == TT_OK)
        status = tt_builder_take(&b, &m->graph);
    tt_builder_fini(&b);
    if (status == TT_OK)
        status = tt_backend_open(def, &one, &m->backend);
    if (status == TT_OK)
        status = tt_plan_lower(m->graph, &m->backend->target, &lower, &m->plan);
    if (status == TT_OK)
        status = create_exec(m, def->memory);
    if (status == TT_OK)
        status = tt_exec_init_state(m->exec, 1);
    return status == TT_OK ? tt_exec_write(m->exec, m->in, m->x) : status;
}

static void close_codec(bench *m)
{
    tt_exec_destroy(m->exec);
    tt_plan_destroy(m->plan);
    tt_backend_close(m->backend);
    tt_graph_destroy(m->graph);
}

// Seconds of one run.
typedef struct spent {
    double copy, encode, decode;
} spent;

static tt_status run_once(bench *m, double step, spent *out)
{
    if (tt_is(tt_graph_find(m->graph, "seed")))
        TT_TRY(tt_exec_set_scalar(m->exec, "seed", 1));
    if (tt_is(tt_graph_find(m->graph, "step")))
        TT_TRY(tt_exec_set_scalar(m->exec, "step", step));
    tt_exec_stats_reset(m->exec);
    TT_TRY(tt_exec_run(m->exec, NULL, NULL));
    const double *seconds = tt_exec_step_seconds(m->exec);
    *out = (spent){0};
    for (int32_t s = 0; s < m->plan->n_steps; s++) {
        const int32_t node = m->plan->step[s].node;
        *(node >= m->first_decoder   ? &out->decode
          : node >= m->first_encoder ? &out->encode
                                     : &out->copy) += seconds[s];
    }
    return TT_OK;
}

// What the first step sent, in bytes and in error.
static tt_status look(bench *m, float *room, result *r)
{
    double error = 0, size = 0;
    int64_t bytes = m->code_bytes;
    const tt_type *code = &m->graph->value[m->code.id].type;
    TT_TRY(tt_exec_read(m->exec, m->sum, room));
    for (int64_t i = 0; i < m->n; i++) {
        const double d = (double)room[i] - (double)m->x[i];
        error += d * d;
        size += (double)m->x[i] * (double)m->x[i];
    }
    if (code->dtype == TT_U8) {
        char *packet = tt_alloc(tt_shape_count(&code->shape));
        if (packet == NULL)
            return tt_fail(TT_ERR_NOMEM, "no memory for a benchmark");
        const tt_status status = tt_exec_read(m->exec, m->code, packet);
        if (status == TT_OK)
            bytes = tt_packet_used(packet);
        tt_free(packet);
        TT_TRY(status);
    }
    r->ratio = 4.0 * (double)m->n / (double)bytes;
    r->error = size > 0 ? sqrt(error / size) : 0;
    return TT_OK;
}

static tt_status measure(bench *m, float *room, result *r)
{
    double encode[MOST_RUNS], decode[MOST_RUNS], copy[MOST_RUNS];
    spent t;
    *r = (result){.name = m->codec->name, .feeds_back = feeds_back(m)};
    TT_TRY(run_once(m, 0, &t));
    TT_TRY(look(m, room, r));
    for (int64_t i = 0; i < m->o->runs; i++) {
        const double start = tt_clock_seconds();
        memcpy(room, m->x, (size_t)m->n * sizeof *room);
        const double host = tt_clock_seconds() - start;
        TT_TRY(run_once(m, (double)i + 1, &t));
        copy[i] = m->is_device ? t.copy : host;
        encode[i] = t.encode;
        decode[i] = t.decode;
    }
    r->encode = tt_bench_median(encode, m->o->runs);
    r->decode = tt_bench_median(decode, m->o->runs);
    r->copy = tt_bench_median(copy, m->o->runs);
    return TT_OK;
}

// ---- all -----------------------------------------------------------------

// GB/s of the tensor; 0 where nothing is done.
static double rate(double seconds, int64_t n)
{
    return seconds > 0 ? 4e-9 * (double)n / seconds : 0;
}

static void print_rate(double gb)
{
    if (gb > 0)
        printf(" %8.2f", gb);
    else
        printf(" %8s", "-");
}

static void print(const result *r, int64_t n, tt_json *json)
{
    const double both = r->encode + r->decode;
    if (json == NULL) {
        printf("%-10s", r->name);
        print_rate(rate(r->encode, n));
        print_rate(rate(r->decode, n));
        printf(" %8.2f %9.1f %9.2g%s\n", both > 0 ? r->copy / both : 1.0,
               r->ratio, r->error, r->feeds_back ? "  residual" : "");
        return;
    }
    tt_json_open(json, NULL, '{');
    tt_json_str(json, "codec", r->name);
    tt_json_f64(json, "encode_gbytes_per_s", rate(r->encode, n));
    tt_json_f64(json, "decode_gbytes_per_s", rate(r->decode, n));
    tt_json_f64(json, "copy_gbytes_per_s", rate(r->copy, n));
    tt_json_f64(json, "of_copy", both > 0 ? r->copy / both : 1);
    tt_json_f64(json, "ratio", r->ratio);
    tt_json_f64(json, "error", r->error);
    tt_json_bool(json, "residual", r->feeds_back);
    tt_json_close(json, '}');
}

static void print_head(const char *file, const bench *m)
{
    printf("gradients of %s after %lld steps, %lld x %lld fp32, %s; GB/s of "
           "fp32\n%-10s %8s %8s %8s %9s %9s\n",
           file != NULL ? file : "a small GPT", (long long)m->o->steps,
           (long long)m->o->side, (long long)m->o->side,
           m->is_device ? m->o->device : "one core", "codec", "encode",
           "decode", "of copy", "smaller", "error");
}

static tt_status bench_all(tt_cli *cli, const options *o, const float *x,
                           float *room, tt_json *json)
{
    int n_codecs = 0;
    const tt_codec_def *const *all = tt_codec_all(&n_codecs);
    bool found = false;
    for (int i = 0; i < n_codecs; i++) {
        bench m = {.codec = all[i], .o = o, .x = x, .n = o->side * o->side};
        result r = {0};
        if (strstr(all[i]->name, o->only) == NULL)
            continue;
        tt_status status = open_codec(&m, cli->arena);
        if (status == TT_OK)
            status = measure(&m, room, &r);
        close_codec(&m);
        if (status != TT_OK)
            return tt_fail_context(status, "codec %s", all[i]->name);
        if (!found && json == NULL)
            print_head(cli->file, &m);
        found = true;
        print(&r, m.n, json);
    }
    return found ? TT_OK
                 : tt_fail(TT_ERR_ARG,
                           "only=%s matches no codec; `tutti list codecs` has "
                           "all",
                           o->only);
}

tt_status tt_bench_codec(tt_cli *cli)
{
    options o;
    tt_str text = {0};
    tt_json json = {.out = &text};
    const bool is_json = tt_cli_has(cli, "--json");
    if (cli->file == NULL) {
        TT_TRY(tt_cli_options(cli, table, &o));
    } else {
        TT_TRY(tt_opt_defaults(table, &o, cli->arena));
        TT_TRY(tt_settings_apply(&cli->settings, "", table, &o, cli->arena));
    }
    const int64_t n = o.side * o.side;
    float *x = tt_alloc_aligned(n * (int64_t)sizeof *x, 64);
    float *room = tt_alloc_aligned(n * (int64_t)sizeof *room, 64);
    tt_status status = x == NULL || room == NULL
                           ? tt_fail(TT_ERR_NOMEM, "no memory for a benchmark")
                           : tt_bench_gradient(cli, table, o.steps, x, n);
    tt_json_open(&json, NULL, '[');
    if (status == TT_OK)
        status = bench_all(cli, &o, x, room, is_json ? &json : NULL);
    tt_json_close(&json, ']');
    if (status == TT_OK && is_json)
        puts(tt_str_text(&text));
    if (status == TT_OK)
        status = tt_str_status(&text);
    tt_str_fini(&text);
    tt_free_aligned(x);
    tt_free_aligned(room);
    return status;
}
