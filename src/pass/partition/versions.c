// versions - one value at several placements.
//
// The problem. Several nodes read a value, and each may want it elsewhere. Converting it
// for each reader would send the same bytes several times.
//
// The idea. Each old value has a list of versions in the new graph: the operator's own
// result, and each conversion that somebody asked for. A reader takes the version that is
// cheapest to bring to the wanted placement, often one that is there already.
//
//   y  partial (own result)
//   +-- all_reduce ------> replicated      for the norm
//   +-- reduce_scatter --> split           for the residual sum; later readers of the
//                                          split take it for free
//
// Three kinds of versions are not for everybody:
//
//   weights of ZeRO 3   a whole weight serves the nodes of one layer in one phase, and is
//                       gathered again for others, so that nothing keeps it in between
//   halos               entries in the overlap are there twice, so such a copy is only
//                       read as it is and never converted
//   wide terms          have another type; readers get their sum (wide.c)

#include "base/alloc.h"
#include "ops/comm/comm.h"
#include "pass/partition/cut.h"
#include "pass/partition/placement.h"

#include <string.h>

tt_status tt__version_add(tt__cut *c, int32_t old, tt_val val)
{
    if (c->n_versions == c->capacity) {
        const int32_t capacity = c->capacity == 0 ? 64 : 2 * c->capacity;
        tt__version *grown =
            tt_realloc(c->versions, (int64_t)sizeof *grown * c->capacity,
                       (int64_t)sizeof *grown * capacity);
        if (grown == NULL)
            return tt_fail(TT_ERR_NOMEM, "no memory to partition a graph");
        c->versions = grown;
        c->capacity = capacity;
    }
    c->versions[c->n_versions] = (tt__version){
        val, c->first[old], c->b.phase, c->b.origin == NULL ? "" : c->b.origin};
    c->first[old] = c->n_versions++;
    return TT_OK;
}

tt_val tt__original(const tt__cut *c, int32_t old)
{
    int32_t v = c->first[old];
    while (c->versions[v].next >= 0)
        v = c->versions[v].next;
    return c->versions[v].val;
}

tt_val tt__finished(const tt__cut *c, int32_t old)
{
    const tt_val terms = tt__original(c, old);
    if (tt__place_of(c, terms)->kind != TT_PARTIAL)
        return terms;
    for (int32_t v = c->first[old]; v >= 0; v = c->versions[v].next)
        if (tt__place_of(c, c->versions[v].val)->kind != TT_PARTIAL)
            return c->versions[v].val;
    return terms;
}

tt_val tt__version_shaped(const tt__cut *c, int32_t old, const tt_place *want)
{
    for (int32_t v = c->first[old]; v >= 0; v = c->versions[v].next)
        if (tt_place_equal(tt__place_of(c, c->versions[v].val), want))
            return c->versions[v].val;
    return tt__original(c, old);
}

// Whether a version is a copy with a halo: its overlaps are the same entries twice,
// which converting it would add up. In an operator's own result they are terms.
static bool is_halo(const tt__cut *c, int32_t v)
{
    return c->versions[v].next >= 0 &&
           tt__place_of(c, c->versions[v].val)->window.out != 0;
}

// Whether a version is a whole weight that was gathered for somebody else.
static bool is_gone(const tt__cut *c, int32_t old, int32_t v)
{
    const tt__version *version = &c->versions[v];
    return c->is_held[old] && version->next >= 0 &&
           (version->phase != c->b.phase ||
            strcmp(version->origin, c->b.origin) != 0);
}

tt_val tt__version_newest(const tt__cut *c, int32_t old)
{
    int32_t v = c->first[old];
    while (is_halo(c, v) || is_gone(c, old, v))
        v = c->versions[v].next;
    return c->versions[v].val;
}

int32_t tt__version_best(const tt__cut *c, int32_t old, const tt_place *want,
                         double *bytes_out)
{
    int32_t best = -1;
    for (int32_t v = c->first[old]; v >= 0; v = c->versions[v].next) {
        const tt_val val = c->versions[v].val;
        if (is_gone(c, old, v) ||
            (tt__is_wide(c, old, val) && want->kind == TT_PARTIAL) ||
            (is_halo(c, v) && !tt_place_equal(tt__place_of(c, val), want)))
            continue;
        const double bytes = tt_placement_bytes(
            tt__place_of(c, val), want,
            tt_type_bytes(&c->b.graph->value[val.id].type), c->size);
        if (bytes < 0)
            continue;
        const bool is_there = tt_place_equal(tt__place_of(c, val), want);
        if (best < 0 || bytes < *bytes_out || is_there) {
            best = v;
            *bytes_out = bytes;
        }
    }
    return best;
}

tt_status tt__version_convert(tt__cut *c, int32_t old, const tt_place *want,
                              tt_val *val_out)
{
    double bytes = 0;
    if (c->is_pipe)
        return tt__stages_convert(c, old, want, val_out);
    const int32_t v = tt__version_best(c, old, want, &bytes);
    if (v < 0)
        return tt_fail(TT_ERR_UNSUPPORTED, "%s cannot be placed as wanted",
                       c->old->value[old].name);
    const tt_val from = c->versions[v].val;
    *val_out = from;
    if (tt_place_equal(tt__place_of(c, from), want))
        return TT_OK;
    *val_out =
        tt__narrow(c, old, tt_place_convert(&c->b, from, c->axis, *want));
    TT_TRY(c->b.status);
    return tt__version_add(c, old, *val_out);
}
