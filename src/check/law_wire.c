// law_wire - every communication operator over a transport does what comm_sim says.
//
// comm_sim.h is the definition; the wire is the real thing: packing of strided parts,
// the chosen algorithm, messages, and links between devices. The law tries every
// placement that an operator takes, on two and three ranks and on groups within a mesh
// of two axes. The table in check_sample has meshes and types; the algorithms are all
// that are registered, and each row has at least one.
//
// Ranks are threads. If they share one device, data go through the host's memory; if
// each has one of its own, through links between devices.
//
// Values are small whole numbers. Every type holds and sums them exactly, so results
// must be equal in every bit.

#include "base/alloc.h"
#include "check/law.h"
#include "check/rank_threads.h"
#include "comm/coll/coll.h"
#include "exec/wire/wire.h"
#include "interp/comm_sim.h"
#include "ops/comm/comm.h"
#include "ops/ops.h"

#include <stdio.h>
#include <string.h>

// One case: an operator, its placements and mesh, and the data of all ranks.
typedef struct subject {
    tt_law_report *r;
    const tt_op_def *op;
    const tt_sample *sample;
    tt_mesh mesh;
    int axis;
    tt_dtype dtype;
    tt_place from, to;  // `to` only where the operator takes one
    int by;             // of a shift
    const char *only;   // of a shift: who gets something
    int source, target; // of a move
    bool is_everywhere; // all_reduce: from some coordinates to all
    const char *collective;
    const tt_backend_def *device;
    bool is_linked;
    tt_graph *graph;
    tt_val x, y;
    int n_ranks;
    void *in[TT_RANK_THREADS_MOST], *want[TT_RANK_THREADS_MOST],
        *got[TT_RANK_THREADS_MOST];
    int64_t in_bytes[TT_RANK_THREADS_MOST], out_bytes[TT_RANK_THREADS_MOST];
} subject;

// ---- the graph -------------------------------------------------------------

// Calls the operator. A new communication operator must be added here: until then the
// law fails, so it cannot be forgotten.
static tt_val emit(tt_builder *b, const subject *s, tt_val x)
{
    const int axis = s->axis;
    const char *to = s->to.kind == TT_SPLIT
                         ? tt_type_of(b, x)->shape.factor[s->to.factor].name
                         : NULL;
    if (s->to.zigzag)
        return tt_place_convert(b, x, axis, s->to);
    if (s->is_everywhere)
        return tt_all_reduce_everywhere(b, x, axis);
    if (s->op == &tt_op_all_reduce)
        return tt_all_reduce(b, x, axis, s->from.reduce);
    if (s->op == &tt_op_reduce_scatter)
        return tt_reduce_scatter(b, x, axis, to);
    if (s->op == &tt_op_all_gather)
        return tt_all_gather(b, x, axis);
    if (s->op == &tt_op_all_to_all)
        return tt_all_to_all(b, x, axis, to);
    if (s->op == &tt_op_shift)
        return tt_shift_only(b, x, axis, s->by, s->only);
    if (s->op == &tt_op_halo)
        return tt_halo(b, x, axis, &s->to.window);
    if (s->op == &tt_op_halo_add)
        return tt_halo_add(b, x, axis);
    if (s->op == &tt_op_take)
        return tt_take(b, x, axis, to);
    if (s->op == &tt_op_keep_first)
        return tt_keep_first(b, x, axis);
    if (s->op == &tt_op_move)
        return tt_move_value(b, x, axis, s->source, s->target);
    return tt_builder_fail(
        b, tt_fail(TT_ERR_ARG, "%s is new to this law", s->op->name));
}

static const char *shape_of(const tt_sample *sample)
{
    const char *blank = strchr(sample->in[0], ' ');
    return blank == NULL ? "" : blank + 1;
}

// The placement on the other axis of a mesh of two: the last factor is split where
// that is possible, so that parts are not contiguous.
static tt_place other_place(const subject *s, const tt_type *type)
{
    const int last = type->shape.n_factors - 1;
    const bool is_free = (s->from.kind != TT_SPLIT || s->from.factor != last) &&
                         (s->to.kind != TT_SPLIT || s->to.factor != last);
    const int size = s->mesh.axis[1 - s->axis].size;
    return is_free && tt_can_split(type, last, size) ? tt_place_split(last)
                                                     : tt_place_replicate();
}

static tt_status build(subject *s)
{
    static const tt_grad_ops none = {0};
    tt_builder b;
    TT_TRY(tt_builder_init(&b, &none));
    b.graph->mesh = s->mesh;
    s->x = tt_input(&b, "x", s->dtype, shape_of(s->sample));
    if (b.status == TT_OK) {
        tt_place_set(&b, s->x, s->axis, s->from);
        if (s->mesh.n_axes == 2)
            tt_place_set(&b, s->x, 1 - s->axis,
                         other_place(s, tt_type_of(&b, s->x)));
        s->y = emit(&b, s, s->x);
        tt_output(&b, "y", s->y);
    }
    const tt_status status = tt_builder_take(&b, &s->graph);
    tt_builder_fini(&b);
    return status;
}

// ---- the data --------------------------------------------------------------

static void fill(const subject *s, int rank, void *data)
{
    const tt_type *type = &s->graph->value[s->x.id].type;
    const bool is_term = type->place[s->axis].kind == TT_PARTIAL ||
                         s->op == &tt_op_halo_add || s->op == &tt_op_move;
    tt_local local;
    tt_local_of(type, &s->mesh, rank, &local);
    const int64_t n = tt_shape_count(&local.shape);
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = tt_local_to_global(&local, i);
        const int64_t own = is_term ? rank * INT64_C(5) : 0;
        tt_dtype_store(s->dtype, data, i, (double)((at * 7 + own) % 13));
    }
}

static bool is_absent(const subject *s, tt_val v, int rank)
{
    tt_local local;
    tt_local_of(&s->graph->value[v.id].type, &s->mesh, rank, &local);
    return local.is_absent;
}

static int64_t local_bytes(const subject *s, tt_val v, int rank)
{
    tt_local local;
    tt_local_of(&s->graph->value[v.id].type, &s->mesh, rank, &local);
    return tt_shape_count(&local.shape) * tt_dtype_bytes(s->dtype);
}

static tt_status make_data(subject *s)
{
    const tt_comm_site site = {.op = s->op,
                               .params =
                                   s->graph->node[s->graph->n_nodes - 1].params,
                               .mesh = &s->mesh,
                               .in_type = &s->graph->value[s->x.id].type,
                               .out_type = &s->graph->value[s->y.id].type};
    for (int r = 0; r < s->n_ranks; r++) {
        s->in_bytes[r] = local_bytes(s, s->x, r);
        s->out_bytes[r] = local_bytes(s, s->y, r);
        s->in[r] = tt_alloc(s->in_bytes[r]);
        s->want[r] = tt_alloc(s->out_bytes[r]);
        s->got[r] = tt_alloc(s->out_bytes[r]);
        if (s->in[r] == NULL || s->want[r] == NULL || s->got[r] == NULL)
            return tt_fail(TT_ERR_NOMEM, "no memory for a law");
        fill(s, r, s->in[r]);
    }
    return tt_comm_simulate(&site, (const void *const *)s->in, s->want);
}

// ---- one rank --------------------------------------------------------------

static tt_status run_plan(const subject *s, int rank, const tt_wire *wire)
{
    const tt_backend_options options = {
        .n_threads = 1, .number = -1, .local = rank};
    const tt_lower_options lower = {.rank = rank};
    tt_backend *backend = NULL;
    tt_plan *plan = NULL;
    tt_exec *exec = NULL;
    TT_TRY(tt_backend_open(s->device, &options, &backend));
    tt_status status = tt_plan_lower(s->graph, &backend->target, &lower, &plan);
    if (status == TT_OK)
        status = tt_plan_verify(plan);
    if (status == TT_OK)
        status = tt_exec_create(
            plan, backend, &(tt_exec_options){.poison = true, .wire = wire},
            &exec);
    // The first run is on zeros, so that a result which arrives too late is seen.
    void *zeros = tt_alloc(s->in_bytes[rank] + 1);
    if (zeros == NULL && status == TT_OK)
        status = tt_fail(TT_ERR_NOMEM, "no memory for a law");
    for (int i = 0; i < 2 && status == TT_OK; i++) {
        if (!is_absent(s, s->x, rank))
            status = tt_exec_write(exec, s->x, i == 0 ? zeros : s->in[rank]);
        if (status == TT_OK)
            status = tt_exec_run(exec, NULL, NULL);
    }
    if (status == TT_OK && !is_absent(s, s->y, rank))
        status = tt_exec_read(exec, s->y, s->got[rank]);
    tt_free(zeros);
    tt_exec_destroy(exec);
    tt_plan_destroy(plan);
    tt_backend_close(backend);
    return status;
}

static tt_status run_rank(tt_comm *comm, void *user)
{
    const subject *s = user;
    const tt_wire_options options = {.collective = s->collective};
    tt_comm_wire *wire = NULL;
    TT_TRY(tt_comm_wire_open(comm, &options, &wire));
    tt_comm_wire_by_devices(wire, s->is_linked);
    const tt_status status = run_plan(s, comm->rank, tt_comm_wire_of(wire));
    tt_comm_wire_close(wire);
    return status;
}

// ---- one case --------------------------------------------------------------

static void describe(const subject *s, tt_str *out)
{
    tt_shape shape = {0};
    (void)tt_shape_parse(shape_of(s->sample), &shape);
    tt_str_addf(out, "wire %s of %s: %s, ", s->op->name,
                tt_dtype_name(s->dtype), shape_of(s->sample));
    if (s->device->memory != NULL)
        tt_str_addf(out, "%s%s, ", s->device->name,
                    s->is_linked ? " with links" : "");
    tt_place_print(&s->from, &shape, out);
    tt_str_add(out, " to ");
    tt_place_print(&s->to, &shape, out);
    tt_str_addf(out, ", axis %d of", s->axis);
    for (int a = 0; a < s->mesh.n_axes; a++)
        tt_str_addf(out, " %d", s->mesh.axis[a].size);
}

static tt_status run_case(subject *s)
{
    TT_TRY(build(s));
    TT_TRY(make_data(s));
    // In cases on axis 0 ranks share memory, in those on axis 1 they do not, so both
    // ways of sending are tested.
    TT_TRY(tt_rank_threads_run(s->n_ranks, s->axis == 0 ? 1 << 20 : 0, run_rank,
                               s));
    for (int r = 0; r < s->n_ranks; r++)
        if (!is_absent(s, s->y, r) &&
            memcmp(s->want[r], s->got[r], (size_t)s->out_bytes[r]) != 0)
            return tt_fail(TT_ERR_STATE, "rank %d has another result", r);
    return TT_OK;
}

static void check_case(const subject *like)
{
    subject s = *like;
    tt_str what = {0};
    s.n_ranks = tt_mesh_ranks(&s.mesh);
    s.is_linked = tt_rank_threads_have_devices(s.device, s.n_ranks);
    const tt_status status = run_case(&s);
    describe(&s, &what);
    tt_law_report_check(s.r, status == TT_OK, "%s: %s", tt_str_text(&what),
                        tt_error_message());
    for (int r = 0; r < s.n_ranks; r++) {
        tt_free(s.in[r]);
        tt_free(s.want[r]);
        tt_free(s.got[r]);
    }
    tt_graph_destroy(s.graph);
    tt_str_fini(&what);
}

// ---- every placement -------------------------------------------------------

static bool is_one_of(const tt_op_def *op, const tt_op_def *a,
                      const tt_op_def *b, const tt_op_def *c)
{
    return op == a || op == b || op == c;
}

// Halos of two convolutions: one that keeps the extent, one with a stride and no
// padding.
static void check_windows(subject *s, const tt_type *type, int f)
{
    static const tt_window windows[] = {{.kernel = 3, .stride = 1, .pad = 1},
                                        {.kernel = 5, .stride = 2, .pad = 0}};
    for (int i = 0; i < 2; i++) {
        tt_window w = windows[i];
        const int64_t n = type->shape.factor[f].size;
        w.dilation = 1;
        w.out = (n + INT64_C(2) * w.pad - w.kernel) / w.stride + 1;
        if (w.out < s->mesh.axis[s->axis].size)
            continue;
        const tt_place plain = tt_place_split(f);
        tt_place wide = plain;
        wide.window = w;
        s->from = s->op == &tt_op_halo ? plain : wide;
        s->to = s->op == &tt_op_halo ? wide : plain;
        check_case(s);
    }
}

// A split target, in plain and in zigzag order.
static void check_both(subject *s)
{
    check_case(s);
    s->to.zigzag = true;
    check_case(s);
    s->to.zigzag = false;
}

// To all, and to every other rank only, where blocks are of one size.
static void check_shift(subject *s, const tt_type *type)
{
    const int64_t n = type->shape.factor[s->from.factor].size;
    char only[TT_RANK_THREADS_MOST + 1] = {0};
    check_case(s);
    if (s->from.zigzag || n % s->mesh.axis[s->axis].size != 0)
        return;
    for (int i = 0; i < s->mesh.axis[s->axis].size; i++)
        only[i] = i % 2 == 0 ? '0' : '1';
    s->only = only;
    check_case(s);
    s->only = NULL;
}

// From a split of factor f to whatever the operator makes of it.
static void check_split(subject *s, const tt_type *type, int f, bool zigzag)
{
    const int size = s->mesh.axis[s->axis].size;
    s->from = tt_place_split(f);
    s->from.zigzag = zigzag;
    s->to = tt_place_replicate();
    if (s->op == &tt_op_halo || s->op == &tt_op_halo_add) {
        if (!zigzag)
            check_windows(s, type, f);
    } else if (s->op == &tt_op_all_to_all) {
        for (int g = 0; g < type->shape.n_factors; g++) {
            s->to = tt_place_split(g);
            if (g != f && tt_can_split(type, g, size))
                check_both(s);
        }
    } else if (s->op == &tt_op_shift) {
        for (s->by = -1; s->by <= 2; s->by++)
            check_shift(s, type);
    } else {
        for (s->from.rotate = 0; s->from.rotate < size; s->from.rotate++)
            check_case(s);
    }
}

static void check_whole(subject *s, const tt_type *type)
{
    const int size = s->mesh.axis[s->axis].size;
    const bool is_partial =
        s->op == &tt_op_all_reduce || s->op == &tt_op_reduce_scatter;
    for (int reduce = 0; reduce < (is_partial ? 2 : 1); reduce++) {
        s->from = is_partial ? tt_place_partial((tt_reduce)reduce)
                             : tt_place_replicate();
        s->to = tt_place_replicate();
        if (is_one_of(s->op, &tt_op_all_reduce, &tt_op_keep_first, NULL))
            check_case(s);
        for (int f = 0; f < type->shape.n_factors; f++) {
            s->to = tt_place_split(f);
            if (is_one_of(s->op, &tt_op_take, &tt_op_reduce_scatter, NULL) &&
                tt_can_split(type, f, size))
                check_both(s);
        }
    }
}

// Values that lie at some coordinates only.
static void check_at(subject *s)
{
    const uint64_t all = ((uint64_t)1 << s->mesh.axis[s->axis].size) - 1;
    const bool sums = s->op == &tt_op_all_reduce;
    s->to = tt_place_replicate();
    for (uint64_t at = 1; at < all; at++) {
        s->from = sums ? tt_place_partial(TT_SUM) : tt_place_replicate();
        s->from.at = at;
        check_case(s);
        s->is_everywhere = sums;
        if (sums)
            check_case(s);
        s->is_everywhere = false;
    }
}

static void check_mesh(subject *s, const tt_type *type)
{
    const int size = s->mesh.axis[s->axis].size;
    if (s->op == &tt_op_move) {
        for (s->source = 0; s->source < size; s->source++)
            for (s->target = 0; s->target < size; s->target++)
                check_case(s);
    } else if (is_one_of(s->op, &tt_op_all_reduce, &tt_op_reduce_scatter,
                         &tt_op_take) ||
               s->op == &tt_op_keep_first) {
        check_whole(s, type);
        if (is_one_of(s->op, &tt_op_all_reduce, &tt_op_keep_first, NULL))
            check_at(s);
    } else {
        for (int f = 0; f < type->shape.n_factors; f++)
            for (int z = 0; z < 2 && tt_can_split(type, f, size); z++)
                check_split(s, type, f, z == 1);
    }
}

static void set_mesh(tt_mesh *mesh, int first, int second)
{
    *mesh = (tt_mesh){.n_axes = second > 0 ? 2 : 1};
    memcpy(mesh->axis[0].name, "a", 2);
    memcpy(mesh->axis[1].name, "b", 2);
    mesh->axis[0].size = first;
    mesh->axis[1].size = second;
}

// Every algorithm there is, the choice between them, and none at all.
static int count_ways(void)
{
    int n = 0;
    (void)tt_coll_all(&n);
    return n + 2;
}

static const char *way(int i)
{
    int n = 0;
    const tt_coll_def *const *all = tt_coll_all(&n);
    return i < n ? all[i]->name : i == n ? "auto" : NULL;
}

static tt_status check_sample(tt_law_report *r, const tt_op_def *op,
                              const tt_sample *sample)
{
    static const struct {
        int first, second, axis;
        tt_dtype dtype;
    } table[] = {
        {2, 0, 0, TT_F64}, {3, 0, 0, TT_F32}, {2, 2, 0, TT_BF16},
        {2, 2, 1, TT_I32}, {3, 0, 0, TT_F16}, {2, 0, 0, TT_I64},
        {2, 0, 0, TT_U8},  {2, 1, 1, TT_F64}, {1, 2, 1, TT_F32},
    };
    enum { N_ROWS = sizeof(table) / sizeof(table[0]) };
    const int n_ways = count_ways();
    subject s = {.r = r,
                 .op = op,
                 .sample = sample,
                 .device = tt_rank_threads_device(r->device)};
    tt_type type = {0};
    TT_TRY(tt_shape_parse(shape_of(sample), &type.shape));
    for (int i = 0; i < N_ROWS || i < n_ways; i++) {
        const int row = i % N_ROWS;
        set_mesh(&s.mesh, table[row].first, table[row].second);
        s.axis = table[row].axis;
        s.dtype = table[row].dtype;
        s.collective = way(i % n_ways);
        check_mesh(&s, &type);
    }
    return TT_OK;
}

static tt_status run(tt_law_report *r)
{
    int n = 0;
    const tt_op_def *const *ops = tt_op_all(&n);
    if (!tt_law_report_has_device(r))
        return TT_OK;
    for (int i = 0; i < n; i++) {
        if (!tt_law_report_wants(r, ops[i]->name) ||
            (ops[i]->flags & TT_OP_COLLECTIVE) == 0)
            continue;
        for (const tt_sample *s = ops[i]->samples; s->in[0] != NULL; s++)
            TT_TRY(check_sample(r, ops[i], s));
    }
    return TT_OK;
}

const tt_law_def tt_law_wire = {
    .name = "wire",
    .doc = "Operators over a transport are what they are in simulation.",
    .run = run,
};
