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

#include "base/alloc.h"
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
    const tt_graph *old;
    tt_builder b;
    bool *is_weight; // per old value: fetched, and its products are changed
    int64_t *site;   // per old value: which site + 1; 0: none
    tt_val *rows, *turned; // per old value: quantized, once it is
    tt_val *before; // per old value: GELU's input, where fp8_pack does GELU
    tt_val *kept;   // per old value: the same in the new graph
    tt_val *in;     // room for one node's inputs
    tt_val *peak;   // per site
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
    const tt_graph *g = w->old;
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
    const tt_graph *g = w->old;
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
        tt_state(&w->b, TT_ROLE_OPTIM, "fp8.units", TT_F32, &units, first);
    w->history =
        tt_state(&w->b, TT_ROLE_OPTIM, "fp8.history", TT_F32, &history, zero);
    return w->b.status;
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
    const tt_val x = is_gelu ? w->before[v.id] : w->kept[v.id];
    if (tt_is(w->rows[v.id]))
        return TT_OK;
    TT_TRY(tt__copy_aim(&w->b, is_gradient_of ? TT_BACKWARD : TT_FORWARD,
                        reader->stage, reader->origin));
    (void)tt_call(&w->b, &tt_op_fp8_pack, &params, (tt_val[]){x, w->units}, 2,
                  out);
    TT_TRY(w->b.status);
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
    TT_TRY(tt__copy_aim(&w->b, node->phase, node->stage, node->origin));
    const tt_val in[] = {
        w->rows[x.id],
        p->transpose_b ? w->rows[weight.id] : w->turned[weight.id], w->units,
        has_bias ? w->kept[node->in[2].id] : TT_NONE};
    const tt_val z =
        tt_call(&w->b, &tt_op_matmul_fp8, &params, in, has_bias ? 4 : 3, NULL);
    if (p->activation == TT_ACT_GELU_TANH && is_only_quantized(w, node->out[0]))
        w->before[node->out[0].id] = z;
    else
        w->kept[node->out[0].id] = tt_matmul_activate(&w->b, p, z);
    if (node->n_out > 1)
        w->kept[node->out[1].id] = z;
    return w->b.status;
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
    TT_TRY(tt__copy_aim(&w->b, node->phase, node->stage, node->origin));
    const tt_val in[] = {w->turned[a.id], w->turned[b.id], w->units, TT_NONE,
                         w->kept[node->in[2].id]};
    w->kept[node->out[0].id] =
        tt_call(&w->b, &tt_op_matmul_fp8, &params, in, TT_M8_LIKE + 1, NULL);
    return w->b.status;
}

static tt_status copy_node(work *w, const tt_node *node)
{
    for (int i = 0; i < node->n_in; i++)
        w->in[i] = tt_is(node->in[i]) ? w->kept[node->in[i].id] : TT_NONE;
    return tt__copy_node(&w->b, w->old, node, w->in, node->n_in, w->kept);
}

// Before the update: peaks of all micro-batches, which it reads.
static tt_val gather_peaks(work *w)
{
    const tt_concat_params along = {0};
    if (tt__copy_aim(&w->b, TT_WEIGHT_GRAD, 0, "fp8") != TT_OK)
        return TT_NONE;
    const tt_val all =
        tt_call(&w->b, &tt_op_concat, &along, w->peak, (int)w->n_sites, NULL);
    return tt_call(&w->b, &tt_op_largest, NULL, &all, 1, NULL);
}

static tt_status update_units(work *w, tt_val peaks)
{
    tt_val out[TT_MAX_OUT];
    TT_TRY(tt__copy_aim(&w->b, TT_UPDATE, 0, "fp8"));
    const tt_val skipped = tt_graph_output_find(w->old, "skipped");
    const tt_val in[TT_U8S_N] = {
        [TT_U8S_HISTORY] = w->history,
        [TT_U8S_UNITS] = w->units,
        [TT_U8S_PEAKS] = peaks,
        [TT_U8S_SKIP] = tt_is(skipped) ? w->kept[skipped.id]
                                       : tt_scalar(&w->b, "skip", TT_U8)};
    (void)tt_call(&w->b, &tt_op_fp8_units, NULL, in, TT_U8S_N, out);
    tt_update(&w->b, w->history, out[0]);
    tt_update(&w->b, w->units, out[1]);
    return w->b.status;
}

static tt_status do_node(work *w, const tt_node *node)
{
    if (is_product(w, node))
        return do_product(w, node);
    if (is_gradient(w, node))
        return do_gradient(w, node);
    return copy_node(w, node);
}

static tt_status rewrite(work *w)
{
    const tt_graph *old = w->old;
    tt_val peaks = TT_NONE;
    TT_TRY(make_states(w));
    for (int32_t v = 0; v < old->n_values; v++) {
        const tt_value *value = &old->value[v];
        if (value->node < 0) {
            TT_TRY(tt__copy_leaf(&w->b, old, v, w->kept));
            continue;
        }
        const tt_node *node = &old->node[value->node];
        if (value->slot == 0 && node->phase == TT_UPDATE && !tt_is(peaks))
            peaks = gather_peaks(w);
        if (value->slot == 0)
            TT_TRY(do_node(w, node));
    }
    TT_TRY(update_units(w, tt_is(peaks) ? peaks : gather_peaks(w)));
    return tt__copy_ends(&w->b, old, w->kept);
}

static tt_status allocate(work *w)
{
    int64_t widest = 1;
    for (int32_t n = 0; n < w->old->n_nodes; n++)
        widest = w->old->node[n].n_in > widest ? w->old->node[n].n_in : widest;
    const int64_t values = w->old->n_values + 1;
    const int64_t bytes = (int64_t)sizeof(tt_val) * values;
    w->is_weight = tt_alloc(values);
    w->site = tt_alloc((int64_t)sizeof *w->site * values);
    w->rows = tt_alloc(bytes);
    w->turned = tt_alloc(bytes);
    w->before = tt_alloc(bytes);
    w->kept = tt_alloc(bytes);
    w->peak = tt_alloc(bytes);
    w->in = tt_alloc((int64_t)sizeof *w->in * widest);
    if (!w->is_weight || !w->site || !w->rows || !w->turned || !w->before ||
        !w->kept || !w->peak || !w->in)
        return tt_fail(TT_ERR_NOMEM, "no memory for products in 8 bits");
    for (int64_t v = 0; v < values; v++)
        w->rows[v] = w->turned[v] = w->before[v] = w->kept[v] = w->peak[v] =
            TT_NONE;
    return TT_OK;
}

static tt_status apply(const tt_graph *in, const void *params, tt_graph **out)
{
    static const tt_grad_ops none = {0};
    work w = {.old = in};
    (void)params;
    TT_TRY(tt_builder_init(&w.b, &none));
    tt_status status =
        in->mesh.n_axes == 0
            ? allocate(&w)
            : tt_fail(TT_ERR_UNSUPPORTED, "the graph is spread over ranks");
    if (status == TT_OK) {
        look(&w);
        status = w.n_sites > 0
                     ? rewrite(&w)
                     : tt_fail(TT_ERR_ARG,
                               "the model has no linear layer whose extents, "
                               "and tokens in a micro-batch, are multiples of "
                               "%d: use precision=bf16",
                               EVEN);
    }
    if (status == TT_OK)
        status = tt_builder_take(&w.b, out);
    tt_builder_fini(&w.b);
    tt_free(w.is_weight);
    tt_free(w.site);
    tt_free(w.rows);
    tt_free(w.turned);
    tt_free(w.before);
    tt_free(w.kept);
    tt_free(w.peak);
    tt_free(w.in);
    return status;
}

const tt_pass_def tt_pass_fp8 = {
    .name = "fp8",
    .doc = "Products of linear layers on operands of 8 bits.",
    .apply = apply,
    .tested_by = "tests/pass/test_fp8.c",
};
