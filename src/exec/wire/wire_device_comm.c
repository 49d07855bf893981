// wire_device_comm - groups of devices that do collectives by themselves
// (backend/device_comm.h, in practice NCCL): how they are made, and waited for.
//
// The problem. A library such as NCCL runs collectives as kernels on the GPU. When a
// peer dies or hangs, such a kernel waits for ever, and the library cannot say why. A
// run would hang without a word.
//
// The idea. No call blocks. The wire's thread polls: the event that the results have
// landed, the state of each group, and the host's transport, which is idle otherwise
// and knows which processes are alive. Only when no rank has worked for
// `comm.deadline` does it act: all ranks tell each other, over the host, how many
// calls they have made, and one that has made fewer is named (roll_call).
//
//   bind   one group for the coordinates of each axis that exchange something, and one
//          for each pair and direction of moves. The first member makes an id, an
//          all-gather over the host's transport spreads the ids
//   run    calls of one operator are handed over together; wait until they are queued
//   wait   for the event `landed`. The deadline for peers starts when this device has
//          reached the flight, not before: until then the device is busy with steps
//
// Exact mode never uses groups, since the library chooses the order of its sums.

#include "base/alloc.h"
#include "base/clock.h"
#include "exec/wire/wire_state.h"
#include "ops/ops.h"

#include <string.h>
#include <time.h>

enum { ROLL_CALL = TT_TRAFFIC_TAGS, PATIENCE = 20, SPINS = 64 };

static const tt_device_comm_def *def_of(const tt__carrier *c)
{
    return c->links.backend->def->device_comm;
}

// ---- waiting -------------------------------------------------------------

// All ranks tell each other how many calls they have made. The transport names a rank
// that does not answer; a rank that is late has made fewer calls. This always ends in a
// failure: it is only called when the wait is given up.
static tt_status roll_call(tt__carrier *c, const tt__device_group *link)
{
    tt_comm *comm = c->comm;
    const int64_t n = link->n;
    int64_t *at = tt_alloc((n + 1) * (int64_t)sizeof *at);
    tt_msg *msg = tt_alloc((2 * n + 1) * (int64_t)sizeof *msg);
    tt_msg **wait = tt_alloc((2 * n + 1) * (int64_t)sizeof *wait);
    tt_status status = TT_OK;
    int32_t late = -1;
    int n_msgs = 0;
    if (at == NULL || msg == NULL || wait == NULL)
        status = tt_fail(TT_ERR_NOMEM, "no memory for a roll call");
    for (int32_t i = 0; i < n && status == TT_OK; i++) {
        at[i] = c->links.n_calls;
        if (link->member[i] == comm->rank)
            continue;
        tt_msg *in = &msg[n_msgs++], *out = &msg[n_msgs++];
        *in = (tt_msg){.peer = link->member[i],
                       .tag = ROLL_CALL,
                       .data = &at[i],
                       .bytes = sizeof at[i]};
        *out = *in;
        out->data = &c->links.n_calls;
        status = tt_comm_receive(comm, in);
        if (status == TT_OK)
            status = tt_comm_send(comm, out);
    }
    for (int k = 0; k < n_msgs; k++)
        wait[k] = &msg[k];
    comm->is_asking = true;
    if (status == TT_OK)
        status = tt_comm_wait(comm, wait, n_msgs);
    comm->is_asking = false;
    for (int32_t i = 0; i < n && status == TT_OK; i++)
        if (at[i] < c->links.n_calls)
            late = link->member[i];
    if (status == TT_OK && late >= 0)
        status = tt_fail(TT_ERR_TIMEOUT,
                         "rank %d waits for rank %d, which is "
                         "late",
                         comm->rank, late);
    else if (status == TT_OK)
        status = tt_fail(TT_ERR_TIMEOUT,
                         "rank %d: all ranks wait, and nothing has moved for "
                         "%.1f s",
                         comm->rank, comm->deadline);
    tt_free(wait);
    tt_free(msg);
    tt_free(at);
    return status;
}

// The host's transport knows whether a peer is gone, and whether any rank still works.
// A short wait is not announced to the others.
static const double unhurried = 0.5;

static tt_status look_around(tt__carrier *c, const tt__device_group *link,
                             double since)
{
    bool moved = false;
    TT_TRY(c->comm->def->progress(c->comm, &moved));
    if (tt_clock_seconds() - since <= unhurried ||
        tt_comm_idle(c->comm, since) <= c->comm->deadline)
        return TT_OK;
    const tt_status status = roll_call(c, link);
    return tt_fail_context(status, "%s", def_of(c)->name);
}

// Moves go on meanwhile.
static void nap(const tt__carrier *c, int64_t turn)
{
    const struct timespec rest = {.tv_nsec = 20000};
    if (c->comm->meanwhile != NULL &&
        c->comm->meanwhile(c->comm->meanwhile_user))
        return;
    if (turn >= SPINS)
        (void)nanosleep(&rest, NULL);
}

// What went wrong with a link; whether it is still busy.
static tt_status state_of(const tt__carrier *c, const tt__device_group *link,
                          bool *busy_out)
{
    const tt_status status = def_of(c)->is_busy(link->links, busy_out);
    return status == TT_OK ? TT_OK
                           : tt_fail_context(status, "rank %d", c->comm->rank);
}

static tt_status stay_until_idle(tt__carrier *c, const tt__device_group *link)
{
    const double start = tt_clock_seconds();
    for (int64_t turn = 0;; turn++) {
        bool is_busy = false;
        TT_TRY(state_of(c, link, &is_busy));
        if (!is_busy)
            return TT_OK;
        TT_TRY(look_around(c, link, start));
        nap(c, turn);
    }
}

// tt_comm_idle with 0 tells the other ranks that this one works again.
static tt_status wait_idle(tt__carrier *c, const tt__device_group *link)
{
    const tt_status status = stay_until_idle(c, link);
    (void)tt_comm_idle(c->comm, 0);
    return status;
}

// The deadline of peers begins when this device has reached the flight.
static tt_status stay_until_landed(tt__carrier *c, const tt__wire_job *job)
{
    tt_backend *backend = c->links.backend;
    const tt_queue_def *queue = backend->def->queue;
    double since = tt_clock_seconds(), most = PATIENCE * c->comm->deadline;
    bool is_ready = false, is_over = false, is_busy = false;
    for (int64_t turn = 0;; turn++) {
        const double now = tt_clock_seconds();
        TT_TRY(queue->is_over(backend, tt__wire_stage_landed(job), &is_over));
        if (is_over)
            return TT_OK;
        for (int32_t i = 0; i < c->links.n; i++)
            if (c->links.link[i].links != NULL)
                TT_TRY(state_of(c, &c->links.link[i], &is_busy));
        if (!is_ready) {
            TT_TRY(
                queue->is_over(backend, tt__wire_stage_ready(job), &is_ready));
            if (is_ready)
                since = now;
            else if (now - since > most)
                return tt_fail(TT_ERR_TIMEOUT,
                               "the device of rank %d has not come to it in "
                               "%.0f s",
                               c->comm->rank, most);
        }
        if (is_ready)
            TT_TRY(look_around(c, c->links.used, since));
        nap(c, turn);
    }
}

tt_status tt__device_groups_wait(tt__carrier *c, const tt__wire_job *job)
{
    const tt_status status = stay_until_landed(c, job);
    (void)tt_comm_idle(c->comm, 0);
    return status;
}

// ---- groups --------------------------------------------------------------

// The coordinates that take part in an operator, and who sends: the same on all ranks.
static tt__device_group describe(const tt_graph *g, const tt_op_def *op,
                                 const tt_comm_params *p, uint64_t at)
{
    const tt_mesh *mesh = &g->mesh;
    tt__device_group group = {.axis = (int32_t)p->axis, .from = -1, .at = at};
    for (int a = 0; a < mesh->n_axes; a++)
        group.size[a] = mesh->axis[a].size;
    if (op == &tt_op_move) {
        group.from = (int32_t)p->from_coord;
        group.at = (uint64_t)1 << p->from_coord | (uint64_t)1 << p->to_coord;
    }
    return group;
}

static bool has(const tt__device_group *group, int32_t coord)
{
    return group->at == 0 || (group->at >> coord & 1) != 0;
}

// Whether anybody has a peer in it.
static bool has_peers(const tt__device_group *group)
{
    return group->at == 0 ? group->size[group->axis] > 1
                          : (group->at & (group->at - 1)) != 0;
}

static tt__device_group *find(tt__carrier *c, const tt__device_group *wanted)
{
    for (int32_t i = 0; i < c->links.n; i++) {
        tt__device_group *group = &c->links.link[i];
        if (group->axis == wanted->axis && group->at == wanted->at &&
            group->from == wanted->from &&
            memcmp(group->size, wanted->size, sizeof wanted->size) == 0)
            return group;
    }
    return NULL;
}

// Spreads the ids of all groups along an axis in one all-gather over all ranks. Each
// group's id is made by its first member and found at that member's rank.
static tt_status share_ids(tt_comm_wire *w, bool is_first, unsigned char *id)
{
    tt__carrier *c = &w->carrier;
    const int64_t count = c->comm->size * (int64_t)TT_DEVICE_COMM_ID;
    unsigned char mine[TT_DEVICE_COMM_ID] = {0};
    if (is_first)
        TT_TRY(def_of(c)->make_id(c->links.backend, mine));
    const tt_coll_call call = {.kind = TT_ALL_GATHER,
                               .fold = {.type = TT_NUM_U8},
                               .count = count,
                               .in = mine,
                               .out = id};
    return tt_comm_wire_call(w, "groups of devices", &call);
}

// Who is in it; of a pair the sender comes first. Sets n and member.
static tt_status list_members(const tt_plan *plan, tt__device_group *group,
                              int32_t *me_out)
{
    const tt_mesh *mesh = &plan->graph->mesh;
    const int32_t size = mesh->axis[group->axis].size;
    const int32_t first = group->from < 0 ? 0 : group->from;
    const int32_t mine = tt_mesh_coord(mesh, plan->rank, group->axis);
    group->member = tt_alloc(size * (int64_t)sizeof(int32_t));
    if (group->member == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a group of devices");
    for (int32_t i = 0; i < size; i++) {
        const int32_t coord = (first + i) % size;
        if (coord == mine)
            *me_out = group->n;
        if (has(group, coord))
            group->member[group->n++] =
                tt_mesh_rank_at(mesh, plan->rank, group->axis, coord);
    }
    return TT_OK;
}

static tt_status open_group(tt__carrier *c, const unsigned char *id, int32_t me,
                            tt__device_group *group)
{
    TT_TRY(def_of(c)->open(c->links.backend,
                           id + group->member[0] * (int64_t)TT_DEVICE_COMM_ID,
                           group->n, me, group->from >= 0, &group->links));
    return wait_idle(c, group);
}

// Makes a group, unless an earlier plan has made it. All ranks come here together, for
// the same groups in the same order; who is in none of them only hands ids on.
static tt_status join(tt_comm_wire *w, const tt_plan *plan,
                      const tt__device_group *wanted)
{
    tt__carrier *c = &w->carrier;
    tt__device_group group = *wanted;
    int32_t me = -1;
    if (find(c, wanted) != NULL)
        return TT_OK;
    if (c->links.n == TT__DEVICE_GROUPS)
        return tt_fail(TT_ERR_UNSUPPORTED, "more than %d groups of devices",
                       TT__DEVICE_GROUPS);
    const bool is_in =
        has(&group, tt_mesh_coord(&plan->graph->mesh, plan->rank, group.axis));
    unsigned char *id = tt_alloc(c->comm->size * (int64_t)TT_DEVICE_COMM_ID);
    tt_status status =
        id == NULL ? tt_fail(TT_ERR_NOMEM, "no memory for a group of devices")
                   : list_members(plan, &group, &me);
    if (status == TT_OK)
        status = share_ids(w, is_in && me == 0, id);
    if (status == TT_OK && is_in)
        status = open_group(c, id, me, &group);
    if (status == TT_OK) {
        c->links.link[c->links.n++] = group;
    } else {
        def_of(c)->close(group.links, true);
        tt_free(group.member);
    }
    tt_free(id);
    return status;
}

// All groups that the graph, which is the same on all ranks, has operators for.
static tt_status join_all(tt_comm_wire *w, const tt_plan *plan)
{
    const tt_graph *g = plan->graph;
    for (int32_t n = 0; n < g->n_nodes; n++) {
        const tt_node *node = &g->node[n];
        const tt_comm_params *p = node->params;
        if (!tt_op_is_collective(node->op) ||
            (node->op->flags & TT_OP_SILENT) != 0)
            continue;
        const tt__device_group group =
            describe(g, node->op, p, tt_traffic_at(g, node));
        if (has_peers(&group))
            TT_TRY(join(w, plan, &group));
    }
    return TT_OK;
}

// ---- room ----------------------------------------------------------------

// For `tutti plan` too: the numbers need no peer.
tt_status tt_wire_device_bytes(const tt_plan *plan, int64_t *bytes_out)
{
    const int64_t n = tt_mesh_ranks(&plan->graph->mesh) + INT64_C(1);
    const tt_traffic_group group = {
        .bound = tt_alloc(n * (int64_t)sizeof(*group.bound))};
    *bytes_out = 0;
    if (group.bound == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to count what links need");
    for (int32_t i = 0; i < plan->n_members; i++) {
        const tt_traffic_site x = tt_traffic_site_of(plan, plan->member[i]);
        const tt__wire_way *way = tt__wire_way_of(&x);
        const int64_t bytes = way != NULL && way->link_bytes != NULL
                                  ? way->link_bytes(&x, &group)
                                  : 0;
        *bytes_out = bytes > *bytes_out ? bytes : *bytes_out;
    }
    tt_free(group.bound);
    return TT_OK;
}

static tt_status make_room(tt__carrier *c, int64_t bytes)
{
    tt__device_groups *l = &c->links;
    if (bytes <= l->room_bytes)
        return TT_OK;
    tt_memory_free(l->backend, l->room);
    l->room = NULL;
    l->room_bytes = 0;
    void *room = NULL;
    TT_TRY(tt_memory_alloc(l->backend, bytes, &room));
    l->room = room;
    l->room_bytes = bytes;
    return TT_OK;
}

// ---- binding -------------------------------------------------------------

static tt_status no_group(const tt_mesh *mesh, int32_t axis)
{
    return tt_fail(TT_ERR_STATE,
                   "this device is in no group along the axis %s of the mesh",
                   mesh->axis[axis].name);
}

static tt_status bind(tt_comm_wire *w, tt__wire_plan *bound)
{
    const tt_plan *plan = bound->plan;
    const tt_mesh *mesh = &plan->graph->mesh;
    int64_t bytes = 0;
    TT_TRY(join_all(w, plan));
    for (int32_t i = 0; i < bound->n_legs; i++) {
        tt__wire_leg *leg = &bound->leg[i];
        const tt__device_group group =
            describe(plan->graph, leg->x.op, leg->x.p, leg->x.at);
        leg->links = find(&w->carrier, &group);
        if (leg->links == NULL && leg->way->link != NULL && has_peers(&group))
            return no_group(mesh, leg->x.axis);
    }
    TT_TRY(tt_wire_device_bytes(plan, &bytes));
    return make_room(&w->carrier, bytes);
}

tt_status tt__device_groups_bind(tt_comm_wire *w, tt__wire_plan *plan)
{
    tt__device_groups *l = &w->carrier.links;
    if (!l->is_wanted || w->carrier.rules.is_exact ||
        (l->backend != NULL && l->backend != plan->device))
        return TT_OK;
    l->backend = plan->device;
    l->n_bound++;
    plan->is_linked = true;
    const tt_status status = bind(w, plan);
    if (status != TT_OK) {
        plan->is_linked = false;
        tt__device_groups_unbind(w, plan->device);
    }
    return status;
}

void tt__device_groups_unbind(tt_comm_wire *w, tt_backend *backend)
{
    tt__device_groups *l = &w->carrier.links;
    if (l->backend == NULL || l->backend != backend || --l->n_bound > 0)
        return;
    for (int32_t i = 0; i < l->n; i++) {
        def_of(&w->carrier)->close(l->link[i].links, w->status != TT_OK);
        tt_free(l->link[i].member);
    }
    tt_memory_free(backend, l->room);
    *l = (tt__device_groups){.is_wanted = l->is_wanted};
}

// ---- calls ---------------------------------------------------------------

// Bytes that this device sends for a call, if groups do it in rings.
static int64_t sent_for(const tt_device_coll *call, int32_t n, int32_t me)
{
    const int64_t bytes = call->count * tt_dtype_bytes(call->dtype);
    switch (call->kind) {
    case TT_DEVICE_COLL_ALL_REDUCE:
        return 2 * bytes * (n - 1) / n;
    case TT_DEVICE_COLL_ALL_GATHER:
    case TT_DEVICE_COLL_REDUCE_SCATTER:
        return bytes * (n - 1);
    case TT_DEVICE_COLL_BROADCAST: // all but the last pass it on
        return (call->peer + n - 1) % n == me ? 0 : bytes;
    case TT_DEVICE_COLL_REDUCE: // all but the root do
        return call->peer == me ? 0 : bytes;
    default:
        return call->kind == TT_DEVICE_COLL_SEND ? bytes : 0;
    }
}

tt_status tt__device_groups_ask(tt__carrier *c, const tt__wire_leg *leg,
                                const tt_device_coll *call, int n)
{
    const tt__device_group *link = leg->links;
    if (link == NULL || link->links == NULL)
        return tt_fail(TT_ERR_STATE, "a collective of devices has no group");
    for (int i = 0; i < n; i++) {
        const int64_t bytes = sent_for(&call[i], link->n, leg->x.coord);
        c->comm->stats.sent_messages += bytes > 0;
        c->comm->stats.sent_bytes += bytes;
    }
    return n > 0 ? def_of(c)->run(link->links, call, n) : TT_OK;
}

tt_status tt__device_groups_run(tt__carrier *c, const tt__wire_leg *leg,
                                const tt_device_coll *call, int n)
{
    c->links.used = leg->links;
    c->links.n_calls++; // a rank that has nothing to send counts too
    TT_TRY(tt__device_groups_ask(c, leg, call, n));
    return n > 0 ? wait_idle(c, leg->links) : TT_OK;
}

tt_status tt__device_groups_state(const tt__carrier *c, const tt__wire_leg *leg,
                                  bool *busy_out)
{
    return state_of(c, leg->links, busy_out);
}
