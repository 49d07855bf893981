// hierarchical - within every host, then between hosts, then within hosts again.
//
// The problem. Ranks on one host talk through memory; hosts talk through a network
// that is much slower and that all ranks of a host share. An algorithm that does not
// know about hosts may send the same data over the network once per rank.
//
// The idea. Reduce within the host first, so that each host has its sum once. Only that
// crosses the network.
//
//   2 hosts with 2 ranks each, blocks a b
//
//     host 0: rank 0 [ a b ]            host 1: rank 2 [ a b ]
//             rank 1 [ a b ]                    rank 3 [ a b ]
//   reduce-scatter within    rank 0: a, rank 1: b   rank 2: a, rank 3: b
//   all-reduce between       ranks 0, 2: a          ranks 1, 3: b
//   all-gather within        a b on all
//
//   all_reduce   hosts of q members each: as above, with 1/q of the data between the
//                members that have the same place on their hosts. 2(h-1)/h of the data
//                leave a host, shared by its members. When hosts have different numbers
//                of members, the host's first member does it for all of them
//   the others   through each host's first member (the root, on its own host)
//
// A stage is a collective of fewer members by another algorithm, so messages and bytes
// are the sums of theirs. Each kind is a list of at most three stages (plan_*): who
// takes part, by which algorithm, from where to where. Hosts come in the order of
// their first members. Data that is cut into blocks is packed in the order of hosts on
// its way.
//
// The order of sums depends on which rank is on which host, so exact mode leaves it
// out.

#include "comm/coll/coll.h"

extern const tt_coll_def tt_coll_ring, tt_coll_tree, tt_coll_doubling,
    tt_coll_naive;

enum { MOST = 1024, MOST_STAGES = 3, NOBODY = -1 }; // larger groups: naive

// The members by hosts. It is on the stack, so that a call allocates nothing; that
// limits groups to MOST members. Larger ones use the naive algorithm.
typedef struct crew {
    int32_t n_hosts, mine;     // this member's host
    int32_t place;             // of this member on it
    bool is_even;              // all hosts have the same number of members
    int32_t order[MOST];       // members, host by host, the first one first
    int32_t rank[MOST];        // theirs
    int32_t start[MOST + 1];   // of every host in that order
    int32_t across[MOST];      // ranks at `place` of every host
    int64_t bound[MOST + 1];   // of blocks packed in that order
    int64_t by_host[MOST + 1]; // of all blocks of a host
    int64_t within[MOST + 1];  // of this host's blocks
} crew;

typedef struct stage {
    const tt_coll_def *def;
    tt_coll_call call; // group.n 0: this member has no part
} stage;

static int32_t host_of(const tt_group *g, int32_t i)
{
    return g->host != NULL ? g->host[i] : 0;
}

static bool is_new_host(const tt_group *g, int32_t i)
{
    for (int32_t k = 0; k < i; k++)
        if (host_of(g, k) == host_of(g, i))
            return false;
    return true;
}

// Appends the members on i's host from i on; `root` comes first where it is.
static int32_t add_host(const tt_group *g, int32_t i, int32_t root, int32_t n,
                        crew *c)
{
    const int32_t host = host_of(g, i);
    if (root != NOBODY && host_of(g, root) == host)
        c->order[n++] = root;
    for (int32_t k = i; k < g->n; k++)
        if (host_of(g, k) == host && k != root)
            c->order[n++] = k;
    return n;
}

static void measure(const tt_coll_call *call, crew *c)
{
    for (int32_t k = 0; k < call->group.n; k++)
        c->bound[k + 1] = c->bound[k] + tt_coll_block(call, c->order[k]).n;
    for (int32_t h = 0; h <= c->n_hosts; h++)
        c->by_host[h] = c->bound[c->start[h]];
    const int32_t first = c->start[c->mine];
    for (int32_t k = first; k <= c->start[c->mine + 1]; k++)
        c->within[k - first] = c->bound[k] - c->bound[first];
}

// Every member computes the same lists from the same table of hosts; nothing is sent.
static void muster(const tt_coll_call *call, int32_t root, crew *c)
{
    const tt_group *g = &call->group;
    int32_t n = 0;
    *c = (crew){.is_even = true};
    for (int32_t i = 0; i < g->n; i++) {
        if (!is_new_host(g, i))
            continue;
        n = add_host(g, i, root, n, c);
        c->start[++c->n_hosts] = n;
        c->is_even &= n == c->n_hosts * c->start[1];
    }
    for (int32_t h = 0; h < c->n_hosts; h++)
        for (int32_t k = c->start[h]; k < c->start[h + 1]; k++) {
            c->rank[k] = tt_coll_rank(g, c->order[k]);
            if (c->order[k] != g->me)
                continue;
            c->mine = h;
            c->place = k - c->start[h];
        }
    for (int32_t h = 0; h < c->n_hosts; h++) {
        const int32_t k = c->start[h] + c->place;
        c->across[h] = k < c->start[h + 1] ? c->rank[k] : c->rank[c->start[h]];
    }
    measure(call, c);
}

// ---- stages --------------------------------------------------------------

static stage stage_of(const tt_coll_call *call, tt_coll_kind kind,
                      const tt_coll_def *def)
{
    return (stage){.def = def,
                   .call = {.kind = kind,
                            .fold = call->fold,
                            .count = call->count,
                            .in = call->in,
                            .out = call->out,
                            .scratch = call->scratch,
                            .tag = call->tag}};
}

// Among the members of this host; the first one is index 0.
static stage near(const tt_coll_call *call, const crew *c, tt_coll_kind kind,
                  const tt_coll_def *def)
{
    stage s = stage_of(call, kind, def);
    const int32_t first = c->start[c->mine];
    s.call.group = (tt_group){.n = c->start[c->mine + 1] - first,
                              .me = c->place,
                              .rank = c->rank + first};
    return s;
}

// Among one member of each host: those at this one's place, or the first ones.
static stage far(const tt_coll_call *call, const crew *c, tt_coll_kind kind,
                 const tt_coll_def *def)
{
    stage s = stage_of(call, kind, def);
    s.call.group =
        (tt_group){.n = c->n_hosts, .me = c->mine, .rank = c->across};
    return s;
}

static stage far_firsts(const tt_coll_call *call, const crew *c,
                        tt_coll_kind kind, const tt_coll_def *def)
{
    stage s = far(call, c, kind, def);
    if (c->place > 0)
        s.call.group.n = 0;
    return s;
}

static int32_t host_index(const tt_coll_call *call, const crew *c, int32_t i)
{
    int32_t h = 0;
    while (host_of(&call->group, c->order[c->start[h]]) !=
           host_of(&call->group, i))
        h++;
    return h;
}

// Scratch memory in parts of `count` elements.
static void *part(const tt_coll_call *call, int k)
{
    return tt_coll_at(call, call->scratch, k * call->count);
}

// ---- all_reduce, reduce, broadcast, barrier ------------------------------

// Part 1 of scratch memory holds this member's share of the sum between the stages.
static int plan_even(const tt_coll_call *call, const crew *c, stage *s)
{
    s[0] = near(call, c, TT_REDUCE_SCATTER, &tt_coll_ring);
    s[0].call.scratch = part(call, 0);
    s[0].call.out = part(call, 1);
    s[1] = far(call, c, TT_ALL_REDUCE, &tt_coll_ring);
    s[1].call.count = tt_coll_block(&s[0].call, c->place).n;
    s[1].call.in = s[1].call.out = part(call, 1);
    s[2] = near(call, c, TT_ALL_GATHER, &tt_coll_ring);
    s[2].call.in = part(call, 1);
    return 3;
}

static int plan_all_reduce(const tt_coll_call *call, const crew *c, stage *s)
{
    if (c->is_even)
        return plan_even(call, c, s);
    s[0] = near(call, c, TT_REDUCE_TO, &tt_coll_tree);
    s[1] = far_firsts(call, c, TT_ALL_REDUCE, &tt_coll_ring);
    s[1].call.in = call->out;
    s[2] = near(call, c, TT_BROADCAST, &tt_coll_tree);
    return 3;
}

static int plan_reduce(const tt_coll_call *call, const crew *c, stage *s)
{
    const bool is_root = call->group.me == call->root;
    s[0] = near(call, c, TT_REDUCE_TO, &tt_coll_tree);
    s[0].call.out = is_root ? call->out : part(call, 1);
    s[1] = far_firsts(call, c, TT_REDUCE_TO, &tt_coll_tree);
    s[1].call.in = s[0].call.out;
    s[1].call.root = host_index(call, c, call->root);
    return 2;
}

static int plan_broadcast(const tt_coll_call *call, const crew *c, stage *s)
{
    s[0] = far_firsts(call, c, TT_BROADCAST, &tt_coll_tree);
    s[0].call.root = host_index(call, c, call->root);
    s[1] = near(call, c, TT_BROADCAST, &tt_coll_tree);
    return 2;
}

static int plan_barrier(const tt_coll_call *call, const crew *c, stage *s)
{
    s[0] = near(call, c, TT_BARRIER, &tt_coll_doubling);
    s[1] = far_firsts(call, c, TT_BARRIER, &tt_coll_doubling);
    s[2] = near(call, c, TT_BARRIER, &tt_coll_doubling);
    return 3;
}

// ---- blocks, packed in part 0 --------------------------------------------

static void *packed(const tt_coll_call *call, const crew *c)
{
    return tt_coll_at(call, part(call, 0), c->by_host[c->mine]);
}

static int64_t of_host(const crew *c)
{
    return c->by_host[c->mine + 1] - c->by_host[c->mine];
}

static int plan_all_gather(const tt_coll_call *call, const crew *c, stage *s)
{
    s[0] = near(call, c, TT_GATHER, &tt_coll_naive);
    s[0].call.bound = c->within;
    s[0].call.count = of_host(c);
    s[0].call.out = packed(call, c);
    s[1] = far_firsts(call, c, TT_ALL_GATHER, &tt_coll_ring);
    s[1].call.bound = c->by_host;
    s[1].call.in = packed(call, c);
    s[1].call.out = part(call, 0);
    s[2] = near(call, c, TT_BROADCAST, &tt_coll_tree);
    s[2].call.out = part(call, 0);
    return 3;
}

static int plan_reduce_scatter(const tt_coll_call *call, const crew *c,
                               stage *s)
{
    s[0] = near(call, c, TT_REDUCE_TO, &tt_coll_tree);
    s[0].call.in = part(call, 0);
    s[0].call.out = s[0].call.scratch =
        part(call, 1); // of the first; of others
    s[1] = far_firsts(call, c, TT_REDUCE_SCATTER, &tt_coll_ring);
    s[1].call.bound = c->by_host;
    s[1].call.in = part(call, 1);
    s[1].call.scratch = part(call, 0);
    s[1].call.out = packed(call, c); // where the ring leaves it in its scratch
    s[2] = near(call, c, TT_SCATTER, &tt_coll_naive);
    s[2].call.bound = c->within;
    s[2].call.count = of_host(c);
    s[2].call.in = packed(call, c);
    return 3;
}

static int plan_gather(const tt_coll_call *call, const crew *c, stage *s)
{
    s[0] = near(call, c, TT_GATHER, &tt_coll_naive);
    s[0].call.bound = c->within;
    s[0].call.count = of_host(c);
    s[0].call.out = packed(call, c);
    s[1] = far_firsts(call, c, TT_GATHER, &tt_coll_naive);
    s[1].call.bound = c->by_host;
    s[1].call.root = host_index(call, c, call->root);
    s[1].call.in = packed(call, c);
    s[1].call.out = part(call, 0);
    return 2;
}

static int plan_scatter(const tt_coll_call *call, const crew *c, stage *s)
{
    s[0] = far_firsts(call, c, TT_SCATTER, &tt_coll_naive);
    s[0].call.bound = c->by_host;
    s[0].call.root = host_index(call, c, call->root);
    s[0].call.in = part(call, 0);
    s[0].call.out = part(call, 1);
    s[1] = near(call, c, TT_SCATTER, &tt_coll_naive);
    s[1].call.bound = c->within;
    s[1].call.count = of_host(c);
    s[1].call.in = part(call, 1);
    return 2;
}

// ---- running them, and what they cost ------------------------------------

typedef int plan_fn(const tt_coll_call *call, const crew *c, stage *s);

static plan_fn *const plans[TT_N_COLLS] = {
    [TT_ALL_REDUCE] = plan_all_reduce,
    [TT_REDUCE_TO] = plan_reduce,
    [TT_BROADCAST] = plan_broadcast,
    [TT_REDUCE_SCATTER] = plan_reduce_scatter,
    [TT_ALL_GATHER] = plan_all_gather,
    [TT_GATHER] = plan_gather,
    [TT_SCATTER] = plan_scatter,
    [TT_BARRIER] = plan_barrier,
};

static bool has_root(tt_coll_kind kind)
{
    return kind == TT_REDUCE_TO || kind == TT_BROADCAST || kind == TT_GATHER ||
           kind == TT_SCATTER;
}

static int plan(const tt_coll_call *call, crew *c, stage *s)
{
    muster(call, has_root(call->kind) ? call->root : NOBODY, c);
    return plans[call->kind](call, c, s);
}

static void pack(const tt_coll_call *call, const crew *c)
{
    for (int32_t k = 0; k < call->group.n; k++) {
        const tt_block b = tt_coll_block(call, c->order[k]);
        tt_coll_copy(call, tt_coll_at(call, part(call, 0), c->bound[k]),
                     tt_coll_from(call, b.first), b.n);
    }
}

static void unpack(const tt_coll_call *call, const crew *c)
{
    for (int32_t k = 0; k < call->group.n; k++) {
        const tt_block b = tt_coll_block(call, c->order[k]);
        tt_coll_copy(call, tt_coll_to(call, b.first),
                     tt_coll_at(call, part(call, 0), c->bound[k]), b.n);
    }
}

static tt_status run(tt_comm *comm, const tt_coll_call *call)
{
    const tt_coll_kind kind = call->kind;
    const bool is_root = call->group.me == call->root;
    stage s[MOST_STAGES];
    crew c;
    if (call->group.n > MOST)
        return tt_coll_naive.way[kind].run(comm, call);
    const int n = plan(call, &c, s);
    if (kind == TT_REDUCE_SCATTER || (kind == TT_SCATTER && is_root))
        pack(call, &c);
    for (int i = 0; i < n; i++)
        if (s[i].call.group.n > 0)
            TT_TRY(s[i].def->way[s[i].call.kind].run(comm, &s[i].call));
    if (kind == TT_ALL_GATHER || (kind == TT_GATHER && is_root))
        unpack(call, &c);
    return TT_OK;
}

static tt_coll_cost cost(const tt_coll_call *call)
{
    tt_coll_cost sum = {0};
    stage s[MOST_STAGES];
    crew c;
    if (call->group.n > MOST)
        return tt_coll_naive.way[call->kind].cost(call);
    const int n = plan(call, &c, s);
    for (int i = 0; i < n; i++) {
        if (s[i].call.group.n == 0)
            continue;
        const tt_coll_cost one = s[i].def->way[s[i].call.kind].cost(&s[i].call);
        sum.messages += one.messages;
        sum.bytes += one.bytes;
    }
    return sum;
}

const tt_coll_def tt_coll_hierarchical = {
    .name = "hierarchical",
    .doc = "Within hosts, then between them: for slow networks.",
    .sees_hosts = true,
    .way = {[TT_ALL_REDUCE] = {run, cost, 2},
            [TT_REDUCE_TO] = {run, cost, 2},
            [TT_BROADCAST] = {run, cost, 0},
            [TT_REDUCE_SCATTER] = {run, cost, 2},
            [TT_ALL_GATHER] = {run, cost, 1},
            [TT_GATHER] = {run, cost, 1},
            [TT_SCATTER] = {run, cost, 2},
            [TT_BARRIER] = {run, cost, 0}},
};
