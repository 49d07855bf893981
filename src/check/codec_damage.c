// codec_damage - changes codes and looks whether they are refused.
//
//   changed     one bit of the header or of the body: refused, always
//   nonsense    random bytes, or a right body with some bytes changed, cut off or made
//               longer, under a check that is right: what a malicious peer could send.
//               The decoder refuses them or makes numbers of them; the interpreter's
//               guards and the sanitizers' builds see whether it touches anything else
//
// Each damaged code is given to the reference and to the kernels of the CPU. Both must
// come to the same verdict, and to the same numbers where they accept it.

#include "check/codec_damage.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "check/codec_trial.h"
#include "exec/exec.h"
#include "ops/codec/codes.h"
#include "ops/gradops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BODIES = 300, BITS = 200 };

// A decoder by itself: one code in, numbers out.
typedef struct decoder {
    tt_graph *graph;
    tt_interp *interp;
    tt_backend *cpu;
    tt_plan *plan;
    tt_exec *exec;
    float *sum; // of the CPU
    int64_t n;
    unsigned char *code, *right; // the input, and a right code
    int64_t capacity, used;
    tt_packet about;
} decoder;

static tt_status build(tt_trial *t, int64_t capacity, tt_graph **graph_out)
{
    tt_builder b;
    char shape[32];
    tt_val sum;
    snprintf(shape, sizeof shape, "bytes:%lld", (long long)capacity);
    TT_TRY(tt_builder_init(&b, &tt_grad_ops_default));
    const tt_val code = tt_input(&b, "code", TT_U8, shape);
    tt_coding c = {.def = t->asked.codec,
                   .params = t->params,
                   .x = tt_input(&b, "x", t->asked.dtype, t->asked.shape),
                   .peers = 1};
    tt_status status = tt_codec_decode(&b, &c, &code, &sum);
    tt_output(&b, "sum", sum);
    if (status == TT_OK)
        status = tt_builder_take(&b, graph_out);
    tt_builder_fini(&b);
    return status;
}

// What the packet is, from a right one: its kind is in it, and its digest is that with
// which the check is right.
static bool describe(decoder *d, const tt_trial *t)
{
    d->about = (tt_packet){.kind = (tt_packet_kind)d->right[2],
                           .n = t->n,
                           .capacity = d->capacity};
    const uint32_t hash =
        tt_packet_hash(d->right + TT_PACKET_HEADER, d->used - TT_PACKET_HEADER);
    for (int i = 0; i < 2; i++) {
        d->about.options = i == 0 ? 0 : tt_code_digest(t->params);
        if (tt_packet_check(&d->about, "law", 0, d->right, hash) == TT_OK)
            return true;
    }
    return false;
}

static tt_status open_cpu(decoder *d)
{
    const tt_backend_options one = {.n_threads = 1};
    const tt_lower_options lower = {.n_micro = 1};
    const tt_exec_options exec = {.poison = true};
    const tt_val sum = tt_graph_output_find(d->graph, "sum");
    d->n = tt_shape_count(&d->graph->value[sum.id].type.shape);
    d->sum = tt_alloc(d->n * (int64_t)sizeof *d->sum);
    if (d->sum == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a law");
    TT_TRY(tt_backend_open(tt_backend_find("cpu"), &one, &d->cpu));
    TT_TRY(tt_plan_lower(d->graph, &d->cpu->target, &lower, &d->plan));
    return tt_exec_create(d->plan, d->cpu, &exec, &d->exec);
}

static void close_decoder(decoder *d)
{
    tt_exec_destroy(d->exec);
    tt_plan_destroy(d->plan);
    tt_backend_close(d->cpu);
    tt_interp_destroy(d->interp);
    tt_graph_destroy(d->graph);
    tt_free(d->sum);
}

// What the kernels of the CPU say about the code.
static tt_status decode_on_cpu(decoder *d)
{
    TT_TRY(tt_exec_write(d->exec, tt_graph_find(d->graph, "code"), d->code));
    TT_TRY(tt_exec_run(d->exec, NULL, NULL));
    if (tt_exec_overrun(d->exec) >= 0)
        return tt_fail(TT_ERR_STATE, "writes beyond a buffer's end");
    return tt_exec_read(d->exec, tt_graph_output_find(d->graph, "sum"), d->sum);
}

// Zeros of both signs are one number.
static bool is_same_sum(const decoder *d)
{
    const float *ref =
        tt_interp_data(d->interp, 0, tt_graph_output_find(d->graph, "sum"));
    for (int64_t i = 0; i < d->n; i++)
        if (ref[i] != d->sum[i] && !(isnan(ref[i]) && isnan(d->sum[i])))
            return false;
    return true;
}

static tt_status decode(tt_law_report *r, decoder *d)
{
    const tt_status cpu = decode_on_cpu(d), ref = tt_interp_run(d->interp);
    const int kind = (int)d->about.kind;
    tt_law_report_check(r, cpu == ref,
                        "a damaged code of kind %d: the CPU says %s, the "
                        "reference %s",
                        kind, tt_status_name(cpu), tt_status_name(ref));
    tt_law_report_check(r, ref != TT_OK || is_same_sum(d),
                        "a damaged code of kind %d: the CPU has other numbers "
                        "than the reference",
                        kind);
    return ref;
}

static void check_bits(tt_law_report *r, decoder *d, const char *name)
{
    for (int i = 0; i < BITS; i++) {
        const uint64_t bits = (uint64_t)d->used * 8;
        const uint64_t bit =
            i < 64 ? (uint64_t)i * 3 : tt_rng_u32(21, (uint64_t)i) % bits;
        memcpy(d->code, d->right, (size_t)d->capacity);
        d->code[bit / 8] = (unsigned char)(d->code[bit / 8] ^ 1 << bit % 8);
        tt_law_report_check(r, decode(r, d) == TT_ERR_PEER,
                            "codec %s: a code whose bit %lld was changed is "
                            "not refused",
                            name, (long long)bit);
    }
}

// A body that no encoder wrote, under a right check.
static void make_nonsense(decoder *d, uint64_t key)
{
    unsigned char *body = d->code + TT_PACKET_HEADER;
    const int64_t room = d->capacity - TT_PACKET_HEADER;
    int64_t bytes = d->used - TT_PACKET_HEADER;
    const uint32_t kind = tt_rng_u32(key, 0) % 4;
    memcpy(d->code, d->right, (size_t)d->capacity);
    if (kind == 0)
        for (int64_t i = 0; i < room; i++)
            body[i] = (unsigned char)tt_rng_u32(key, (uint64_t)i + 8);
    for (int i = 0; i < 3 && bytes > 0; i++)
        body[tt_rng_u32(key, 1 + (uint64_t)i) % (uint64_t)bytes] =
            (unsigned char)tt_rng_u32(key, 4 + (uint64_t)i);
    if (kind >= 2)
        bytes = tt_rng_u32(key, 7) % (uint64_t)(room + 1);
    tt_packet_close(&d->about, d->code, TT_PACKET_HEADER + bytes,
                    tt_packet_hash(body, bytes));
}

static void check_nonsense(tt_law_report *r, decoder *d, const char *name)
{
    for (int i = 0; i < BODIES; i++) {
        make_nonsense(d, tt_rng_key(22, name, (uint64_t)i));
        const tt_status status = decode(r, d);
        tt_law_report_check(r, status == TT_OK || status == TT_ERR_PEER,
                            "codec %s: nonsense number %d: %s", name, i,
                            tt_error_message());
    }
}

static void check_others(tt_law_report *r, decoder *d, const char *name)
{
    const int64_t bytes = d->used - TT_PACKET_HEADER;
    const uint32_t hash = tt_packet_hash(d->right + TT_PACKET_HEADER, bytes);
    const tt_packet right = d->about;
    tt_packet other[4] = {right, right, right, right};
    other[0].n++;
    other[1].kind = (tt_packet_kind)(right.kind + 1);
    other[2].options++;
    for (int i = 0; i < 4; i++) {
        memcpy(d->code, d->right, (size_t)d->capacity);
        tt_packet_close(&other[i], d->code, i == 3 ? d->capacity + 1 : d->used,
                        hash);
        tt_law_report_check(r, decode(r, d) == TT_ERR_PEER,
                            "codec %s: a code of another %s is not refused",
                            name,
                            i == 0   ? "tensor"
                            : i == 1 ? "codec"
                            : i == 2 ? "option"
                                     : "length");
    }
    memcpy(d->code, d->right, (size_t)d->capacity);
    tt_law_report_check(r, decode(r, d) == TT_OK,
                        "codec %s: a right code is refused: %s", name,
                        tt_error_message());
}

static tt_status check(tt_law_report *r, tt_trial *t, decoder *d)
{
    const char *name = t->asked.codec->name;
    const tt_val code = t->code[0][0];
    d->capacity = tt_shape_count(&t->graph->value[code.id].type.shape);
    TT_TRY(build(t, d->capacity, &d->graph));
    TT_TRY(tt_interp_create(d->graph, &d->interp));
    TT_TRY(open_cpu(d));
    d->code = tt_interp_data(d->interp, 0, tt_graph_find(d->graph, "code"));
    d->right = tt_interp_data(t->interp, 0, code);
    memcpy(&d->used, d->right + 16, sizeof d->used);
    tt_law_report_check(r, describe(d, t), "codec %s: its packet has no check",
                        name);
    check_others(r, d, name);
    check_bits(r, d, name);
    check_nonsense(r, d, name);
    return TT_OK;
}

tt_status tt__codec_damage(tt_law_report *r, const tt_codec_def *codec)
{
    static const char *const shapes[] = {"a:5", "a:37 b:41"};
    tt_status status = TT_OK;
    for (int s = 0; s < 2 && status == TT_OK; s++) {
        const tt_trial_options o = {.codec = codec,
                                    .shape = shapes[s],
                                    .dtype = TT_F32,
                                    .peers = 1,
                                    .feeds_back = !codec->is_lossless};
        tt_trial t;
        decoder d = {0};
        TT_TRY(tt_trial_init(&t, &o));
        double *x = tt_alloc(t.n * (int64_t)sizeof *x);
        status =
            x == NULL ? tt_fail(TT_ERR_NOMEM, "no memory for a law") : TT_OK;
        for (int64_t i = 0; i < t.n && status == TT_OK; i++)
            x[i] = tt_rng_normal(9, (uint64_t)i);
        if (status == TT_OK) {
            tt_trial_write(&t, t.x[0], x);
            status = tt_trial_step(&t, 0);
        }
        if (status == TT_OK &&
            t.graph->value[t.code[0][0].id].type.dtype == TT_U8)
            status = check(r, &t, &d);
        tt_free(x);
        close_decoder(&d);
        tt_trial_fini(&t);
    }
    return status;
}
