// job_gamma - how far replicas go to what codes say of their neighbours (CHOCO), if the user
// does not say it.
//
// The problem. A replica that goes too far towards copies that lag behind runs away from
// its neighbours. How far it may go depends on the part of a change that a code says,
//
//   delta = 1 - |x - code of x|^2 / |x|^2
//
// The paper's theorem has a step that is proportional to it and so small that nothing happens
// for thousands of steps; the steps that its authors found by trying are about delta. Here
// they are delta (1 + delta) / 2: all of the way where codes lose nothing, half of delta where
// they say little.
//
// The idea. delta of a codec under these options is measured: a small tensor of normal numbers
// is encoded and decoded by the interpreter, then what the code did not say with other normal
// numbers added, and so on: what replicas send looks like that after a while. Two digits of
// the last delta are taken, so that all ranks find the same. docs/exchange.md has what came
// of it.
//
//   cost   less than a tenth of a second, before the plan is made

#include "job/replicas/job_gamma.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "interp/interp.h"
#include "ops/comm/replicas.h"
#include "ops/gradops.h"
#include "ops/ops.h"
#include "ops/shape/move.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 64, N = SIDE * SIDE, ROUNDS = 40 };

typedef struct trial {
    tt_graph *graph;
    tt_interp *interp;
    tt_val x, state[TT_CODEC_STATES], next[TT_CODEC_STATES];
    double left[N], said[N];
} trial;

// ---- the graph -----------------------------------------------------------

static tt_status begin(tt_builder *b, const tt_codec_def *codec,
                       const void *params, tt_coding *c)
{
    tt_codec_state state[TT_CODEC_STATES];
    int n = 0;
    *c = (tt_coding){.def = codec,
                     .params = params,
                     .x = tt_input(b, "x", TT_F32, "rows:64 columns:64"),
                     .residual = TT_NONE,
                     .seed = tt_scalar(b, "seed", TT_I64),
                     .common_seed = tt_scalar(b, "common_seed", TT_I64),
                     .step = tt_scalar(b, "step", TT_I64),
                     .peers = 1};
    TT_TRY(b->status);
    b->origin = "gamma";
    if (!codec->is_lossless)
        c->residual = tt_fill(b, c->x, 0);
    const tt_type type = *tt_type_of(b, c->x);
    TT_TRY(tt_codec_states(codec, params, &type, state, &n));
    for (int i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "state%d", i);
        c->state[i] = tt_state(b, TT_ROLE_OPTIM, name, state[i].dtype,
                               &state[i].shape, state[i].init);
    }
    return b->status;
}

// One replica, which is its own peer.
static tt_status build(tt_builder *b, const tt_codec_def *codec,
                       const void *params, trial *t)
{
    tt_coding c;
    tt_val joined[TT_CODEC_CODES], said = TT_NONE;
    TT_TRY(begin(b, codec, params, &c));
    for (int r = 0; r < TT_CODEC_ROUNDS && !c.is_last; r++) {
        TT_TRY(tt_codec_encode(b, &c, r == 0 ? NULL : joined));
        for (int i = 0; i < c.n_codes; i++)
            joined[i] = c.join == TT_CODEC_ADDED
                            ? c.code[i]
                            : tt_stack(b, c.code[i], TT_REPLICA ":1");
    }
    TT_TRY(tt_codec_decode(b, &c, joined, &said));
    tt_output(b, "said", said);
    t->x = c.x;
    for (int i = 0; i < TT_CODEC_STATES; i++) {
        t->state[i] = c.state[i];
        t->next[i] = c.state_out[i];
    }
    return b->status;
}

static tt_status make(const tt_codec_def *codec, const void *params, trial *t)
{
    tt_builder b;
    TT_TRY(tt_builder_init(&b, &tt_grad_ops_default));
    tt_status status = build(&b, codec, params, t);
    if (status == TT_OK)
        status = tt_builder_take(&b, &t->graph);
    tt_builder_fini(&b);
    return status == TT_OK ? tt_interp_create(t->graph, &t->interp) : status;
}

// ---- the trial -----------------------------------------------------------

// States that are random are normal, the others 0.
static tt_status fill(trial *t)
{
    for (int32_t v = 0; v < t->graph->n_values; v++) {
        const tt_value *value = &t->graph->value[v];
        const int64_t n = tt_shape_count(&value->type.shape);
        if (value->node >= 0)
            continue;
        double *data = tt_alloc(n * (int64_t)sizeof *data);
        if (data == NULL)
            return tt_fail(TT_ERR_NOMEM, "no memory to try a codec");
        const bool is_random = value->init.kind != TT_INIT_CONST;
        const uint64_t key = tt_rng_key(1, value->name, 0);
        for (int64_t i = 0; i < n; i++)
            data[i] = is_random ? tt_rng_normal(key, (uint64_t)i) : 0;
        tt_interp_write(t->interp, (tt_val){v}, data);
        tt_free(data);
    }
    return TT_OK;
}

// States go on from what the round has left.
static void go_on(trial *t)
{
    for (int i = 0; i < TT_CODEC_STATES; i++) {
        if (!tt_is(t->state[i]) || !tt_is(t->next[i]))
            continue;
        const tt_type *type = &t->graph->value[t->state[i].id].type;
        memcpy(tt_interp_data(t->interp, 0, t->state[i]),
               tt_interp_data(t->interp, 0, t->next[i]),
               (size_t)(tt_shape_count(&type->shape) *
                        tt_dtype_bytes(type->dtype)));
    }
}

// Random codes are others in each round.
static void set_scalars(trial *t, double to)
{
    for (int32_t v = 0; v < t->graph->n_values; v++)
        if (t->graph->value[v].role == TT_ROLE_SCALAR)
            tt_interp_write(t->interp, (tt_val){v}, &to);
}

static tt_status measure(trial *t, double *delta_out)
{
    const tt_val said = tt_graph_output_find(t->graph, "said");
    TT_TRY(fill(t));
    for (int k = 0; k < ROUNDS; k++) {
        const uint64_t key = tt_rng_key(1, "change", (uint64_t)k);
        double before = 0, after = 0;
        for (int64_t i = 0; i < N; i++) {
            t->left[i] += tt_rng_normal(key, (uint64_t)i);
            before += t->left[i] * t->left[i];
        }
        tt_interp_write(t->interp, t->x, t->left);
        set_scalars(t, (double)k);
        TT_TRY(tt_interp_run(t->interp));
        (void)tt_interp_read(t->interp, said, t->said);
        go_on(t);
        for (int64_t i = 0; i < N; i++) {
            t->left[i] -= t->said[i];
            after += t->left[i] * t->left[i];
        }
        *delta_out = 1 - after / before;
    }
    return TT_OK;
}

static double two_digits(double x)
{
    char text[32];
    snprintf(text, sizeof text, "%.1e", x);
    return strtod(text, NULL);
}

tt_status tt__job_gamma(const tt_codec_def *codec, const void *params,
                        double *gamma_out)
{
    double delta = 0;
    trial *t = tt_alloc(sizeof *t);
    if (t == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to try a codec");
    *t = (trial){0};
    tt_status status = make(codec, params, t);
    if (status == TT_OK)
        status = measure(t, &delta);
    tt_interp_destroy(t->interp);
    tt_graph_destroy(t->graph);
    tt_free(t);
    if (status == TT_OK)
        *gamma_out = two_digits(fmin(1, fmax(0.001, delta * (1 + delta) / 2)));
    return status;
}
