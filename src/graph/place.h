// place - where the parts of a value are: per mesh axis it is replicated, split
// along one factor, partial (every rank holds a term of a reduction), or own (every
// coordinate has a value of its own: the code of its gradient, say).
//
// A replicated or partial value may lie at some coordinates of the axis only: `at` is
// the set of them, and the others hold nothing. So a pipeline's stage is a placement:
//
//   pipe:4      coordinate   0    1    2    3
//   R@1                      -    x    -    -     what stage 1 computes
//   R@0+3                    w    -    -    w     a weight that stages 0 and 3 read
//   P(sum)@0+3               g    -    -    g'    the terms of its gradient
//
// Shards are balanced blocks: of n entries over p ranks, rank r holds
// [r*n/p, (r+1)*n/p), so they may differ by one. A split may also be
//
//   rotated       rank r holds the block of rank r - rotate: what a ring has after
//                 `rotate` steps
//   windowed      widened to the entries that a sliding window needs to compute the
//                 rank's block of its output: what a halo exchange delivers
//   one of parts  each rank holds several blocks, and this is block `part` of `parts`.
//                 With p ranks they are the blocks of p * parts ranks, in order
//   zigzag        of 2p blocks rank r holds blocks r and 2p-1-r. In causal attention
//                 later entries are more work; so all ranks have the same work. (Where 2p
//                 does not divide n, ranks hold as many entries as in a plain split.)
//
//   which of 4 ranks holds each of 8 entries
//     plain      0 0 1 1 2 2 3 3
//     rotate=1   1 1 2 2 3 3 0 0
//     zigzag     0 1 2 3 3 2 1 0

#ifndef TT_GRAPH_PLACE_H
#define TT_GRAPH_PLACE_H

#include "base/str.h"
#include "graph/dtype.h"
#include "graph/shape.h"

#include <stdbool.h>
#include <stdint.h>

enum { TT_MAX_AXES = 6, TT_MAX_AT = 64 }; // coordinates that `at` can name

typedef enum tt_place_kind {
    TT_REPLICATE, // zero: the default
    TT_SPLIT,
    TT_PARTIAL,
    TT_OWN, // each coordinate has its own; operators run on each
} tt_place_kind;

typedef enum tt_reduce { TT_SUM, TT_MAX } tt_reduce;

typedef struct tt_window {
    int64_t out; // extent of the window's output; 0: no window
    int32_t kernel, stride, pad, dilation;
} tt_window;

typedef struct tt_place {
    tt_place_kind kind;
    tt_reduce reduce;    // TT_PARTIAL
    int32_t factor;      // TT_SPLIT: index into the shape's factors
    int32_t rotate;      // TT_SPLIT
    tt_window window;    // TT_SPLIT
    int32_t part, parts; // TT_SPLIT; parts 0: the rank has one block
    bool zigzag;         // TT_SPLIT; without window and parts
    uint64_t at; // not TT_SPLIT: bit c: coordinate c holds it; 0: all do
} tt_place;

typedef struct tt_mesh {
    int32_t n_axes;
    struct {
        char name[TT_NAME_BYTES];
        int32_t size;
    } axis[TT_MAX_AXES]; // ranks that differ by one differ in the last axis
} tt_mesh;

typedef struct tt_type {
    tt_dtype dtype;
    tt_shape shape; // global
    tt_place place[TT_MAX_AXES];
} tt_type;

static inline tt_place tt_place_replicate(void)
{
    return (tt_place){0};
}
static inline tt_place tt_place_split(int factor)
{
    return (tt_place){.kind = TT_SPLIT, .factor = factor};
}
static inline tt_place tt_place_partial(tt_reduce reduce)
{
    return (tt_place){.kind = TT_PARTIAL, .reduce = reduce};
}

static inline tt_place tt_place_own(void)
{
    return (tt_place){.kind = TT_OWN};
}

// Whole at the coordinates of a set, nothing elsewhere.
static inline tt_place tt_place_at(uint64_t at)
{
    return (tt_place){.at = at};
}
static inline bool tt_place_holds(const tt_place *place, int coord)
{
    return place->at == 0 || (place->at >> coord & 1) != 0;
}

bool tt_place_equal(const tt_place *a, const tt_place *b);
void tt_place_print(const tt_place *place, const tt_shape *shape, tt_str *out);

int tt_mesh_ranks(const tt_mesh *mesh);
int tt_mesh_coord(const tt_mesh *mesh, int rank, int axis);
int tt_mesh_rank_at(const tt_mesh *mesh, int rank, int axis, int coord);
// The axis of a pipeline's stages; -1: there is none, or it has one rank.
int tt_mesh_pipe(const tt_mesh *mesh);
// The coordinate of a stage: chunks of layers go round.
static inline int tt_mesh_stage_coord(int size, int32_t stage)
{
    return stage % size;
}

// The stage of a chunk, where there are two copies of a model (pass/copies.c). The second copy's come after the first's, backwards: so
// chunk c lies at coordinate P - 1 - c of P (tt_mesh_stage_coord).
static inline int32_t tt_mesh_copy_stage(int32_t n_chunks, int32_t copy,
                                         int32_t chunk)
{
    return copy == 0 ? chunk : 2 * n_chunks - 1 - chunk;
}

// The chunk of a stage, of whichever copy.
static inline int32_t tt_mesh_stage_chunk(int32_t n_chunks, int32_t stage)
{
    return stage < n_chunks ? stage : 2 * n_chunks - 1 - stage;
}

// [lo, hi) of `n` entries that coordinate `coord` of `size` holds; not of a zigzag.
void tt_place_range(const tt_place *place, int64_t n, int size, int coord,
                    int64_t *lo_out, int64_t *hi_out);

// What one rank holds of a value: local extents per factor, and the global index
// of the first local entry per factor. Two axes may split two factors of one
// value, or the same factor (then the later axis cuts the earlier one's block).
// Along one factor a rank may hold two runs of entries, if that goes zigzag: there
// local entries from `turn` on are `gap` further than those before.
typedef struct tt_local {
    tt_shape shape;                 // local
    int64_t origin[TT_MAX_FACTORS]; // global index of local 0, per factor
    int64_t global[TT_MAX_FACTORS]; // global extents, per factor
    bool zigzag; // along some factor, on every rank, also where runs touch
    int32_t turn_factor;
    int64_t turn, gap; // gap 0: one run along every factor
    bool is_absent;    // the rank holds nothing; `shape` is what holders have
} tt_local;

// Global index along factor f of local index i.
static inline int64_t tt_local_at(const tt_local *local, int f, int64_t i)
{
    const bool is_after =
        local->gap != 0 && f == local->turn_factor && i >= local->turn;
    return local->origin[f] + i + (is_after ? local->gap : 0);
}

void tt_local_whole(const tt_shape *shape, tt_local *local_out);
void tt_local_of(const tt_type *type, const tt_mesh *mesh, int rank,
                 tt_local *local_out);

// Global row-major element index of local row-major element i.
int64_t tt_local_to_global(const tt_local *local, int64_t i);

#endif
