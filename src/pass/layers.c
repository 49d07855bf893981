// layers - see the header for what a chunk is.
//
// The problem. Chunks should take equally long, since the slowest sets the pace; and what
// crosses from one to the next should be small. Models are not told about stages, so the
// places to cut must be found in the graph.
//
// The idea. Between two neighbouring forward nodes some values cross: made before, read
// after. Weights do not count (each reader has its own), nor do inputs. A cut may be
//
//   where one value crosses       the residual stream between blocks, or within a block
//   where the origin changes      h.3 | h.4, if more than one value crosses there
//
//   nodes   embed  norm attn add  norm mlp add  norm head loss
//   cross        1    2   2   1     2   2   1     1    2
//   cut          |            |             |     |
//
// Of all ways to take n - 1 of these places the best has the smallest slowest chunk: its
// nodes' seconds, and those of its boundaries. Found by dynamic programming:
//
//   best(k, j) = min over i of max(best(k - 1, i), seconds(i, j))     of j places, k chunks
//
//   cost    places^2 x chunks; a GPT-2 of 48 blocks in 16 chunks: a few ms

#include "pass/layers.h"

#include "base/alloc.h"
#include "ops/ops.h"
#include "pass/partition/layout.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LAYER_BYTES = 128 }; // of a name in pipe.cut

// What a core or a GPU does per second, in the ratio that both have more or less: 10
// operations per byte of memory, and a wire at a fifth of the memory's rate.
static const double flops_rate = 1e11, memory_rate = 1e10, wire_rate = 2e9;

double tt_layers_seconds(const tt_graph *g, const tt_node *node)
{
    tt_type out[TT_MAX_OUT];
    tt_op_io io;
    tt_cost cost = {0};
    tt_type *in = tt_alloc((int64_t)sizeof *in * node->n_in);
    if (in == NULL)
        return 0;
    tt_node_io(g, node, in, out, &io);
    node->op->cost(&io, 1, &cost);
    tt_free(in);
    return cost.flops / flops_rate + cost.bytes / memory_rate;
}

typedef struct chain {
    tt_graph *g;
    int32_t n;         // nodes
    double *seconds;   // [n + 1]: of the nodes before
    double *crossing;  // [n + 1]: bytes that cross before node i
    int32_t *n_across; // [n + 1]: values of layers that cross
    int32_t *place;    // [n_places]: nodes before which a cut may be
    int32_t n_places;
} chain;

// ---- what crosses --------------------------------------------------------

static bool is_weight(const tt_value *value)
{
    return value->role != TT_ROLE_NODE && value->role != TT_ROLE_INPUT;
}

// Values of leaves alone: weights, scalars, positions. Each reader makes them itself.
static void mark_free(const chain *c, bool *is_free)
{
    for (int32_t v = 0; v < c->g->n_values; v++) {
        const tt_value *value = &c->g->value[v];
        is_free[v] = value->node < 0;
        if (value->node < 0)
            continue;
        const tt_node *node = &c->g->node[value->node];
        bool is_made = true;
        for (int i = 0; i < node->n_in && is_made; i++)
            is_made = !tt_is(node->in[i]) ||
                      (is_free[node->in[i].id] &&
                       (c->g->value[node->in[i].id].node >= 0 ||
                        is_weight(&c->g->value[node->in[i].id])));
        is_free[v] = is_made;
    }
}

// Values made with a weight. Others, like labels in another order, are no layer's: they
// cross and count as bytes, but a place may be between layers all the same.
static void mark_made(const chain *c, bool *is_made)
{
    for (int32_t v = 0; v < c->g->n_values; v++) {
        const tt_value *value = &c->g->value[v];
        is_made[v] = value->node < 0 && is_weight(value);
        if (value->node < 0)
            continue;
        const tt_node *node = &c->g->node[value->node];
        for (int i = 0; i < node->n_in; i++)
            is_made[v] |= tt_is(node->in[i]) && is_made[node->in[i].id];
    }
}

static double bytes_of(const tt_value *value)
{
    return (double)(tt_shape_count(&value->type.shape) *
                    tt_dtype_bytes(value->type.dtype));
}

// A value crosses every place between its producer and its last reader.
static tt_status find_crossings(chain *c)
{
    const int32_t values = c->g->n_values;
    bool *is_free = tt_alloc(values), *is_made = tt_alloc(values);
    int32_t *last = tt_alloc((int64_t)sizeof *last * values);
    tt_status status = TT_OK;
    if (is_free == NULL || is_made == NULL || last == NULL) {
        status = tt_fail(TT_ERR_NOMEM, "no memory to cut a model");
        goto out;
    }
    mark_free(c, is_free);
    mark_made(c, is_made);
    for (int32_t n = 0; n < c->n; n++)
        for (int i = 0; i < c->g->node[n].n_in; i++)
            if (tt_is(c->g->node[n].in[i]))
                last[c->g->node[n].in[i].id] = n;
    for (int32_t v = 0; v < values; v++) {
        const tt_value *value = &c->g->value[v];
        for (int32_t n = value->node + 1;
             value->node >= 0 && !is_free[v] && n <= last[v]; n++) {
            c->crossing[n] += bytes_of(value);
            c->n_across[n] += is_made[v];
        }
    }
out:
    tt_free(last);
    tt_free(is_made);
    tt_free(is_free);
    return status;
}

static void find_places(chain *c)
{
    for (int32_t n = 1; n < c->n; n++) {
        const char *before = c->g->node[n - 1].origin;
        const bool is_other = strcmp(before, c->g->node[n].origin) != 0;
        if (c->n_across[n] == 1 || (is_other && c->n_across[n] > 0))
            c->place[c->n_places++] = n;
    }
}

// ---- the most even cut ---------------------------------------------------

// Of the nodes from place i to place j, with what comes in and goes out; backward takes
// twice as long as forward, and sends as much.
static double chunk_seconds(const chain *c, int32_t from, int32_t to)
{
    return 3 * (c->seconds[to] - c->seconds[from]) +
           2 * (c->crossing[from] + c->crossing[to]) / wire_rate;
}

static int32_t edge(const chain *c, int32_t i) // 0, the places, the end
{
    return i == 0 ? 0 : i > c->n_places ? c->n : c->place[i - 1];
}

static tt_status cut_evenly(const chain *c, int32_t n_chunks, int32_t *start)
{
    const int32_t n = c->n_places + 2; // edges
    double *best = tt_alloc((int64_t)sizeof *best * n_chunks * n);
    int32_t *from = tt_alloc((int64_t)sizeof *from * n_chunks * n);
    if (best == NULL || from == NULL) {
        tt_free(best);
        tt_free(from);
        return tt_fail(TT_ERR_NOMEM, "no memory to cut a model");
    }
    for (int32_t k = 0; k < n_chunks; k++)
        for (int32_t j = 0; j < n; j++) {
            double *b = &best[k * n + j];
            *b = k == 0 && j > 0 ? chunk_seconds(c, 0, edge(c, j))
                                 : (double)INFINITY;
            for (int32_t i = k; k > 0 && i < j; i++) {
                const double s = fmax(best[(k - 1) * n + i],
                                      chunk_seconds(c, edge(c, i), edge(c, j)));
                if (s < *b) {
                    *b = s;
                    from[k * n + j] = i;
                }
            }
        }
    int32_t j = n - 1;
    for (int32_t k = n_chunks - 1; k > 0; k--) {
        j = from[k * n + j];
        start[k] = edge(c, j);
    }
    tt_free(from);
    tt_free(best);
    return TT_OK;
}

// ---- a cut by names ------------------------------------------------------

// Whether a node belongs to a layer: by its origin, or by a weight that it reads. Names
// are those of layout.LAYERS.DIM: from any dot on, and with patterns.
static bool is_of(const tt_graph *g, const tt_node *node, const char *layer)
{
    if (tt_layout_is_for(layer, node->origin))
        return true;
    for (int i = 0; i < node->n_in; i++)
        if (tt_is(node->in[i]) && is_weight(&g->value[node->in[i].id]) &&
            tt_layout_is_for(layer, g->value[node->in[i].id].name))
            return true;
    return false;
}

static bool begins(const tt_graph *g, int32_t n, const char *layer)
{
    return is_of(g, &g->node[n], layer) &&
           (n == 0 || !is_of(g, &g->node[n - 1], layer));
}

// The first node from `from` on that a name says; c->n: none. "h.3+4" is four nodes after
// one with which h.3 begins.
static int32_t find_named(const chain *c, int32_t from, const char *name)
{
    char layer[LAYER_BYTES];
    const char *plus = strchr(name, '+');
    int64_t later = 0;
    for (const char *p = plus == NULL ? "" : plus + 1; *p != '\0'; p++) {
        if (*p < '0' || *p > '9' || later > c->n)
            return c->n;
        later = 10 * later + (*p - '0');
    }
    const size_t length = plus != NULL ? (size_t)(plus - name) : strlen(name);
    if (length >= sizeof layer)
        return c->n; // no layer has so long a name
    (void)snprintf(layer, sizeof layer, "%.*s", (int)length, name);
    for (int32_t n = 0; n + later < c->n; n++)
        if (n + later >= from && begins(c->g, n, layer))
            return n + (int32_t)later;
    return c->n;
}

// The next name of a list; returns what comes after it.
static const char *next_name(const char *p, char name[LAYER_BYTES])
{
    static const char blanks[] = " ,";
    p += strspn(p, blanks);
    const size_t n = strcspn(p, blanks);
    (void)snprintf(name, LAYER_BYTES, "%.*s", (int)n, p);
    return p + n;
}

static tt_status cut_by_names(const chain *c, const tt_layers_cut *cut,
                              int32_t *start)
{
    char name[LAYER_BYTES];
    int32_t k = 1, n = 1;
    const char *p = next_name(cut->names, name);
    for (; name[0] != '\0'; k++, n++) {
        n = find_named(c, n, name);
        if (n >= c->n)
            return tt_fail(TT_ERR_ARG,
                           "pipe.cut: \"%s\" is not the name of a layer after "
                           "the one before it; `tutti plan` with pipe.cut=auto "
                           "shows names, and with --placements all layers' "
                           "weights",
                           name);
        if (k < cut->n_chunks)
            start[k] = n;
        p = next_name(p, name);
    }
    if (k != cut->n_chunks)
        return tt_fail(TT_ERR_ARG,
                       "pipe.cut names %d layers, which makes %d chunks; "
                       "mesh.pipe x pipe.chunks is %d",
                       k - 1, k, cut->n_chunks);
    return TT_OK;
}

// ---- what was chosen -----------------------------------------------------

// The shortest beginning of a node's name, up to a dot, that says `start` as a node so
// much later; false: none does.
static bool make_name(const chain *c, const char *name, int32_t later,
                      const int32_t *start, char out[LAYER_BYTES])
{
    size_t n = 0;
    do {
        n += strcspn(name + n, ".");
        char plus[16] = "";
        if (later > 0)
            (void)snprintf(plus, sizeof plus, "+%d", later);
        const int made =
            snprintf(out, LAYER_BYTES, "%.*s%s", (int)n, name, plus);
        if (n > 0 && made < LAYER_BYTES &&
            find_named(c, start[-1] + 1, out) == start[0])
            return true;
    } while (name[n++] != '\0');
    return false;
}

// Names come from the nearest node that has one: the first of the chunk, or one before.
static bool name_start(const chain *c, const int32_t *start,
                       char out[LAYER_BYTES])
{
    for (int32_t n = start[0]; n >= 0; n--) {
        const tt_node *node = &c->g->node[n];
        if (make_name(c, node->origin, start[0] - n, start, out))
            return true;
        for (int i = 0; i < node->n_in; i++)
            if (tt_is(node->in[i]) && is_weight(&c->g->value[node->in[i].id]) &&
                make_name(c, c->g->value[node->in[i].id].name, start[0] - n,
                          start, out))
                return true;
    }
    return false;
}

static tt_status tell(const chain *c, const tt_layers_cut *cut,
                      const int32_t *start)
{
    char name[LAYER_BYTES];
    if (cut->chunk == NULL)
        return TT_OK;
    cut->chunk[0] = (tt_layers_chunk){.name = ""};
    for (int32_t k = 1; k < cut->n_chunks; k++) {
        const bool has = name_start(c, &start[k], name);
        const char *copy = tt_arena_strdup(cut->arena, has ? name : "?");
        if (copy == NULL)
            return tt_fail(TT_ERR_NOMEM, "no memory to cut a model");
        cut->chunk[k] = (tt_layers_chunk){copy, (int64_t)c->crossing[start[k]]};
    }
    return TT_OK;
}

// ---- all of it -----------------------------------------------------------

static tt_status choose(chain *c, const tt_layers_cut *cut, int32_t *start)
{
    for (int32_t n = 0; n < c->n; n++)
        c->seconds[n + 1] =
            c->seconds[n] + tt_layers_seconds(c->g, &c->g->node[n]);
    TT_TRY(find_crossings(c));
    if (cut->names != NULL)
        return cut_by_names(c, cut, start);
    find_places(c);
    if (c->n_places < cut->n_chunks - 1)
        return tt_fail(TT_ERR_ARG,
                       "the model can be cut into %d chunks at most, not into "
                       "%d; take fewer stages (mesh.pipe, pipe.chunks) or more "
                       "layers",
                       c->n_places + 1, cut->n_chunks);
    return cut_evenly(c, cut->n_chunks, start);
}

tt_status tt_layers_assign(tt_builder *b, const tt_layers_cut *cut)
{
    if (cut->n_chunks <= 1 || b->status != TT_OK)
        return b->status;
    const int32_t n = b->graph->n_nodes;
    chain c = {.g = b->graph,
               .n = n,
               .seconds = tt_alloc((int64_t)sizeof(double) * (n + 1)),
               .crossing = tt_alloc((int64_t)sizeof(double) * (n + 1)),
               .n_across = tt_alloc((int64_t)sizeof(int32_t) * (n + 1)),
               .place = tt_alloc((int64_t)sizeof(int32_t) * (n + 1))};
    int32_t *start = tt_alloc((int64_t)sizeof(int32_t) * cut->n_chunks);
    tt_status status = c.seconds && c.crossing && c.n_across && c.place && start
                           ? choose(&c, cut, start)
                           : tt_fail(TT_ERR_NOMEM, "no memory to cut a model");
    if (status == TT_OK)
        status = tell(&c, cut, start);
    for (int32_t i = 0, k = 0; i < n && status == TT_OK; i++) {
        while (k + 1 < cut->n_chunks && i >= start[k + 1])
            k++;
        b->graph->node[i].stage = k;
    }
    b->stage = cut->n_chunks - 1;
    tt_free(start);
    tt_free(c.place);
    tt_free(c.n_across);
    tt_free(c.crossing);
    tt_free(c.seconds);
    return status;
}
