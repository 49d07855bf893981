// parts - see the header.
//
// A part is a box in the whole tensor. In memory the whole is row by row, so a box
// consists of runs: stretches of elements that are neighbours both in the part and
// in the whole. Copies and reads of files go run by run. Splitting the first
// dimension gives one run; splitting the last gives a short run per row:
//
//   split rows      split columns
//   A A A A         A A B B
//   A A A A         A A B B
//   B B B B         A A B B      A has 1 run of 8, or 4 runs of 2
//   B B B B         A A B B

#include "state/parts.h"

#include <string.h>

tt__rank_part tt__rank_part_of(const tt_graph *g, tt_val v, int32_t rank)
{
    tt__rank_part p = {.run = 1};
    tt_local_of(&g->value[v.id].type, &g->mesh, rank, &p.local);
    if (p.local.is_absent)
        return p;
    p.count = tt_shape_count(&p.local.shape);
    // From the fastest factor outwards: a factor that is whole makes the run
    // longer, and the first one that is cut ends it.
    for (int f = p.local.shape.n_factors - 1; f >= 0; f--) {
        p.run *= p.local.shape.factor[f].size;
        if (p.local.shape.factor[f].size != p.local.global[f])
            break;
    }
    return p;
}

bool tt__rank_part_equal(const tt__rank_part *a, const tt__rank_part *b)
{
    for (int f = 0; f < a->local.shape.n_factors; f++)
        if (a->local.shape.factor[f].size != b->local.shape.factor[f].size ||
            a->local.origin[f] != b->local.origin[f])
            return false;
    return a->local.shape.n_factors == b->local.shape.n_factors &&
           a->local.is_absent == b->local.is_absent;
}

void tt__rank_part_spread(const tt__rank_part *p, int64_t size, const char *in,
                          char *whole)
{
    for (int64_t i = 0; i < p->count; i += p->run)
        memcpy(whole + tt_local_to_global(&p->local, i) * size, in + i * size,
               (size_t)(p->run * size));
}

void tt__rank_part_cut(const tt__rank_part *p, int64_t size, const char *whole,
                       char *out)
{
    for (int64_t i = 0; i < p->count; i += p->run)
        memcpy(out + i * size, whole + tt_local_to_global(&p->local, i) * size,
               (size_t)(p->run * size));
}

// Sets the coordinate along every axis that splits the value to 0. Ranks that
// differ only there hold parts of the same copy. Along the axis of stages nothing is
// split: each coordinate that holds the value has a copy.
int32_t tt__rank_part_group(const tt_graph *g, tt_val v, int32_t rank)
{
    const tt_place *place = g->value[v.id].type.place;
    int32_t group = rank;
    for (int a = 0; a < g->mesh.n_axes; a++) {
        if (!tt_place_holds(&place[a], tt_mesh_coord(&g->mesh, rank, a)))
            return TT__RANK_ABSENT;
        if (place[a].kind == TT_SPLIT)
            group = tt_mesh_rank_at(&g->mesh, group, a, 0);
    }
    return group;
}

int32_t tt__rank_part_first(const tt_graph *g, tt_val v)
{
    const int32_t ranks = tt_mesh_ranks(&g->mesh);
    for (int32_t r = 0; r < ranks; r++) {
        const int32_t group = tt__rank_part_group(g, v, r);
        if (group != TT__RANK_ABSENT)
            return group;
    }
    return 0;
}
