// fp8 - products of the linear layers in 8 bits: their operands are quantized, weights
// and activations to e4m3, gradients to e5m2, with units from the peaks of the last
// steps (delayed scaling, Micikevicius et al. 2022).
//
//   matmul(x, w), matmul(dy, w')   ->  fp8_pack of each, matmul_fp8
//   matmul_grad_w(x, dy)           ->  fp8_pack of each, matmul_fp8 in f32
//   matmul with GELU, fp8_pack     ->  matmul_fp8, fp8_pack with GELU
//   peaks of all                   ->  concat, largest over micro-batches, fp8_units
//
//   same    up to the rounding of 8 bits; sums stay f32
//   which   weights of two dims in bf16 that only products read, with extents that are
//           multiples of 16: not embeddings, not what leads to the loss
//   bytes   a quantized operand is read once (2 bytes an element) and written twice
//   needs   a graph that is not spread over ranks yet

#include "ops/codec/fp8.h"

#include "ops/matmul.h"
#include "ops/ops.h"
#include "ops/shape/move.h"
#include "pass/copy.h"
#include "pass/pass.h"

// Steps of history. A unit has four entries of its vector for itself: cuBLASLt takes
// units at multiples of 16 bytes.
enum { EVEN = 16, STEPS = 16, APART = 4 };
static const double first_unit = 0x1p-6;

typedef struct work {
    tt__rewrite r;
    bool *is_weight; // per old value: fetched, and its products are changed
    int64_t *site;   // per old value: which site + 1; 0: none
    tt_val *rows, *turned; // per old value: quantized, once it is
    tt_val *before; // per old value: GELU's input, where fp8_pack does GELU
    tt_val *peak;   // per site
    tt_val peaks;   // of all sites, once they are gathered
    int64_t n_sites;
    tt_val units, history;
} work;

// ---- which ---------------------------------------------------------------

static bool is_even(const tt_shape *shape)
{
    const int64_t cols = tt_shape_dim(shape, shape->ndim - 1);
    return cols % EVEN == 0 && tt_shape_count(shape) / cols % EVEN == 0;
}

static bool is_product(const work *w, const tt_node *node)
{
    return node->op == &tt_op_matmul && w->is_weight[node->in[1].id] &&
           !((const tt_matmul_params *)node->params)->transpose_a;
}

static bool is_gradient(const work *w, const tt_node *node)
{
    return node->op == &tt_op_matmul_grad_w && node->n_in > 2 &&
           tt_is(node->in[2]) && w->is_weight[node->in[2].id];
}

// The state that a fetched value reads; -1: the value is not fetched.
static int32_t fetched(const tt_graph *g, int32_t v)
{
    const int32_t n = g->value[v].node;
    return n >= 0 && g->node[n].op == &tt_op_fetch ? g->node[n].in[0].id : -1;
}

static bool has_form(const tt_graph *g, const tt_node *node)
{
    if (node->op != &tt_op_matmul || node->phase != TT_FORWARD)
        return false;
    const tt_matmul_params *p = node->params;
    const tt_type *x = &g->value[node->in[0].id].type;
    const tt_type *w = &g->value[node->in[1].id].type;
    return !p->transpose_a && w->dtype == TT_BF16 && w->shape.ndim == 2 &&
           is_even(&x->shape) && is_even(&w->shape) &&
           fetched(g, node->in[1].id) >= 0;
}

// Logits stay exact: the loss is sensitive to them.
static bool is_of_loss(const tt_op_def *op)
{
    return op == &tt_op_cross_entropy || op == &tt_op_correct ||
           op == &tt_op_mse;
}

static bool leads_to_loss(const tt_graph *g, const tt_node *node)
{
    for (int32_t n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->node[n].n_in && is_of_loss(g->node[n].op); i++)
            if (g->node[n].in[i].id == node->out[0].id)
                return true;
    return false;
}

// Whether something else than products reads what is fetched from a state.
static bool has_other_readers(const tt_graph *g, int32_t state)
{
    for (int32_t n = 0; n < g->n_nodes; n++) {
        const tt_op_def *op = g->node[n].op;
        for (int i = 0; i < g->node[n].n_in; i++)
            if (tt_is(g->node[n].in[i]) &&
                fetched(g, g->node[n].in[i].id) == state &&
                op != &tt_op_matmul && op != &tt_op_matmul_grad_w)
                return true;
    }
    return false;
}

static void give_site(work *w, tt_val v)
{
    if (w->site[v.id] == 0)
        w->site[v.id] = ++w->n_sites;
}

static void look(work *w)
{
    const tt_graph *g = w->r.old;
    for (int32_t n = 0; n < g->n_nodes; n++) {
        const tt_node *node = &g->node[n];
        if (has_form(g, node) && !leads_to_loss(g, node) &&
            !has_other_readers(g, fetched(g, node->in[1].id)))
            w->is_weight[node->in[1].id] = true;
    }
    for (int32_t n = 0; n < g->n_nodes; n++)
        if (is_product(w, &g->node[n]) || is_gradient(w, &g->node[n])) {
            give_site(w, g->node[n].in[0]);
            give_site(w, g->node[n].in[1]);
        }
}

// Whether nothing but products in 8 bits reads v.
static bool is_only_quantized(const work *w, tt_val v)
{
    const tt_graph *g = w->r.old;
    for (int32_t n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->node[n].n_in; i++)
            if (g->node[n].in[i].id == v.id &&
                (i != 0 ||
                 !(is_product(w, &g->node[n]) || is_gradient(w, &g->node[n]))))
                return false;
    for (int32_t o = 0; o < g->n_outputs; o++)
        if (g->output[o].val.id == v.id)
            return false;
    return w->site[v.id] != 0;
}

// ---- the new graph -------------------------------------------------------

static tt_status make_states(work *w)
{
    tt_shape units = {0}, history = {0};
    TT_TRY(tt_shape_push(&units, "site", APART * w->n_sites));
    TT_TRY(tt_shape_push(&history, "step", STEPS));
    TT_TRY(tt_shape_push(&history, "site", w->n_sites));
    const tt_init first = {
        .kind = TT_INIT_CONST, .a = first_unit, .of = TT_NONE};
    const tt_init zero = {.kind = TT_INIT_CONST, .of = TT_NONE};
    w->units =
        tt_state(&w->r.b, TT_ROLE_OPTIM, "fp8.units", TT_F32, &units, first);
    w->history =
        tt_state(&w->r.b, TT_ROLE_OPTIM, "fp8.history", TT_F32, &history, zero);
    return w->r.b.status;
}

static int64_t unit_of(const work *w, tt_val v)
{
    return APART * (w->site[v.id] - 1);
}

// Makes rows and turned of an old value, if they are not there.
static tt_status fp8_pack(work *w, tt_val v, const tt_node *reader,
                          bool is_gradient_of)
{
    tt_val out[TT_MAX_OUT];
    const bool is_gelu = tt_is(w->before[v.id]);
    const tt_fp8_pack_params params = {.to = is_gradient_of ? 1 : 0,
                                       .is_gelu = is_gelu,
                                       .site = unit_of(w, v)};
    const tt_val x = is_gelu ? w->before[v.id] : w->r.kept[v.id];
    if (tt_is(w->rows[v.id]))
        return TT_OK;
    TT_TRY(tt__copy_aim(&w->r.b, is_gradient_of ? TT_BACKWARD : TT_FORWARD,
                        reader->stage, reader->origin));
    (void)tt_call(&w->r.b, &tt_op_fp8_pack, &params, (tt_val[]){x, w->units}, 2,
                  out);
    TT_TRY(w->r.b.status);
    w->rows[v.id] = out[TT_Q_ROWS];
    w->turned[v.id] = out[TT_Q_TURNED];
    w->peak[w->site[v.id] - 1] = out[TT_Q_PEAK];
    return TT_OK;
}

static tt_status do_product(work *w, const tt_node *node)
{
    const tt_matmul_params *p = node->params;
    const tt_val x = node->in[0], weight = node->in[1];
    const bool has_bias = node->n_in > 2 && tt_is(node->in[2]);
    const tt_matmul_fp8_params params = {.a_site = unit_of(w, x),
                                         .b_site = unit_of(w, weight)};
    TT_TRY(fp8_pack(w, x, node, node->phase != TT_FORWARD));
    TT_TRY(fp8_pack(w, weight, node, false));
    TT_TRY(tt__copy_aim(&w->r.b, node->phase, node->stage, node->origin));
    const tt_val in[] = {
        w->rows[x.id],
        p->transpose_b ? w->rows[weight.id] : w->turned[weight.id], w->units,
        has_bias ? w->r.kept[node->in[2].id] : TT_NONE};
    const tt_val z = tt_call(&w->r.b, &tt_op_matmul_fp8, &params, in,
                             has_bias ? 4 : 3, NULL);
    if (p->activation == TT_ACT_GELU_TANH && is_only_quantized(w, node->out[0]))
        w->before[node->out[0].id] = z;
    else
        w->r.kept[node->out[0].id] = tt_matmul_activate(&w->r.b, p, z);
    if (node->n_out > 1)
        w->r.kept[node->out[1].id] = z;
    return w->r.b.status;
}

static tt_status do_gradient(work *w, const tt_node *node)
{
    const tt_matmul_grad_w_params *p = node->params;
    const tt_val a = node->in[p->transposed ? 1 : 0];
    const tt_val b = node->in[p->transposed ? 0 : 1];
    const tt_matmul_fp8_params params = {
        .a_site = unit_of(w, a), .b_site = unit_of(w, b), .is_wide = true};
    TT_TRY(fp8_pack(w, node->in[0], node, false));
    TT_TRY(fp8_pack(w, node->in[1], node, true));
    TT_TRY(tt__copy_aim(&w->r.b, node->phase, node->stage, node->origin));
    const tt_val in[] = {w->turned[a.id], w->turned[b.id], w->units, TT_NONE,
                         w->r.kept[node->in[2].id]};
    w->r.kept[node->out[0].id] =
        tt_call(&w->r.b, &tt_op_matmul_fp8, &params, in, TT_M8_LIKE + 1, NULL);
    return w->r.b.status;
}

// Before the update: peaks of all micro-batches, which it reads.
static tt_val gather_peaks(work *w)
{
    const tt_concat_params along = {0};
    if (tt__copy_aim(&w->r.b, TT_WEIGHT_GRAD, 0, "fp8") != TT_OK)
        return TT_NONE;
    const tt_val all =
        tt_call(&w->r.b, &tt_op_concat, &along, w->peak, (int)w->n_sites, NULL);
    return tt_call(&w->r.b, &tt_op_largest, NULL, &all, 1, NULL);
}

static tt_status update_units(work *w, tt_val peaks)
{
    tt_val out[TT_MAX_OUT];
    TT_TRY(tt__copy_aim(&w->r.b, TT_UPDATE, 0, "fp8"));
    const tt_val skipped = tt_graph_output_find(w->r.old, "skipped");
    const tt_val in[TT_U8S_N] = {
        [TT_U8S_HISTORY] = w->history,
        [TT_U8S_UNITS] = w->units,
        [TT_U8S_PEAKS] = peaks,
        [TT_U8S_SKIP] = tt_is(skipped) ? w->r.kept[skipped.id]
                                       : tt_scalar(&w->r.b, "skip", TT_U8)};
    (void)tt_call(&w->r.b, &tt_op_fp8_units, NULL, in, TT_U8S_N, out);
    tt_update(&w->r.b, w->history, out[0]);
    tt_update(&w->r.b, w->units, out[1]);
    return w->r.b.status;
}

static tt_status do_node(void *pass, int32_t n)
{
    work *w = pass;
    const tt_node *node = &w->r.old->node[n];
    if (node->phase == TT_UPDATE && !tt_is(w->peaks))
        w->peaks = gather_peaks(w);
    if (is_product(w, node))
        return do_product(w, node);
    if (is_gradient(w, node))
        return do_gradient(w, node);
    tt__rewrite_inputs(&w->r, node->in, node->n_in);
    return tt__copy_node(&w->r.b, w->r.old, node, w->r.in, node->n_in,
                         w->r.kept);
}

static tt_status rewrite(work *w)
{
    TT_TRY(w->r.b.status);
    if (w->r.old->mesh.n_axes != 0)
        return tt_fail(TT_ERR_UNSUPPORTED, "the graph is spread over ranks");
    look(w);
    if (w->n_sites == 0)
        return tt_fail(TT_ERR_ARG,
                       "the model has no linear layer whose extents, and "
                       "tokens in a micro-batch, are multiples of %d: use "
                       "precision=bf16",
                       EVEN);
    TT_TRY(make_states(w));
    TT_TRY(tt__rewrite_nodes(&w->r, w, do_node));
    if (!tt_is(w->peaks))
        w->peaks = gather_peaks(w);
    TT_TRY(update_units(w, w->peaks));
    return tt__copy_ends(&w->r.b, w->r.old, w->r.kept);
}

static tt_status apply(const tt_graph *in, const void *params, tt_graph **out)
{
    const int64_t values = in->n_values;
    work w = {.peaks = TT_NONE};
    (void)params;
    TT_TRY(tt__rewrite_begin(&w.r, in, 0));
    w.is_weight = tt__rewrite_array(&w.r, values, sizeof *w.is_weight);
    w.site = tt__rewrite_array(&w.r, values, sizeof *w.site);
    w.rows = tt__rewrite_vals(&w.r, values);
    w.turned = tt__rewrite_vals(&w.r, values);
    w.before = tt__rewrite_vals(&w.r, values);
    w.peak = tt__rewrite_vals(&w.r, values);
    return tt__rewrite_end(&w.r, rewrite(&w), out);
}

const tt_pass_def tt_pass_fp8 = {
    .name = "fp8",
    .doc = "Products of linear layers on operands of 8 bits.",
    .apply = apply,
    .tested_by = "tests/pass/test_fp8.c",
};
