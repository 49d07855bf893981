// chunk - the loss in pieces, so that logits never exist whole.
//
//   before   x -> product -> logits [rows, vocab] -> loss ... dlogits -> dx, dw
//   after    for each piece of the rows, one after the other, in the forward pass:
//            x' -> product -> logits' -> loss', dlogits' -> dx', dw'
//            loss = sum of loss', dx = rows of dx', dw += dw'
//
//   memory   logits and their gradient: one piece of each
//   same     every row is what it was; sums over rows (loss, dw) are in another order
//   flops    the same: nothing is computed twice
//   needs    a graph that is not spread over ranks; rows that ranks hold in blocks
//            are dealt out evenly (`cuts`)
//
// A piece has every n-th row, so that it lies as evenly as the whole does, in memory
// and on ranks.

#include "pass/chunk.h"

#include "ops/arith.h"
#include "ops/ops.h"
#include "ops/shape/move.h"
#include "pass/copy.h"
#include "pass/pass.h"

#include <string.h>

typedef struct work {
    tt__rewrite r;
    tt__head head;
    tt_val *terms; // chunk by chunk: dx, dw, db
} work;

enum { DX, DW, DB, N_TERMS };

// One piece: what stands for the values of the head.
typedef struct piece {
    int64_t part;
    tt_val x, labels, logits, lse, sum, count, hits, dy;
} piece;

static tt_val term(const work *w, int64_t part, int which)
{
    return w->terms[part * N_TERMS + which];
}

static tt_val stripe(work *w, tt_val v, int64_t part)
{
    const tt_stripe_params p = {w->head.dim, part, w->head.chunks};
    return tt_call(&w->r.b, &tt_op_stripe, &p, &v, 1, NULL);
}

static const tt_node *node_at(const work *w, int32_t n)
{
    return n < 0 ? NULL : &w->r.old->node[n];
}

// The node of the old graph that made v, if it is the loss or comes after it.
static const tt_node *late_maker(const work *w, tt_val v)
{
    const int32_t n = w->r.old->value[v.id].node;
    return n >= w->head.loss ? &w->r.old->node[n] : NULL;
}

// The gradient that the loss starts from, made again for one piece: what reads the
// shape of the whole loss reads that of the piece's.
static tt_val seed(work *w, tt_val v, tt_val sum)
{
    enum { MOST = 8 };
    const tt_node *node = late_maker(w, v);
    tt_val in[MOST], out[TT_MAX_OUT];
    if (node == NULL)
        return w->r.kept[v.id];
    if (node->n_in > MOST)
        return tt_builder_fail(&w->r.b, TT_ERR_UNSUPPORTED);
    for (int i = 0; i < node->n_in; i++) {
        const bool is_shape = (node->op->shape_only >> i & 1) != 0;
        in[i] =
            is_shape || !tt_is(node->in[i]) ? sum : seed(w, node->in[i], sum);
    }
    tt_call(&w->r.b, node->op, node->params, in, node->n_in, out);
    return out[w->r.old->value[v.id].slot];
}

// Inputs of a node of the head, as the piece has them.
static void read_inputs(work *w, const tt_node *node, const piece *p)
{
    const tt_node *product = node_at(w, w->head.product);
    const tt_node *loss = node_at(w, w->head.loss);
    const tt_node *grad = node_at(w, w->head.grad);
    for (int i = 0; i < node->n_in; i++) {
        const int32_t v = node->in[i].id;
        if (v < 0)
            w->r.in[i] = TT_NONE;
        else if (v == product->in[0].id)
            w->r.in[i] = p->x;
        else if (v == loss->in[0].id)
            w->r.in[i] = p->logits;
        else if (v == loss->in[1].id)
            w->r.in[i] = p->labels;
        else if (v == loss->out[2].id)
            w->r.in[i] = p->lse;
        else if (grad != NULL && v == grad->in[3].id)
            w->r.in[i] = seed(w, node->in[i], p->sum);
        else if (grad != NULL && v == grad->out[0].id)
            w->r.in[i] = p->dy;
        else
            w->r.in[i] = w->r.kept[v];
    }
}

// Computes a node of the head for one piece, in the forward pass.
static tt_status call(work *w, int32_t n, const piece *p, tt_val *out)
{
    const tt_node *node = node_at(w, n);
    out[0] = TT_NONE;
    if (node == NULL)
        return TT_OK;
    TT_TRY(tt__copy_aim(&w->r.b, TT_FORWARD, node_at(w, w->head.loss)->stage,
                        node->origin));
    read_inputs(w, node, p);
    (void)tt_call(&w->r.b, node->op, node->params, w->r.in, node->n_in, out);
    return w->r.b.status;
}

static tt_status do_piece(work *w, piece *p)
{
    const tt__head *h = &w->head;
    const tt_node *product = node_at(w, h->product),
                  *loss = node_at(w, h->loss);
    tt_val out[TT_MAX_OUT];
    TT_TRY(tt__copy_aim(&w->r.b, TT_FORWARD, loss->stage, product->origin));
    p->x = stripe(w, w->r.kept[product->in[0].id], p->part);
    p->labels = stripe(w, w->r.kept[loss->in[1].id], p->part);
    TT_TRY(call(w, h->product, p, out));
    p->logits = out[0];
    TT_TRY(call(w, h->loss, p, out));
    p->sum = out[0];
    p->count = out[1];
    p->lse = out[2];
    TT_TRY(call(w, h->hits, p, out));
    p->hits = out[0];
    TT_TRY(call(w, h->grad, p, out));
    p->dy = out[0];
    const int32_t last[N_TERMS] = {[DX] = h->dx, [DW] = h->dw, [DB] = h->db};
    for (int i = 0; i < N_TERMS; i++) {
        TT_TRY(call(w, last[i], p, out));
        w->terms[p->part * N_TERMS + i] = out[0];
    }
    return TT_OK;
}

static void add(work *w, tt_val *sum, tt_val term_)
{
    if (tt_is(term_))
        *sum = tt_is(*sum) ? tt_add(&w->r.b, *sum, term_) : term_;
}

static void keep(work *w, const tt_node *node, int slot, tt_val v)
{
    if (node != NULL)
        w->r.kept[node->out[slot].id] = v;
}

static tt_val weave(work *w)
{
    const tt_weave_params p = {w->head.dim};
    for (int64_t c = 0; c < w->head.chunks; c++)
        w->r.in[c] = term(w, c, DX);
    return tt_call(&w->r.b, &tt_op_weave, &p, w->r.in, (int)w->head.chunks,
                   NULL);
}

// Terms of a weight's gradient are added where that is summed anyway; what anybody
// else reads is summed here.
static bool only_offers_read(const tt_graph *g, tt_val v)
{
    if (tt__host_reads(g, v))
        return false;
    for (int32_t n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->node[n].n_in; i++)
            if (g->node[n].in[i].id == v.id && g->node[n].op != &tt_op_offer)
                return false;
    return true;
}

static void keep_terms(work *w, int32_t n, int which)
{
    const tt_node *node = node_at(w, n);
    tt_val sum = TT_NONE;
    if (node == NULL || only_offers_read(w->r.old, node->out[0]))
        return;
    for (int64_t c = 0; c < w->head.chunks; c++)
        add(w, &sum, term(w, c, which));
    w->r.kept[node->out[0].id] = sum;
}

static tt_status do_head(work *w)
{
    const tt__head *h = &w->head;
    const tt_node *loss = node_at(w, h->loss);
    tt_val sum = TT_NONE, count = TT_NONE, hits = TT_NONE;
    for (int64_t c = 0; c < h->chunks; c++) {
        piece p = {.part = c};
        TT_TRY(do_piece(w, &p));
        TT_TRY(tt__copy_aim(&w->r.b, TT_FORWARD, loss->stage, loss->origin));
        add(w, &sum, p.sum);
        add(w, &count, p.count);
        add(w, &hits, p.hits);
    }
    keep(w, loss, 0, sum);
    keep(w, loss, 1, count);
    keep(w, node_at(w, h->hits), 0, hits);
    TT_TRY(tt__copy_aim(&w->r.b, TT_FORWARD, loss->stage,
                        node_at(w, h->product)->origin));
    if (h->dx >= 0)
        keep(w, node_at(w, h->dx), 0, weave(w));
    keep_terms(w, h->dw, DW);
    keep_terms(w, h->db, DB);
    return w->r.b.status;
}

// ---- the rest of the graph -----------------------------------------------

static bool is_head(const tt__head *h, int32_t n)
{
    return n == h->product || n == h->loss || n == h->hits || n == h->grad ||
           n == h->dx || n == h->dw || n == h->db;
}

// Which kind of term replaces this value; -1: none.
static int terms_of(const work *w, tt_val v)
{
    const tt_node *dw = node_at(w, w->head.dw), *db = node_at(w, w->head.db);
    if (tt_is(w->r.kept[v.id]))
        return -1;
    if (dw != NULL && dw->out[0].id == v.id)
        return DW;
    return db != NULL && db->out[0].id == v.id ? DB : -1;
}

static tt_status do_node(work *w, const tt_node *node)
{
    int n_in = 0;
    for (int i = 0; i < node->n_in; i++) {
        const int which = tt_is(node->in[i]) ? terms_of(w, node->in[i]) : -1;
        if (which < 0)
            w->r.in[n_in++] =
                tt_is(node->in[i]) ? w->r.kept[node->in[i].id] : TT_NONE;
        for (int64_t c = 0; which >= 0 && c < w->head.chunks; c++)
            w->r.in[n_in++] = term(w, c, which);
    }
    return tt__copy_node(&w->r.b, w->r.old, node, w->r.in, n_in, w->r.kept);
}

// All leaves come first: gradients of the head may read leaves that stand after it.
static tt_status rewrite(work *w)
{
    const tt_graph *old = w->r.old;
    TT_TRY(w->r.b.status);
    TT_TRY(tt__rewrite_leaves(&w->r));
    for (int32_t n = 0; n < old->n_nodes; n++) {
        if (n == w->head.loss)
            TT_TRY(do_head(w));
        else if (!is_head(&w->head, n))
            TT_TRY(do_node(w, &old->node[n]));
    }
    return tt__copy_ends(&w->r.b, old, w->r.kept);
}

static tt_status apply(const tt_graph *in, const void *params, tt_graph **out)
{
    tt__head head;
    work w = {0};
    TT_TRY(tt__head_find(in, params, &head));
    TT_TRY(tt__rewrite_begin(&w.r, in, head.chunks)); // an offer of terms
    w.head = head;
    w.terms = tt__rewrite_vals(&w.r, N_TERMS * head.chunks);
    return tt__rewrite_end(&w.r, rewrite(&w), out);
}

static const tt_opt options[] = {
    {"chunks", "2", "how many", TT_OPT_I64, offsetof(tt_chunk_params, chunks),
     NULL, 1, 1 << 20},
    {"cuts", "", "in how many blocks ranks hold the rows: batch:2 seq:4",
     TT_OPT_STR, offsetof(tt_chunk_params, cuts)},
    {0},
};

static const char *const samples[] = {"chunks=2 cuts=batch:2", "chunks=1000",
                                      NULL};

const tt_pass_def tt_pass_chunk = {
    .name = "chunk",
    .doc = "The loss in pieces, so that logits never exist whole.",
    .options = options,
    .params_bytes = sizeof(tt_chunk_params),
    .apply = apply,
    .samples = samples,
};
