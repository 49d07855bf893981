// codec_trial - encodes for every replica, joins as the codec says, decodes for every
// replica: all in one graph, run by the interpreter with the reference kernels.

#include "check/codec_trial.h"

#include "base/rng.h"
#include "ops/arith.h"
#include "ops/gradops.h"
#include "ops/ops.h"
#include "ops/shape/move.h"

#include <stdio.h>
#include <string.h>

static const char *name_of(char *room, size_t bytes, const char *what, int r,
                           int i)
{
    snprintf(room, bytes, "%s%d_%d", what, r, i);
    return room;
}

static tt_val input_of(tt_builder *b, const char *name, tt_dtype dtype,
                       const tt_shape *shape)
{
    tt_str text = {0};
    tt_shape_print(shape, &text);
    const tt_val v = tt_input(b, name, dtype, tt_str_text(&text));
    tt_str_fini(&text);
    return v;
}

// The inputs of replica r, and its coding.
static tt_status begin(tt_trial *t, tt_builder *b, int r, tt_coding *c)
{
    const tt_trial_options *o = &t->asked;
    const tt_dtype wide = o->dtype == TT_F64 ? TT_F64 : TT_F32;
    tt_codec_state state[TT_CODEC_STATES];
    char name[32];
    t->x[r] =
        tt_input(b, name_of(name, sizeof name, "x", r, 0), o->dtype, o->shape);
    TT_TRY(b->status);
    const tt_type type = *tt_type_of(b, t->x[r]);
    t->n = tt_shape_count(&type.shape);
    t->residual[r] =
        o->feeds_back
            ? input_of(b, name_of(name, sizeof name, "residual", r, 0), wide,
                       &type.shape)
            : TT_NONE;
    TT_TRY(tt_codec_states(o->codec, t->params, &type, state, &t->n_states));
    *c = (tt_coding){
        .def = o->codec,
        .params = t->params,
        .x = t->x[r],
        .residual = t->residual[r],
        .seed = tt_scalar(b, name_of(name, sizeof name, "seed", r, 0), TT_I64),
        .common_seed = tt_scalar(b, "seed", TT_I64),
        .step = tt_scalar(b, "step", TT_I64),
        .peers = o->peers,
        .is_merged = o->is_merged,
    };
    for (int i = 0; i < t->n_states; i++) {
        t->state[r][i] = input_of(b, name_of(name, sizeof name, "state", r, i),
                                  state[i].dtype, &state[i].shape);
        c->state[i] = t->state[r][i];
    }
    return b->status;
}

// What becomes of code i of all replicas.
static tt_val join(tt_builder *b, const tt_coding *c, int peers, int i)
{
    tt_val code[TT_TRIAL_PEERS];
    const tt_concat_params along = {.dim = 0};
    for (int r = 0; r < peers; r++)
        code[r] = c[r].code[i];
    if (c->join == TT_CODEC_GATHERED)
        return tt_call(b, &tt_op_concat, &along, code, peers, NULL);
    tt_val sum = code[0];
    for (int r = 1; r < peers; r++)
        sum = tt_add(b, sum, code[r]);
    return sum;
}

static int64_t bytes_of(const tt_builder *b, tt_val v)
{
    const tt_type *type = tt_type_of(b, v);
    return tt_shape_count(&type->shape) * tt_dtype_bytes(type->dtype);
}

// All rounds; joined codes of the last one.
static tt_status exchange(tt_trial *t, tt_builder *b, tt_coding *c,
                          tt_val *joined)
{
    bool is_last = false;
    for (int round = 0; round < TT_CODEC_ROUNDS && !is_last; round++) {
        for (int r = 0; r < t->asked.peers; r++)
            TT_TRY(tt_codec_encode(b, &c[r], round == 0 ? NULL : joined));
        for (int i = 0; i < c->n_codes; i++) {
            joined[i] = join(b, c, t->asked.peers, i);
            t->code_bytes += bytes_of(b, c->code[i]);
        }
        is_last = c->is_last;
    }
    return is_last ? b->status
                   : tt_fail(TT_ERR_STATE, "codec %s has too many rounds",
                             t->asked.codec->name);
}

static tt_status build(tt_trial *t, tt_builder *b)
{
    tt_coding c[TT_TRIAL_PEERS] = {0};
    tt_val joined[TT_CODEC_CODES];
    for (int r = 0; r < t->asked.peers; r++)
        TT_TRY(begin(t, b, r, &c[r]));
    b->origin = "law";
    TT_TRY(exchange(t, b, c, joined));
    for (int r = 0; r < t->asked.peers; r++) {
        char name[32];
        TT_TRY(tt_codec_decode(b, &c[r], joined, &t->sum[r]));
        tt_output(b, name_of(name, sizeof name, "sum", r, 0), t->sum[r]);
        t->left[r] = c[r].residual_out;
        for (int i = 0; i < TT_CODEC_STATES; i++)
            t->next[r][i] = c[r].state_out[i];
        t->n_codes = c[r].n_codes;
        for (int i = 0; i < c[r].n_codes; i++)
            t->code[r][i] = c[r].code[i];
    }
    return b->status;
}

static tt_status make(tt_trial *t)
{
    tt_builder b;
    const tt_codec_def *codec = t->asked.codec;
    t->params = tt_arena_alloc(t->arena, codec->params_bytes + 1);
    if (t->params == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a law");
    if (codec->options != NULL) {
        TT_TRY(tt_opt_defaults(codec->options, t->params, t->arena));
        TT_TRY(tt_opt_parse(codec->options, t->params,
                            t->asked.options ? t->asked.options : "",
                            t->arena));
    }
    TT_TRY(tt_builder_init(&b, &tt_grad_ops_default));
    tt_status status = build(t, &b);
    if (status == TT_OK)
        status = tt_builder_take(&b, &t->graph);
    tt_builder_fini(&b);
    if (status == TT_OK)
        status = tt_interp_create(t->graph, &t->interp);
    return status;
}

// Residuals and momenta begin at 0, a warm start at random numbers.
static tt_status begin_states(tt_trial *t)
{
    for (int32_t v = 0; v < t->graph->n_values; v++) {
        const tt_value *value = &t->graph->value[v];
        if (value->role != TT_ROLE_INPUT)
            continue;
        const int64_t n = tt_shape_count(&value->type.shape);
        double *data = tt_arena_alloc(t->arena, n * (int64_t)sizeof *data);
        if (data == NULL)
            return tt_fail(TT_ERR_NOMEM, "no memory for a law");
        const bool is_factor =
            strncmp(value->name, "state", 5) == 0 && n != t->n;
        for (int64_t i = 0; i < n; i++)
            data[i] = is_factor ? tt_rng_normal(5, (uint64_t)i) : 0;
        tt_trial_write(t, (tt_val){v}, data);
    }
    return TT_OK;
}

tt_status tt_trial_init(tt_trial *t, const tt_trial_options *asked)
{
    *t = (tt_trial){.asked = *asked, .arena = tt_arena_create()};
    if (t->arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a law");
    tt_status status = make(t);
    if (status == TT_OK)
        status = begin_states(t);
    if (status != TT_OK)
        tt_trial_fini(t);
    return status;
}

void tt_trial_fini(tt_trial *t)
{
    tt_interp_destroy(t->interp);
    tt_graph_destroy(t->graph);
    tt_arena_destroy(t->arena);
    *t = (tt_trial){0};
}

void tt_trial_write(tt_trial *t, tt_val v, const double *data)
{
    tt_interp_write(t->interp, v, data);
}

void tt_trial_read(tt_trial *t, tt_val v, double *data)
{
    (void)tt_interp_read(t->interp, v, data);
}

static void go_on(tt_trial *t, tt_val from, tt_val to)
{
    const tt_type *type = &t->graph->value[to.id].type;
    if (tt_is(from))
        memcpy(tt_interp_data(t->interp, 0, to),
               tt_interp_data(t->interp, 0, from),
               (size_t)(tt_shape_count(&type->shape) *
                        tt_dtype_bytes(type->dtype)));
}

tt_status tt_trial_step(tt_trial *t, int64_t step)
{
    char name[32];
    const tt_graph *g = t->graph;
    tt_trial_write(t, tt_graph_find(g, "seed"), &(double){77});
    tt_trial_write(t, tt_graph_find(g, "step"), &(double){(double)step});
    for (int r = 0; r < t->asked.peers; r++)
        tt_trial_write(
            t, tt_graph_find(g, name_of(name, sizeof name, "seed", r, 0)),
            &(double){(double)r + 1});
    TT_TRY(tt_interp_run(t->interp));
    for (int r = 0; r < t->asked.peers; r++) {
        if (t->asked.feeds_back)
            go_on(t, t->left[r], t->residual[r]);
        for (int i = 0; i < t->n_states; i++)
            go_on(t, t->next[r][i], t->state[r][i]);
    }
    return TT_OK;
}
