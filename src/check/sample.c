// sample - reads the text of samples and makes their numbers; see the header for the
// letters.

#include "check/sample.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "check/sample_codes.h"
#include "ops/gradops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *shape_text(const char *text)
{
    const char *blank = strchr(text, ' ');
    return blank == NULL ? "" : blank + 1;
}

static tt_dtype kind_dtype(const char *text, tt_dtype dtype)
{
    if (text[0] == 'i')
        return TT_I32;
    if (text[0] == 'I')
        return TT_I64;
    if (text[0] == 'u')
        return TT_U8;
    if (text[0] == 'b')
        return TT_BF16;
    if (text[0] == 'q')
        return TT_E4M3;
    if (text[0] == 'r')
        return TT_E5M2;
    // Losses, statistics and optimiser states are never below fp32.
    if (text[0] == 'm')
        return dtype == TT_F64 ? TT_F64 : TT_F32;
    return dtype;
}

// Distinct values, at least 1/n apart and away from zero, in scrambled order. A finite
// difference must not step over a kink (ReLU at zero) or swap a maximum.
static double distinct(uint64_t key, int64_t i, int64_t n)
{
    const int64_t stride = 7919;
    int64_t place = (i * stride + (int64_t)(key % 97)) % n;
    if (n % stride == 0)
        place = i;
    const double x = ((double)place + 0.5) / (double)n * 2 - 1;
    return x + (x < 0 ? -0.1 : 0.1);
}

void tt_sample_fill(const char *text, uint64_t key, int64_t n, double *out)
{
    const char *mark = text[0] == '=' ? text : text + 1;
    for (int64_t i = 0; i < n; i++) {
        const double u = tt_rng_uniform(key, (uint64_t)i);
        switch (*mark) {
        case '=':
            out[i] = atof(mark + 1);
            break;
        case '<':
            out[i] = floor(u * atof(mark + 1));
            break;
        case '+':
            out[i] = 0.2 + 1.3 * u;
            break;
        case '!':
            out[i] = distinct(key, i, n);
            break;
        default:
            out[i] = 2 * u - 1;
        }
    }
}

bool tt_case_varies(const tt_case *c, int i)
{
    const char *text = c->sample->in[i];
    return i < c->n_in && tt_is(c->in[i]) &&
           (text[0] == 'f' || text[0] == 'm') && text[1] != '=';
}

// Codes of what has the type and shape of the next input.
static tt_status make_codes(tt_case *c, int i, tt_dtype dtype)
{
    tt__codes codes;
    char name[16], shape[32];
    const char *like = c->sample->in[i + 1];
    if (like == NULL)
        return tt_fail(TT_ERR_ARG, "%s: codes of what?", c->op->name);
    TT_TRY(tt__sample_codes(c, c->sample->in[i], kind_dtype(like, dtype),
                            shape_text(like), &codes));
    snprintf(name, sizeof name, "in%d", i);
    snprintf(shape, sizeof shape, "bytes:%lld", (long long)codes.bytes);
    c->in[i] = tt_input(&c->b, name, TT_U8, shape);
    c->data[i] = codes.data;
    return c->b.status;
}

static tt_status make_input(tt_case *c, int i, tt_dtype dtype,
                            const tt_sig *sig)
{
    const char *text = c->sample->in[i];
    char name[16];
    c->in[i] = TT_NONE;
    if (text[0] == '-')
        return TT_OK;
    if (text[0] == 'c')
        return make_codes(c, i, dtype);
    snprintf(name, sizeof name, "in%d", i);
    c->in[i] = tt_input(&c->b, name, kind_dtype(text, dtype), shape_text(text));
    TT_TRY(c->b.status);
    const int64_t n = tt_shape_count(&tt_type_of(&c->b, c->in[i])->shape);
    c->data[i] = tt_arena_alloc(c->arena, n * (int64_t)sizeof(double));
    if (c->data[i] == NULL)
        return TT_ERR_NOMEM;
    tt_sample_fill(text, tt_rng_key(7, name, 0), n, c->data[i]);
    if (sig != NULL)
        tt_place_set(&c->b, c->in[i], 0,
                     sig->in[i < TT_SIG_IN ? i : TT_SIG_IN - 1]);
    return TT_OK;
}

static tt_status add_node(tt_case *c, const tt_sig *sig)
{
    if (sig != NULL && sig->expand != NULL) {
        const tt_node node = {.op = c->op,
                              .params = c->params,
                              .origin = "law",
                              .n_in = c->n_in,
                              .in = c->in};
        for (int i = 0; i < TT_MAX_OUT; i++)
            c->out[i] = TT_NONE;
        TT_TRY(sig->expand(&c->b, &node, sig, 0, c->in, c->out));
    } else {
        (void)tt_call(&c->b, c->op, c->params, c->in, c->n_in, c->out);
        for (int i = 0; i < TT_MAX_OUT && sig != NULL; i++)
            tt_place_set(&c->b, c->out[i], 0, sig->out[i]);
    }
    while (c->n_out < TT_MAX_OUT && tt_is(c->out[c->n_out]))
        c->n_out++;
    return c->b.status;
}

static tt_status build(tt_case *c, tt_dtype dtype, const tt_sig *sig)
{
    if (c->op->options != NULL) {
        c->params = tt_arena_alloc(c->arena, c->op->params_bytes);
        if (c->params == NULL)
            return TT_ERR_NOMEM;
        TT_TRY(tt_opt_defaults(c->op->options, c->params, c->arena));
        if (c->sample->params != NULL)
            TT_TRY(tt_opt_parse(c->op->options, c->params, c->sample->params,
                                c->arena));
    }
    // An id that is zero by mistake must not be a valid operand by chance.
    (void)tt_input(&c->b, "unused", TT_U8, "unused:1");
    for (int i = 0; i < TT_SAMPLE_IN && c->sample->in[i] != NULL; i++) {
        TT_TRY(make_input(c, i, dtype, sig));
        c->n_in = i + 1;
    }
    c->b.origin = "law";
    return add_node(c, sig);
}

tt_status tt_case_init(tt_case *c, const tt_op_def *op, const tt_sample *sample,
                       tt_dtype dtype, const tt_mesh *mesh, const tt_sig *sig)
{
    *c = (tt_case){.op = op, .sample = sample};
    TT_TRY(tt_builder_init(&c->b, &tt_grad_ops_default));
    c->b.dtype = dtype;
    c->b.master = dtype == TT_F64 ? TT_F64 : TT_F32;
    if (mesh != NULL)
        c->b.graph->mesh = *mesh;
    c->arena = tt_arena_create();
    tt_status status = TT_ERR_NOMEM;
    if (c->arena != NULL)
        status = build(c, dtype, sig);
    if (status != TT_OK)
        tt_case_fini(c);
    return status;
}

void tt_case_fini(tt_case *c)
{
    tt_arena_destroy(c->arena);
    c->arena = NULL;
    tt_builder_fini(&c->b);
}
