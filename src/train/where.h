// where - the settings that say on how many ranks a job runs, who holds what, and how
// they exchange what they must: mesh.* layout.* zero exchange.* collective transport
// comm.*
//
// None of them changes what is computed (but for the order of sums), so a run goes
// on under others.

#ifndef TT_TRAIN_WHERE_H
#define TT_TRAIN_WHERE_H

#include "train/options.h"

typedef enum tt_transport {
    TT_TRANSPORT_AUTO,
    TT_TRANSPORT_SELF,
    TT_TRANSPORT_SHM,
    TT_TRANSPORT_MPI,
} tt_transport;

// The axes of the mesh.
typedef enum tt_axis {
    TT_AXIS_DATA,
    TT_AXIS_EXPERT,
    TT_AXIS_SPACE,
    TT_AXIS_CONTEXT,
    TT_AXIS_TENSOR,
    TT_N_AXES,
} tt_axis;
extern const char *const tt_axis_name[TT_N_AXES];

enum {
    TT_LAYOUT_DIMS = 16
}; // room for dimensions that have a key of their own

typedef struct tt_where {
    int64_t
        axis[TT_N_AXES]; // mesh.*; 0: of data all that are left, of others one
    const char *axes;    // mesh.order: the last is the nearest
    int dim[TT_LAYOUT_DIMS]; // layout.*: 0 auto, 1 none, then the axes
    const char *rules;       // layout.rules
    int64_t zero;
    const char *collective;
    int transport; // tt_transport
    // exchange.*
    int policy, order; // order: tt_flight_order
    int64_t bucket;    // bytes; 0: as measured
    // comm.*
    double deadline;
    double slow_rate, slow_latency;
    const char *fault;
} tt_where;

// Offsets are into tt_where; ends with a NULL table.
extern const tt_section tt_where_sections[];

// Defaults, then what the settings say; each is marked as used. Refuses what no
// number of ranks makes right.
tt_status tt_where_read(tt_settings *settings, tt_arena *arena,
                        tt_where *where_out);

// Whether a setting is one of these.
bool tt_where_has(const char *key);

// The ranks as a mesh, and which dimensions of a graph its axes cut.
typedef struct tt_grid {
    int32_t ranks;
    int32_t data; // that share the batch
    int64_t size[TT_N_AXES];
    const char *mesh;   // "data:2 tensor:4"; axes of one rank are left out
    const char *layout; // "batch:data heads:tensor"
} tt_grid;

// Whether layout.NAME says something else than auto.
bool tt_where_is_set(const tt_where *where, const char *name);

// `ranks` 0: as many as the mesh has. Text lies in the arena.
tt_status tt_where_grid(const tt_where *where, int32_t ranks, tt_arena *arena,
                        tt_grid *grid_out);

// The mesh of a grid with so many ranks along data.
tt_status tt_where_mesh(const tt_where *where, const tt_grid *grid,
                        int64_t data, tt_arena *arena, const char **mesh_out);

#endif
