// choose - the cheapest algorithm, and the size of a bucket, from measured links.
//
// The problem. Which algorithm is fastest depends on bytes, ranks and links: few
// rounds for small arrays, few bytes for large ones. But algorithms add in different
// orders. If a measurement chose among all of them, the same training would have
// other bits on another day.
//
// The idea. An algorithm says what its slowest member does (`path`), and the time is
//
//   seconds = rounds * latency + bytes * per_byte + folds * fold
//
// with the three numbers of calibrate.h. The least wins, among algorithms with the
// same bits only: where something is folded, those that fold neighbours, then pairs of
// them, and so on (coll/pairs.h). So a measurement changes the time and never the
// result.
//
// Who has not measured assumes usual links (tt_calibration_usual): the choice may then
// be slower, and the bits are the same.
//
// Two choices are made without the formula:
//
//   hierarchical     on several hosts with as many ranks each: by who is where, which
//                    is no measurement. From 64 KiB on; below that, rounds count
//   shared memory    its own collective from 8 KiB on: each element moves once, which
//                    nothing beats, and a measurement beside other work may mislead
//
// The size of a bucket of gradients is where latency is 5% of its time, between 1 and
// 64 MiB (`tt_calibration_bucket`): larger ones gain little and overlap less.
//
//   cost    a few multiplications for each algorithm
//   left    a model of congestion. Links are taken as equal within a host and between
//           hosts, by the slowest

#include "comm/calibrate.h"

// Shared memory of one host, 10 GbE between hosts, one core that adds.
const tt_calibration tt_calibration_usual = {
    .near = {.latency = 2e-6, .per_byte = 2e-10},
    .far = {.latency = 3e-5, .per_byte = 1e-9},
    .fold = 1e-10,
};

static bool is_folded(tt_coll_kind kind)
{
    return kind == TT_ALL_REDUCE || kind == TT_REDUCE_TO ||
           kind == TT_REDUCE_SCATTER;
}

static bool is_one_host(const tt_group *g)
{
    for (int32_t i = 1; i < g->n && g->host != NULL; i++)
        if (g->host[i] != g->host[0])
            return false;
    return true;
}

// Several hosts, each with as many of the members, more than one.
static bool has_stages(const tt_group *g)
{
    int32_t each = 0;
    if (is_one_host(g))
        return false;
    for (int32_t i = 0; i < g->n; i++) {
        int32_t n = 0;
        for (int32_t k = 0; k < g->n; k++)
            n += g->host[k] == g->host[i];
        if (n < 2 || (each > 0 && n != each))
            return false;
        each = n;
    }
    return true;
}

static double seconds_of(const tt_calibration *c, const tt_coll_call *call,
                         const tt_coll_way *way)
{
    const tt_coll_path p = way->path(call);
    const tt_link link = is_one_host(&call->group) ? c->near : c->far;
    return (double)p.rounds * link.latency + (double)p.bytes * link.per_byte +
           (double)p.folds * c->fold;
}

// Whether the transport's own collective may be used: it was measured, it has this
// kind, and where something is folded it has the bits of the other ordered algorithms.
static bool has_native(const tt_calibration *c, tt_coll_kind kind)
{
    return c->native.per_byte > 0 &&
           (kind == TT_ALL_REDUCE || kind == TT_REDUCE_SCATTER ||
            kind == TT_ALL_GATHER) &&
           (c->is_native_ordered || !is_folded(kind));
}

// Measured as an all-reduce, of which the others are half.
static double native_seconds(const tt_calibration *c, tt_coll_kind kind,
                             int64_t bytes)
{
    const double all = c->native.latency + (double)bytes * c->native.per_byte;
    return kind == TT_ALL_REDUCE ? all : all / 2;
}

const tt_coll_def *tt_coll_choose(const tt_calibration *c, tt_coll_kind kind,
                                  int64_t bytes, const tt_group *group)
{
    enum { STAGES_FROM = 64 << 10, IN_PLACE_FROM = 8 << 10 };
    int n = 0;
    const tt_coll_def *const *all = tt_coll_all(&n);
    const tt_coll_call call = {.kind = kind,
                               .group = *group,
                               .fold = {TT_FOLD_SUM, TT_NUM_U8},
                               .count = bytes};
    const tt_coll_def *staged = tt_coll_find("hierarchical");
    const tt_coll_def *best = tt_coll_find("naive");
    double least = seconds_of(c, &call, &best->way[kind]);
    if (staged != NULL && staged->way[kind].run != NULL &&
        bytes >= STAGES_FROM && has_stages(group))
        return staged;
    // In shared memory every element moves once: nothing that is measured beside
    // other work may speak against that.
    if (c->is_native_ordered && has_native(c, kind) && bytes >= IN_PLACE_FROM)
        return tt_coll_find("native");
    for (int i = 0; i < n; i++) {
        const tt_coll_way *way = &all[i]->way[kind];
        double seconds = least;
        if (all[i]->is_native && has_native(c, kind))
            seconds = native_seconds(c, kind, bytes);
        else if (way->run != NULL && way->path != NULL && all[i] != staged &&
                 (all[i]->is_ordered || !is_folded(kind)))
            seconds = seconds_of(c, &call, way);
        if (seconds < least) {
            least = seconds;
            best = all[i];
        }
    }
    return best;
}

int64_t tt_calibration_bucket(const tt_calibration *c, const tt_group *group)
{
    enum { LEAST = 1 << 20, MOST = 64 << 20 };
    static const double part = 0.05; // of the time may be latency
    const tt_coll_call call = {.kind = TT_ALL_REDUCE,
                               .group = *group,
                               .fold = {TT_FOLD_SUM, TT_NUM_U8},
                               .count = MOST};
    const tt_coll_path p =
        tt_coll_find("direct")->way[TT_ALL_REDUCE].path(&call);
    const tt_link link = is_one_host(group) ? c->near : c->far;
    double fixed = (double)p.rounds * link.latency;
    double per_byte =
        ((double)p.bytes * link.per_byte + (double)p.folds * c->fold) / MOST;
    if (has_native(c, TT_ALL_REDUCE)) {
        fixed = c->native.latency;
        per_byte = c->native.per_byte;
    }
    const double bytes = per_byte > 0 ? fixed / part / per_byte : LEAST;
    if (!(bytes > LEAST))
        return LEAST;
    return bytes < MOST ? (int64_t)bytes : MOST;
}
