// interp - see the header for the idea.
//
// The one subtle part is tt_interp_read: how the parts of ranks make a whole value
// again.
//
//   split        each element is on one rank of the axis      copy it
//   replicate    each element is on all ranks of the axis     copy one, compare others
//   partial      each rank has a term of every element        add, or take the maximum
//   at           only some ranks of the axis hold it          take theirs
//   window       neighbours overlap (halo of a convolution)   add: each holds a term

#include "interp/interp.h"

#include "backend/backend.h"
#include "base/alloc.h"
#include "base/poison.h"
#include "interp/comm_sim.h"
#include "ops/ops.h"

#include <math.h>
#include <string.h>

// Bytes after every buffer that nobody may change. Read as floats they are NaN, and so
// is every output before its kernel runs. So a read past the end shows, and so does an
// element that was never written.
enum { GUARD = 64 };

struct tt_interp {
    const tt_graph *g;
    tt_backend *ref;
    int n_ranks;
    tt_local *local; // [value * n_ranks + rank]
    void **data;     // likewise
    int64_t scratch_bytes;
    void *scratch;
    bool adds; // sums continue from the last micro-batch
};

static int64_t slot(const tt_interp *it, int rank, tt_val v)
{
    return (int64_t)v.id * it->n_ranks + rank;
}

int tt_interp_ranks(const tt_interp *it)
{
    return it->n_ranks;
}

void *tt_interp_data(tt_interp *it, int rank, tt_val v)
{
    return it->data[slot(it, rank, v)];
}

const tt_local *tt_interp_local(const tt_interp *it, int rank, tt_val v)
{
    return &it->local[slot(it, rank, v)];
}

void tt_interp_destroy(tt_interp *it)
{
    if (it == NULL)
        return;
    for (int64_t i = 0; it->data && i < (int64_t)it->g->n_values * it->n_ranks;
         i++)
        tt_free(it->data[i]);
    tt_free(it->data);
    tt_free(it->local);
    tt_free(it->scratch);
    tt_backend_close(it->ref);
    tt_free(it);
}

static bool is_absent(const tt_interp *it, int rank, tt_val v)
{
    return tt_interp_local(it, rank, v)->is_absent;
}

static int64_t count_of(const tt_interp *it, int rank, tt_val v)
{
    return is_absent(it, rank, v)
               ? 0
               : tt_shape_count(&tt_interp_local(it, rank, v)->shape);
}

static int64_t bytes_of(const tt_interp *it, int rank, tt_val v)
{
    return count_of(it, rank, v) *
           tt_dtype_bytes(it->g->value[v.id].type.dtype);
}

// Guard byte i after a buffer. The bytes differ from place to place, so that a copy of
// one guard over another is noticed too.
static unsigned char guard_of(const tt_interp *it, int rank, tt_val v,
                              int64_t i)
{
    return tt_guard_byte(slot(it, rank, v) * GUARD + bytes_of(it, rank, v) % 2 +
                         i);
}

static void poison(tt_interp *it, int rank, tt_val v)
{
    const int64_t bytes = bytes_of(it, rank, v);
    unsigned char *data = tt_interp_data(it, rank, v);
    memset(data, TT_POISON, (size_t)bytes);
    for (int64_t i = 0; i < GUARD; i++)
        data[bytes + i] = guard_of(it, rank, v, i);
}

static bool is_intact(tt_interp *it, int rank, tt_val v)
{
    const unsigned char *guard = tt_interp_data(it, rank, v);
    guard += bytes_of(it, rank, v);
    for (int64_t i = 0; i < GUARD; i++)
        if (guard[i] != guard_of(it, rank, v, i))
            return false;
    return true;
}

void tt_interp_echo(tt_interp *it, tt_val v)
{
    for (int r = 0; r < it->n_ranks; r++) {
        const int64_t bytes = bytes_of(it, r, v);
        char *data = tt_interp_data(it, r, v);
        memcpy(data + bytes, data, (size_t)(bytes < GUARD ? bytes : GUARD));
    }
}

static tt_status make_buffers(tt_interp *it)
{
    const tt_graph *g = it->g;
    const int64_t n = (int64_t)g->n_values * it->n_ranks + 1;
    it->local = tt_alloc((int64_t)sizeof *it->local * n);
    it->data = tt_alloc((int64_t)sizeof *it->data * n);
    if (it->local == NULL || it->data == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to run a graph");
    for (int32_t v = 0; v < g->n_values; v++)
        for (int r = 0; r < it->n_ranks; r++) {
            const int64_t i = slot(it, r, (tt_val){v});
            tt_local_of(&g->value[v].type, &g->mesh, r, &it->local[i]);
            it->data[i] = tt_alloc(bytes_of(it, r, (tt_val){v}) + GUARD);
            if (it->data[i] == NULL)
                return tt_fail(TT_ERR_NOMEM, "no memory to run a graph");
            poison(it, r, (tt_val){v});
        }
    return TT_OK;
}

tt_status tt_interp_create(const tt_graph *g, tt_interp **interp_out)
{
    const tt_backend_options options = {.n_threads = 1};
    tt_interp *it = tt_alloc(sizeof *it);
    if (it == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to run a graph");
    it->g = g;
    it->n_ranks = tt_mesh_ranks(&g->mesh);
    tt_status status =
        tt_backend_open(tt_backend_find("ref"), &options, &it->ref);
    if (status == TT_OK)
        status = make_buffers(it);
    if (status != TT_OK) {
        tt_interp_destroy(it);
        return status;
    }
    *interp_out = it;
    return TT_OK;
}

// The first coordinate that holds a value.
static int first_holder(const tt_place *place)
{
    int c = 0;
    while (!tt_place_holds(place, c))
        c++;
    return c;
}

// Whether this rank gets the value itself, rather than the neutral element, when a
// Partial value is written.
static bool holds_partial(const tt_interp *it, const tt_type *type, int rank)
{
    for (int a = 0; a < it->g->mesh.n_axes; a++)
        if (type->place[a].kind == TT_PARTIAL &&
            tt_mesh_coord(&it->g->mesh, rank, a) !=
                first_holder(&type->place[a]))
            return false;
    return true;
}

// What a rank holds that adds nothing to a reduction.
static double neutral(const tt_mesh *mesh, const tt_type *type)
{
    for (int a = 0; a < mesh->n_axes; a++)
        if (type->place[a].kind == TT_PARTIAL &&
            type->place[a].reduce == TT_MAX)
            return (double)-INFINITY;
    return 0;
}

void tt_interp_write(tt_interp *it, tt_val v, const double *whole)
{
    const tt_type *type = &it->g->value[v.id].type;
    for (int r = 0; r < it->n_ranks; r++) {
        const tt_local *local = tt_interp_local(it, r, v);
        const bool holds = holds_partial(it, type, r);
        const int64_t n = count_of(it, r, v);
        for (int64_t i = 0; i < n; i++)
            tt_dtype_store(type->dtype, tt_interp_data(it, r, v), i,
                           holds ? whole[tt_local_to_global(local, i)]
                                 : neutral(&it->g->mesh, type));
    }
}

// How overlapping parts are joined; -1: parts do not overlap. Windows of neighbours do
// overlap, and what a kernel computes on a window is a term of a sum.
static int partial_kind(const tt_mesh *mesh, const tt_type *type)
{
    for (int a = 0; a < mesh->n_axes; a++) {
        const tt_place *place = &type->place[a];
        if (place->kind == TT_PARTIAL)
            return (int)place->reduce;
        if (place->kind == TT_SPLIT && place->window.out != 0)
            return TT_SUM;
    }
    return -1;
}

// Of several replicas, the first on every replicated axis is read.
// The others must agree with it, bit for bit.
static bool speaks(const tt_interp *it, const tt_type *type, int rank)
{
    for (int a = 0; a < it->g->mesh.n_axes; a++)
        if (type->place[a].kind == TT_REPLICATE &&
            tt_mesh_coord(&it->g->mesh, rank, a) !=
                first_holder(&type->place[a]))
            return false;
    return true;
}

static int speaker_of(const tt_interp *it, const tt_type *type, int rank)
{
    for (int a = 0; a < it->g->mesh.n_axes; a++)
        if (type->place[a].kind == TT_REPLICATE)
            rank = tt_mesh_rank_at(&it->g->mesh, rank, a,
                                   first_holder(&type->place[a]));
    return rank;
}

bool tt_interp_read(tt_interp *it, tt_val v, double *whole)
{
    const tt_type *type = &it->g->value[v.id].type;
    const int kind = partial_kind(&it->g->mesh, type);
    const int64_t count = tt_shape_count(&type->shape);
    bool agree = true;
    for (int64_t i = 0; i < count; i++)
        whole[i] = kind < 0 ? (double)NAN : neutral(&it->g->mesh, type);
    for (int r = 0; r < it->n_ranks; r++) {
        const tt_local *local = tt_interp_local(it, r, v);
        const int64_t n = count_of(it, r, v);
        const void *data = tt_interp_data(it, r, v);
        if (!speaks(it, type, r)) {
            const void *other = tt_interp_data(it, speaker_of(it, type, r), v);
            agree &= memcmp(data, other,
                            (size_t)(n * tt_dtype_bytes(type->dtype))) == 0;
            continue;
        }
        for (int64_t i = 0; i < n; i++) {
            double *to = &whole[tt_local_to_global(local, i)];
            const double x = tt_dtype_load(type->dtype, data, i);
            *to = kind < 0 ? x : kind == TT_SUM ? *to + x : x > *to ? x : *to;
        }
    }
    return agree;
}

static tt_status need_scratch(tt_interp *it, int64_t bytes)
{
    if (bytes <= it->scratch_bytes)
        return TT_OK;
    tt_free(it->scratch);
    it->scratch = tt_alloc(bytes + 64);
    it->scratch_bytes = it->scratch == NULL ? 0 : bytes;
    if (it->scratch != NULL)
        memset(it->scratch, TT_POISON, (size_t)bytes + 64);
    return it->scratch == NULL ? tt_fail(TT_ERR_NOMEM, "no memory for scratch")
                               : TT_OK;
}

static void fill_operand(tt_interp *it, int rank, tt_val v, tt_operand *o)
{
    *o = (tt_operand){.dtype = TT_N_DTYPES};
    if (!tt_is(v))
        return;
    o->dtype = it->g->value[v.id].type.dtype;
    o->local = *tt_interp_local(it, rank, v);
    tt_operand_set_dense(o);
}

// Chooses, prepares, runs and frees a kernel for one node on one rank: slow, but
// nothing is left over from the node before.
static tt_status run_kernel(tt_interp *it, const tt_site *site,
                            const tt_args *args)
{
    tt_choice choice;
    tt_site chosen = *site;
    TT_TRY(it->ref->target.choose(&it->ref->target, &chosen, &choice));
    tt_status status = need_scratch(it, choice.scratch_bytes);
    if (status == TT_OK) {
        tt_args with = *args;
        with.scratch = (void *)(((uintptr_t)it->scratch + 63) & ~(uintptr_t)63);
        status = tt_kernel_run(choice.kernel, &with);
    }
    tt_kernel_free(choice.kernel);
    return status;
}

// Whether a node adds to the sum of earlier micro-batches.
static bool goes_on(const tt_interp *it, const tt_node *node)
{
    return it->adds && (node->op->flags & TT_OP_ACCUMULATE) != 0;
}

static tt_status run_local(tt_interp *it, const tt_node *node, int rank)
{
    tt_operand *operand =
        tt_alloc((int64_t)sizeof *operand * (node->n_in + node->n_out));
    const void **in = tt_alloc((int64_t)sizeof *in * node->n_in);
    void *out[TT_MAX_OUT] = {0};
    tt_status status = TT_OK;
    if (operand == NULL || in == NULL) {
        status = tt_fail(TT_ERR_NOMEM, "no memory for %s", node->op->name);
        goto out;
    }
    int n_in = 0;
    for (int i = 0; i < node->n_in; i++) {
        const bool is_here =
            tt_is(node->in[i]) && !is_absent(it, rank, node->in[i]);
        if (!is_here && (node->op->flags & TT_OP_SUMS) != 0)
            continue; // a zero
        fill_operand(it, rank, node->in[i], &operand[n_in]);
        in[n_in++] = is_here ? tt_interp_data(it, rank, node->in[i]) : NULL;
    }
    for (int i = 0; i < node->n_out; i++) {
        fill_operand(it, rank, node->out[i], &operand[n_in + i]);
        out[i] = tt_interp_data(it, rank, node->out[i]);
    }
    const tt_site site = {.op = node->op,
                          .params = node->params,
                          .origin = node->origin,
                          .n_in = n_in,
                          .n_out = node->n_out,
                          .in = operand,
                          .out = operand + n_in};
    const tt_args args = {
        .in = in, .out = out, .accumulate = goes_on(it, node)};
    status = run_kernel(it, &site, &args);
out:
    tt_free(in);
    tt_free(operand);
    return status;
}

static tt_status run_collective(tt_interp *it, const tt_node *node)
{
    const void **in = tt_alloc((int64_t)sizeof *in * it->n_ranks);
    void **out = tt_alloc((int64_t)sizeof *out * it->n_ranks);
    tt_status status = TT_OK;
    if (in == NULL || out == NULL) {
        status = tt_fail(TT_ERR_NOMEM, "no memory for %s", node->op->name);
        goto out;
    }
    for (int r = 0; r < it->n_ranks; r++) {
        in[r] = tt_interp_data(it, r, node->in[0]);
        out[r] = tt_interp_data(it, r, node->out[0]);
    }
    const tt_comm_site call = {.op = node->op,
                               .params = node->params,
                               .mesh = &it->g->mesh,
                               .in_type = &it->g->value[node->in[0].id].type,
                               .out_type = &it->g->value[node->out[0].id].type};
    status = tt_comm_simulate(&call, in, out);
out:
    tt_free(in);
    tt_free(out);
    return status;
}

static tt_status check_guards(tt_interp *it, const tt_node *node)
{
    for (int i = 0; i < node->n_out; i++)
        for (int r = 0; r < it->n_ranks; r++)
            if (!is_intact(it, r, node->out[i]))
                return tt_fail(TT_ERR_STATE, "writes beyond output %d", i);
    return TT_OK;
}

// Outputs are poisoned first, except a sum that continues.
static tt_status run_node(tt_interp *it, const tt_node *node)
{
    tt_status status = TT_OK;
    for (int i = 0; i < node->n_out && !goes_on(it, node); i++)
        for (int r = 0; r < it->n_ranks; r++)
            poison(it, r, node->out[i]);
    if ((node->op->flags & TT_OP_COLLECTIVE) != 0)
        status = run_collective(it, node);
    else
        for (int r = 0; r < it->n_ranks && status == TT_OK; r++)
            if (!is_absent(it, r, node->out[0]))
                status = run_local(it, node, r);
    if (status == TT_OK)
        status = check_guards(it, node);
    return status == TT_OK ? TT_OK
                           : tt_fail_context(status, "%s (%s)", node->origin,
                                             node->op->name);
}

tt_status tt_interp_run(tt_interp *it)
{
    it->adds = false;
    for (int32_t n = 0; n < it->g->n_nodes; n++)
        TT_TRY(run_node(it, &it->g->node[n]));
    return TT_OK;
}

// Runs the update, or everything else, and then replaces states. States are replaced
// only after all nodes have run, so a node that still reads the old version gets it.
static tt_status run_part(tt_interp *it, bool is_update)
{
    const tt_graph *g = it->g;
    for (int32_t n = 0; n < g->n_nodes; n++)
        if ((g->node[n].phase == TT_UPDATE) == is_update)
            TT_TRY(run_node(it, &g->node[n]));
    for (int32_t v = 0; v < g->n_values; v++) {
        const tt_val state = g->value[v].updates;
        if (!tt_is(state) ||
            (g->node[g->value[v].node].phase == TT_UPDATE) != is_update)
            continue;
        for (int r = 0; r < it->n_ranks; r++)
            memcpy(tt_interp_data(it, r, state),
                   tt_interp_data(it, r, (tt_val){v}),
                   (size_t)bytes_of(it, r, state));
    }
    return TT_OK;
}

tt_status tt_interp_step(tt_interp *it, int n_micro, tt_interp_feed_fn *feed,
                         void *user)
{
    for (int micro = 0; micro < n_micro; micro++) {
        it->adds = micro > 0;
        TT_TRY(feed(user, it, micro));
        TT_TRY(run_part(it, false));
    }
    it->adds = false;
    return run_part(it, true);
}
