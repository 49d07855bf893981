// chunk_find - where a graph computes its loss, and in how many pieces that can be
// done.

#include "ops/matmul.h"
#include "ops/nn/loss.h"
#include "ops/ops.h"
#include "pass/chunk.h"

#include <stdlib.h>
#include <string.h>

static const char no_head[] = "the loss is not that of a plain product";

static const tt_node *maker_of(const tt_graph *g, tt_val v)
{
    return g->value[v.id].node < 0 ? NULL : &g->node[g->value[v.id].node];
}

static bool is_plain_product(const tt_graph *g, const tt_node *node)
{
    const tt_matmul_params *p = node->params;
    return node->op == &tt_op_matmul && p->activation == 0 && !p->transpose_a &&
           g->value[node->in[1].id].type.shape.ndim == 2;
}

bool tt__host_reads(const tt_graph *g, tt_val v)
{
    for (int32_t o = 0; o < g->n_outputs; o++)
        if (g->output[o].val.id == v.id)
            return true;
    for (int32_t i = 0; i < v.id; i++) // a gradient comes after what it is of
        if (g->value[i].grad.id == v.id)
            return true;
    return false;
}

static bool reads(const tt_node *node, tt_val v)
{
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i].id == v.id)
            return true;
    return false;
}

// Notes the nodes that read v; false where one of them is not of a head.
typedef bool note_fn(const tt_graph *g, int32_t n, tt__head *head);

static bool note_readers(const tt_graph *g, tt_val v, note_fn *note,
                         tt__head *head)
{
    if (tt__host_reads(g, v))
        return false;
    for (int32_t n = 0; n < g->n_nodes; n++)
        if (reads(&g->node[n], v) && !note(g, n, head))
            return false;
    return true;
}

// Takes a place in the head; false: it is taken.
static bool take(int32_t n, int32_t *place)
{
    const bool is_first = *place < 0;
    *place = n;
    return is_first;
}

static bool note_logits_reader(const tt_graph *g, int32_t n, tt__head *head)
{
    enum { LABELS = 1, LSE = 2 };
    const tt_node *node = &g->node[n], *loss = &g->node[head->loss];
    if (node->n_in < 2 || node->in[0].id != loss->in[0].id ||
        node->in[LABELS].id != loss->in[LABELS].id)
        return false;
    if (node->op == &tt_op_correct)
        return take(n, &head->hits);
    if (node->op == &tt_op_cross_entropy_grad)
        return node->in[LSE].id == loss->out[2].id && take(n, &head->grad);
    return n == head->loss;
}

static bool note_lse_reader(const tt_graph *g, int32_t n, tt__head *head)
{
    (void)g;
    return n == head->grad;
}

static bool note_gradient_reader(const tt_graph *g, int32_t n, tt__head *head)
{
    const tt_node *node = &g->node[n];
    const tt_val dy = g->node[head->grad].out[0];
    if (is_plain_product(g, node))
        return node->in[0].id == dy.id && node->in[1].id != dy.id &&
               (node->n_in < 3 || !tt_is(node->in[2])) && take(n, &head->dx);
    if (node->op == &tt_op_matmul_grad_w)
        return node->in[0].id == g->node[head->product].in[0].id &&
               node->in[1].id == dy.id && take(n, &head->dw);
    return node->op == &tt_op_bias_grad && node->in[0].id == dy.id &&
           take(n, &head->db);
}

static bool find_nodes(const tt_graph *g, tt__head *head)
{
    for (int32_t n = 0; n < g->n_nodes; n++)
        if (g->node[n].op == &tt_op_cross_entropy && !take(n, &head->loss))
            return false;
    if (head->loss < 0)
        return false;
    const tt_node *loss = &g->node[head->loss];
    const tt_node *product = maker_of(g, loss->in[0]);
    if (product == NULL || !is_plain_product(g, product) ||
        product->in[0].id == product->in[1].id)
        return false;
    head->product = (int32_t)(product - g->node);
    return note_readers(g, loss->in[0], note_logits_reader, head) &&
           note_readers(g, loss->out[2], note_lse_reader, head) &&
           (head->grad < 0 || note_readers(g, g->node[head->grad].out[0],
                                           note_gradient_reader, head));
}

// Whether v is there when the loss is computed, but for members of the head.
static bool is_early(const tt_graph *g, const tt__head *head, tt_val v)
{
    return !tt_is(v) || g->value[v.id].node < head->loss;
}

// Whether the gradient of the loss can be had before the loss of all chunks is: of
// that only the shape is read.
static bool is_early_seed(const tt_graph *g, const tt__head *head, tt_val v)
{
    if (is_early(g, head, v))
        return true;
    const tt_node *node = maker_of(g, v);
    if (node == &g->node[head->loss])
        return false;
    for (int i = 0; i < node->n_in; i++) {
        const bool is_shape = i < 32 && (node->op->shape_only >> i & 1) != 0;
        if (tt_is(node->in[i]) && is_shape
                ? g->value[node->in[i].id].type.shape.ndim != 0
                : !is_early_seed(g, head, node->in[i]))
            return false;
    }
    return true;
}

// The node of the gradients reads nothing that comes late, but for what the head
// itself makes.
static bool is_ready(const tt_graph *g, const tt__head *head, int32_t n)
{
    const tt_node *node = n < 0 ? NULL : &g->node[n];
    for (int i = 0; node != NULL && i < node->n_in; i++)
        if (!is_early(g, head, node->in[i]) &&
            !(head->grad >= 0 &&
              node->in[i].id == g->node[head->grad].out[0].id))
            return false;
    return true;
}

static bool is_whole(const tt_graph *g, const tt__head *head)
{
    return is_ready(g, head, head->dx) && is_ready(g, head, head->dw) &&
           is_ready(g, head, head->db) &&
           (head->grad < 0 ||
            is_early_seed(g, head, g->node[head->grad].in[3]));
}

// ---- how many ------------------------------------------------------------

// In how many blocks ranks hold a dimension.
static int64_t blocks_of(const char *cuts, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = cuts; at != NULL && *at != '\0';) {
        if (strncmp(at, name, n) == 0 && at[n] == ':')
            return strtoll(at + n + 1, NULL, 10);
        at = strchr(at, ' ');
        at = at == NULL ? NULL : at + 1;
    }
    return 1;
}

// The number of chunks next to what is wanted, from above if there is one, in which
// `extent` entries in so many blocks can be dealt out.
static int64_t chunks_of(int64_t extent, int64_t blocks, int64_t wanted)
{
    if (blocks <= 1)
        return wanted < extent ? wanted : extent;
    if (extent % blocks != 0)
        return 1;
    const int64_t each = extent / blocks;
    int64_t best = 1;
    for (int64_t c = 2; c <= each && best < wanted; c++)
        if (each % c == 0)
            best = c;
    return best;
}

// Rows in the order of the last dimension lie best; others are looked at where it
// has too few.
static void choose_dim(const tt_graph *g, const tt_chunk_params *params,
                       tt__head *head)
{
    const tt_shape *y = &g->value[g->node[head->loss].in[0].id].type.shape;
    head->chunks = 1;
    for (int d = y->ndim - 2; d >= 0 && head->chunks < params->chunks; d--) {
        if (y->first[d + 1] - y->first[d] != 1)
            continue;
        const tt_factor *f = &y->factor[y->first[d]];
        const int64_t n = chunks_of(f->size, blocks_of(params->cuts, f->name),
                                    params->chunks);
        if (n > head->chunks) {
            head->chunks = n;
            head->dim = d;
        }
    }
}

tt_status tt__head_find(const tt_graph *g, const tt_chunk_params *params,
                        tt__head *head_out)
{
    tt__head head = {-1, -1, -1, -1, -1, -1, -1, 0, 1};
    if (g->mesh.n_axes > 0)
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "chunk: the graph is spread over ranks already");
    if (!find_nodes(g, &head) || !is_whole(g, &head))
        return tt_fail(TT_ERR_UNSUPPORTED, "chunk: %s", no_head);
    choose_dim(g, params, &head);
    *head_out = head;
    return TT_OK;
}
