// codes - ranks that share layers send each other codes of activations and of their
// gradients.
//
// The problem. Tensor, context, expert and pipeline parallelism send activations in every
// layer, forward and backward, and somebody waits for most of them.
//
// The idea. Whatever the partition pass has put in moves rows of a tensor to other ranks,
// or adds them up. So each row gets a code of a known length (ops/codec/code_rows.h), and
// codes are moved instead:
//
//   before   x S -- all_gather, all_to_all, shift, move ----------------------> y
//   after    x S -> rows_encode -> codes S -- the same -> codes -> rows_sum --> y
//
//   before   x P(sum) -- all_reduce, reduce_scatter --------------------------> y
//   after    x P -> rows_encode -> codes O -> stack terms:p S
//              -- all_gather, all_to_all -> codes of all terms -> rows_sum ---> y
//
// All ranks that shall hold the same value decode the same codes in the same order, their
// own too. So they hold the same bits. Codes of 16 bits are numbers: they are moved, and
// added, as any numbers are.
//
//   coded    values of floats that have a dim of the samples (which no weight has) and one
//            of the features (which weights have): activations and their gradients,
//            along the axes of layouts.
//   not      losses and statistics of norms and maxima, weights and their gradients, inputs,
//            images in parts (the axis `space`)
//   sent     a sum of p ranks costs each (p - 1) codes, where a ring sends 2 (p - 1) / p of
//            the tensor
//   needs    pass partition before

#include "pass/codes.h"

#include "ops/codec/code_rows.h"
#include "ops/codec/narrow.h"
#include "ops/comm/comm.h"
#include "ops/comm/replicas.h"
#include "ops/ops.h"
#include "pass/copy.h"
#include "pass/pass.h"

#include <string.h>

// The codes that a value was decoded from; none: `rows` is all zero.
typedef struct coded {
    tt_val codes;
    tt_code_rows_params rows;
} coded;

typedef struct work {
    tt__rewrite r;
    const tt_codes_params *params;
    const tt_packet_form *form; // of rows; NULL: numbers of 16 bits
    tt_narrow_params narrow;
    coded *coded; // per old value: as what it came
} work;

// One collective on its way.
typedef struct carried {
    const tt_node *node;
    const tt_comm_params *how;
    const tt_type *from, *to; // before and after
    bool is_sum;
    tt_val x;
    tt_code_rows_params rows;
} carried;

// ---- which values --------------------------------------------------------

static bool is_coded_axis(const char *name)
{
    static const char *const all[] = {"tensor", "context", "expert", "pipe"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(name, all[i]) == 0)
            return true;
    return false;
}

static bool weights_have(const tt_graph *g, const char *factor)
{
    for (int32_t v = 0; v < g->n_values; v++)
        if ((g->value[v].role == TT_ROLE_PARAM ||
             g->value[v].role == TT_ROLE_WORK) &&
            tt_shape_find(&g->value[v].type.shape, factor) >= 0)
            return true;
    return false;
}

static bool is_activation(const tt_graph *g, int32_t v)
{
    const tt_type *type = &g->value[v].type;
    int samples = 0, features = 0;
    if (!tt_dtype_is_float(type->dtype) || g->value[v].node < 0)
        return false;
    for (int f = 0; f < type->shape.n_factors; f++) {
        const bool is_feature = weights_have(g, type->shape.factor[f].name);
        samples += !is_feature;
        features += is_feature;
    }
    return samples > 0 && features > 0;
}

static bool is_sum(const tt_op_def *op)
{
    return op == &tt_op_all_reduce || op == &tt_op_reduce_scatter;
}

static bool is_move(const tt_op_def *op)
{
    return op == &tt_op_all_gather || op == &tt_op_all_to_all ||
           op == &tt_op_shift || op == &tt_op_move;
}

static bool is_carried(const work *w, const tt_node *node)
{
    const tt_graph *g = w->r.old;
    const tt_comm_params *p = node->params;
    if ((!is_sum(node->op) && !is_move(node->op)) || !tt_is(node->in[0]) ||
        node->phase >= TT_UPDATE ||
        !is_coded_axis(g->mesh.axis[p->axis].name) ||
        !is_activation(g, node->in[0].id))
        return false;
    const tt_type *x = &g->value[node->in[0].id].type;
    const tt_place *place = &x->place[p->axis];
    if (is_sum(node->op) && (place->kind != TT_PARTIAL ||
                             place->reduce != TT_SUM || place->at != 0))
        return false;
    return tt_dtype_bytes(x->dtype) > (w->form != NULL ? 1 : 2);
}

// ---- rows ----------------------------------------------------------------

static bool is_sample(const tt_factor *factor)
{
    return strcmp(factor->name, "batch") == 0 ||
           strcmp(factor->name, "seq") == 0;
}

// The last factor that is cut before or after, or -1. *parts_out: into how many even
// pieces, by one axis; 0: otherwise.
static int last_cut(const carried *c, const tt_mesh *mesh, int64_t *parts_out)
{
    int last = -1, axis = -1;
    bool is_plain = true;
    for (int a = 0; a < mesh->n_axes; a++)
        for (int i = 0; i < 2; i++) {
            const tt_place *place =
                i == 0 ? &c->from->place[a] : &c->to->place[a];
            if (place->kind != TT_SPLIT || place->factor < last)
                continue;
            is_plain =
                place->zigzag || place->rotate != 0 || place->window.out != 0
                    ? false
                : place->factor > last ? true
                                       : is_plain && axis == a;
            last = place->factor;
            axis = a;
        }
    const int64_t size = axis < 0 ? 0 : mesh->axis[axis].size;
    *parts_out =
        last >= 0 && is_plain && c->from->shape.factor[last].size % size == 0
            ? size
            : 0;
    return last;
}

// A row begins behind all that is cut and has numbers of one sample or token only, so that
// codes do not depend on how samples are divided. Where little is left behind the cut it
// begins at the cut, in parts.
static tt_status choose_rows(const work *w, carried *c)
{
    enum { LONG = 64 };
    const tt_shape *shape = &c->from->shape;
    int64_t parts = 0, tail = 1;
    const int last = last_cut(c, &w->r.old->mesh, &parts);
    int lead = shape->n_factors;
    while (lead - 1 > last &&
           (!is_sample(&shape->factor[lead - 1]) || lead == shape->n_factors))
        tail *= shape->factor[--lead].size;
    if (lead < shape->n_factors &&
        (tail >= LONG || parts == 0 || is_sample(&shape->factor[last])))
        parts = 1;
    else
        lead = last;
    if (parts == 0)
        return tt_fail(TT_ERR_ARG,
                       "layout.codec=%s: %s sends rows that are cut along %s, "
                       "not evenly; layout.codec=bf16 would do",
                       w->params->codec->name, c->node->origin,
                       shape->factor[last].name);
    c->rows = (tt_code_rows_params){
        .code = *(const tt_code_params *)w->params->codec_params,
        .kind = tt_code_rows_kind(w->form),
        .lead = lead,
        .parts = parts};
    return TT_OK;
}

// Whether codes are smaller than what they stand for.
static bool pays(const carried *c)
{
    tt_local whole;
    tt_local_whole(&c->from->shape, &whole);
    const tt_code_rows rows = tt_code_rows_of(&c->rows, &whole);
    return rows.bytes < rows.columns * tt_dtype_bytes(c->from->dtype);
}

// ---- codes ---------------------------------------------------------------

static int code_factor(const carried *c, int factor)
{
    return factor < c->rows.lead ? factor : (int)c->rows.lead;
}

// Where codes are if the tensor is there. A code of a term is the rank's own. `more`:
// dims that codes have before the tensor's.
static tt_place code_place(const carried *c, const tt_place *place, int more)
{
    tt_place code = *place;
    if (place->kind == TT_SPLIT)
        code.factor = code_factor(c, place->factor) + more;
    else if (place->kind == TT_PARTIAL)
        code = (tt_place){.kind = TT_OWN, .at = place->at};
    return code;
}

static void place_codes(work *w, const carried *c, tt_val codes,
                        const tt_type *like, int more)
{
    for (int a = 0; a < w->r.old->mesh.n_axes && tt_is(codes); a++)
        tt_place_set(&w->r.b, codes, a, code_place(c, &like->place[a], more));
}

static void place_as(work *w, tt_val v, const tt_type *like)
{
    for (int a = 0; a < w->r.old->mesh.n_axes && tt_is(v); a++)
        tt_place_set(&w->r.b, v, a, like->place[a]);
}

// Another seed for each collective, and for each term of a sum.
static tt_val seed_of(work *w, const carried *c)
{
    tt_builder *b = &w->r.b;
    const int axis = (int)c->how->axis;
    const tt_replica_seed_params params = {
        .replicas = c->is_sum ? w->r.old->mesh.axis[axis].size : 0,
        .salt = c->node->out[0].id + 1};
    const tt_val seed =
        tt_replica_seed(b, tt_scalar(b, "seed", TT_I64), &params);
    if (!c->is_sum)
        return seed;
    tt_place_set(b, seed, axis, tt_place_split(0));
    const tt_val own = tt_own(b, seed, 1);
    tt_place_set(b, own, axis, tt_place_own());
    return own;
}

// Codes that go on, as keys and values round a ring do, are sent as they came.
static tt_val encode(work *w, const carried *c)
{
    tt_builder *b = &w->r.b;
    const coded *before = &w->coded[c->node->in[0].id];
    if (!c->is_sum && before->rows.parts == c->rows.parts &&
        before->rows.lead == c->rows.lead)
        return before->codes;
    tt_val in[TT_P_N] = {c->x, TT_NONE, TT_NONE, TT_NONE};
    if (w->form->is_random) {
        in[TT_PSEED] = seed_of(w, c);
        in[TT_PSTEP] = tt_scalar(b, "step", TT_I64);
    }
    const tt_val codes = tt_call(b, &tt_op_rows_encode, &c->rows, in,
                                 w->form->is_random ? TT_P_N : TT_PX + 1, NULL);
    place_codes(w, c, codes, c->from, 0);
    return codes;
}

// The name of the factor of codes that stands for one of the tensor.
static const char *code_name(const carried *c, const char *factor)
{
    const int f = factor == NULL ? -1 : tt_shape_find(&c->from->shape, factor);
    return f >= c->rows.lead ? TT_CODE_BYTES : factor;
}

static tt_val send_codes(work *w, const carried *c, tt_val codes)
{
    tt_comm_params how = *c->how;
    how.factor = code_name(c, how.factor);
    how.to = code_name(c, how.to);
    const tt_val sent = tt_call(&w->r.b, c->node->op, &how, &codes, 1, NULL);
    place_codes(w, c, sent, c->to, 0);
    w->coded[c->node->out[0].id] = (coded){sent, c->rows};
    return sent;
}

// The codes of all terms: of all rows, or of the rank's.
static tt_val send_terms(work *w, const carried *c, tt_val codes)
{
    tt_builder *b = &w->r.b;
    const int axis = (int)c->how->axis;
    const bool is_scattered = c->node->op == &tt_op_reduce_scatter;
    const tt_comm_params how = {.axis = axis,
                                .factor = TT_CODE_TERMS,
                                .to = code_name(c, c->how->factor)};
    const char *dims = tt_arena_printf(b->graph->arena, TT_CODE_TERMS ":%d",
                                       w->r.old->mesh.axis[axis].size);
    if (dims == NULL)
        return tt_builder_fail(b, TT_ERR_NOMEM);
    const tt_val terms = tt_stack(b, codes, dims);
    place_codes(w, c, terms, c->from, 1);
    tt_place_set(b, terms, axis, tt_place_split(0));
    const tt_val all =
        tt_call(b, is_scattered ? &tt_op_all_to_all : &tt_op_all_gather, &how,
                &terms, 1, NULL);
    place_codes(w, c, all, c->from, 1);
    tt_place_set(b, all, axis, code_place(c, &c->to->place[axis], 1));
    return all;
}

static tt_val decode(work *w, const carried *c, tt_val codes)
{
    const tt_val in[TT_PSUM_N] = {codes, c->x};
    return tt_call(&w->r.b, &tt_op_rows_sum, &c->rows, in, TT_PSUM_N, NULL);
}

// ---- numbers of 16 bits --------------------------------------------------

static tt_narrow_params narrow_params(const work *w, const carried *c)
{
    tt_narrow_params p = w->narrow;
    p.peers = c->is_sum ? w->r.old->mesh.axis[c->how->axis].size : 1;
    return p;
}

static tt_val narrow(work *w, const carried *c)
{
    const tt_narrow_params p = narrow_params(w, c);
    const tt_val in[TT_NARROW_N] = {c->x, TT_NONE};
    const tt_val code =
        tt_call(&w->r.b, &tt_op_narrow, &p, in, TT_NARROW_N, NULL);
    place_as(w, code, c->from);
    return code;
}

static tt_val send_numbers(work *w, const carried *c, tt_val code)
{
    const tt_val sent = tt_call(&w->r.b, c->node->op, c->how, &code, 1, NULL);
    place_as(w, sent, c->to);
    return sent;
}

static tt_val widen(work *w, const carried *c, tt_val code)
{
    const tt_narrow_params p = narrow_params(w, c);
    const tt_val in[2] = {code, c->x};
    return tt_call(&w->r.b, &tt_op_widen, &p, in, 2, NULL);
}

// ---- the graph -----------------------------------------------------------

// Encodes in the stage that made the value, and decodes in the one that reads it.
static tt_status carry(work *w, const carried *c)
{
    const tt_graph *g = w->r.old;
    const tt_node *node = c->node;
    const bool is_rows = w->form != NULL;
    const tt_node *maker = &g->node[g->value[node->in[0].id].node];
    TT_TRY(tt__copy_aim(&w->r.b, node->phase,
                        node->op == &tt_op_move ? maker->stage : node->stage,
                        node->origin));
    tt_val code = is_rows ? encode(w, c) : narrow(w, c);
    w->r.b.stage = node->stage;
    if (!is_rows)
        code = send_numbers(w, c, code);
    else
        code = c->is_sum ? send_terms(w, c, code) : send_codes(w, c, code);
    const tt_val y = is_rows ? decode(w, c, code) : widen(w, c, code);
    place_as(w, y, c->to);
    w->r.kept[node->out[0].id] = y;
    return w->r.b.status;
}

static tt_status do_node(void *pass, int32_t n)
{
    work *w = pass;
    const tt_graph *g = w->r.old;
    const tt_node *node = &g->node[n];
    if (is_carried(w, node)) {
        carried c = {.node = node,
                     .how = node->params,
                     .from = &g->value[node->in[0].id].type,
                     .to = &g->value[node->out[0].id].type,
                     .is_sum = is_sum(node->op),
                     .x = w->r.kept[node->in[0].id]};
        if (w->form != NULL)
            TT_TRY(choose_rows(w, &c));
        if (w->form == NULL || pays(&c))
            return carry(w, &c);
    }
    tt__rewrite_inputs(&w->r, node->in, node->n_in);
    return tt__copy_node(&w->r.b, g, node, w->r.in, node->n_in, w->r.kept);
}

static bool is_narrow(const tt_codec_def *codec)
{
    return strcmp(codec->name, "bf16") == 0 || strcmp(codec->name, "fp16") == 0;
}

tt_status tt_codes_check(const tt_codec_def *codec)
{
    const char *name = codec->name;
    if (is_narrow(codec) || strcmp(name, "none") == 0 ||
        (codec->encode_op != NULL &&
         tt_code_rows_kind(codec->encode_op->family) >= 0))
        return TT_OK;
    if (codec->needs_feedback)
        return tt_fail(TT_ERR_ARG,
                       "layout.codec=%s needs a residual, and what a layer "
                       "sends has no next time to make up for it; "
                       "layout.codec=int8 needs none",
                       name);
    if (codec->encode_op == NULL && codec->is_lossless)
        return tt_fail(TT_ERR_ARG,
                       "layout.codec=%s is for gradients of weights, and "
                       "layers send activations; layout.codec=int8 would do",
                       name);
    if (codec->is_linear)
        return tt_fail(TT_ERR_ARG,
                       "layout.codec=%s sends few entries of a gradient, and a "
                       "layer reads all that it gets; layout.codec=int8 sends "
                       "all",
                       name);
    return tt_fail(TT_ERR_ARG,
                   "layout.codec=%s: codes of rows have a length that is known "
                   "beforehand, and this codec's have not; layout.codec=int8 "
                   "has",
                   name);
}

static tt_status apply(const tt_graph *in, const void *params, tt_graph **out)
{
    work w = {.params = params};
    const tt_codec_def *codec = w.params->codec;
    TT_TRY(tt_codes_check(codec));
    if (is_narrow(codec))
        w.narrow = (tt_narrow_params){
            .to = strcmp(codec->name, "fp16") == 0,
            .scale = *(const double *)w.params->codec_params};
    else
        w.form = codec->encode_op->family;
    tt_status status = tt__rewrite_begin(&w.r, in, 0);
    if (status == TT_OK) {
        w.coded = tt__rewrite_array(&w.r, in->n_values, sizeof *w.coded);
        status = w.r.b.status;
    }
    if (status == TT_OK)
        status = tt__rewrite_leaves(&w.r);
    if (status == TT_OK)
        status = tt__rewrite_nodes(&w.r, &w, do_node);
    if (status == TT_OK)
        status = tt__copy_ends(&w.r.b, w.r.old, w.r.kept);
    return tt__rewrite_end(&w.r, status, out);
}

const tt_pass_def tt_pass_codes = {
    .name = "codes",
    .doc = "Send codes of activations between ranks that share layers.",
    .params_bytes = sizeof(tt_codes_params),
    .apply = apply,
    .tested_by = "tests/train/codes/test_layer_codes.c",
};
