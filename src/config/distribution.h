// distribution - the settings that say on how many ranks a job runs, who holds
// what, how they communicate, and with which instructions they compute: mesh.*
// layout.* pipe.* zero collective transport comm.* loss.* trial.* isa
//
// None of them changes what is computed (but for the order of sums), so a run goes
// on under others. The exceptions are schedules of stages that do not empty the pipe before
// each update (docs/pipelines.md): pipe.schedule and pipe.steps; and layout.codec, whose
// codes lose something (docs/exchange.md).

#ifndef TT_CONFIG_DISTRIBUTION_H
#define TT_CONFIG_DISTRIBUTION_H

#include "codec/codec.h"
#include "config/options.h"
#include "pass/partition/layout.h"

// What `transport` may be besides auto, and what the hosts then use: NCCL is between
// devices.
#define TT_TRANSPORTS(X)                                                       \
    X(SELF, "self", "self")                                                    \
    X(SHM, "shm", "shm")                                                       \
    X(MPI, "mpi", "mpi")                                                       \
    X(NCCL, "nccl", "auto")

#define TT_TRANSPORT(id, name, between_hosts) TT_TRANSPORT_##id,
typedef enum tt_transport {
    TT_TRANSPORT_AUTO,
    TT_TRANSPORTS(TT_TRANSPORT)
} tt_transport;
#undef TT_TRANSPORT

// What lies in the host's memory while a device does not need it.
typedef enum tt_offload {
    TT_OFFLOAD_NONE,
    TT_OFFLOAD_OPTIMISER,
    TT_OFFLOAD_ACTIVATIONS,
    TT_OFFLOAD_ALL,
} tt_offload;

// The axes of the mesh.
typedef enum tt_axis {
    TT_AXIS_NONE = -1,
    TT_AXIS_DATA,
    TT_AXIS_EXPERT,
    TT_AXIS_SPACE,
    TT_AXIS_CONTEXT,
    TT_AXIS_TENSOR,
    TT_AXIS_PIPE, // stages: it cuts layers, not dimensions
    TT_N_AXES,
} tt_axis;
extern const char *const tt_axis_name[TT_N_AXES];
extern const char *const tt_offload_name[TT_OFFLOAD_ALL + 1];

// Dimensions that have a key layout.DIM, and the axis that splits each by default;
// NONE: no axis does.
#define TT_DISTRIBUTION_DIMS(X)                                                \
    X(batch, DATA)                                                             \
    X(heads, TENSOR)                                                           \
    X(kv_heads, TENSOR)                                                        \
    X(ff, TENSOR)                                                              \
    X(vocab, TENSOR)                                                           \
    X(hidden, TENSOR)                                                          \
    X(seq, CONTEXT)                                                            \
    X(height, SPACE)                                                           \
    X(width, NONE)                                                             \
    X(filters, NONE)                                                           \
    X(channels, NONE)                                                          \
    X(embed, NONE)                                                             \
    X(classes, NONE)                                                           \
    X(experts, EXPERT)
enum {
#define TT_DIM(name, axis) TT_DIM_##name,
    TT_DISTRIBUTION_DIMS(TT_DIM)
#undef TT_DIM
        TT_N_DIMS
};

#define TT_USUAL_ORDER "pipe,data,expert,space,context,tensor" // of mesh.order

typedef struct tt_distribution {
    int64_t
        axis[TT_N_AXES]; // mesh.*; 0: of data all that are left, of others one
    bool is_counted;     // -n says how many ranks a plan has
    bool has_data;       // somebody has set mesh.data
    const char *axes;    // mesh.order: the last is the nearest
    int dim[TT_N_DIMS];  // layout.*: 0 auto, 1 none, then the axes
    const char *rules;   // layout.rules, then layout.LAYERS.*
    tt_layout written;   // the same, parsed
    bool zigzag;         // layout.zigzag
    int attention;       // layout.attention: 0 ring, 1 all_to_all
    int terms;           // layout.terms: 0 auto, 1 narrow, 2 wide
    const char *codec;   // layout.codec: what is sent of activations
    void *codec_params;  // of its own table: layout.codec.*
    int64_t zero;
    int offload; // tt_offload
    // pipe.*
    int64_t pipe_chunks;       // virtual stages of a rank
    const char *pipe_cut;      // names of layers, or "auto"
    const char *pipe_schedule; // name of a schedule or of a file, or "auto"
    int64_t pipe_steps;        // between two drains; 0: as many as fit
    const char *collective;
    int transport; // tt_transport
    int isa;       // tt_isa
    // Whose settings were put in before (system/system.h); nobody reads it.
    const char *system;
    int64_t chunks;   // loss.chunks; 0: as few as fit
    const char *pace; // trial.pace; "": none
    // comm.*
    double deadline;
    double slow_rate, slow_latency;
    const char *fault;
} tt_distribution;

// Offsets are into tt_distribution; ends with a NULL table.
extern const tt_section tt_distribution_sections[];

// The codec that layout.codec names. A name that there is not is found when settings are
// read; the usual one then stands in.
const tt_codec_def *tt_distribution_codec_of(const tt_settings *settings);
// Room for its options.
tt_status tt_distribution_codec_room(const tt_settings *settings,
                                     tt_arena *arena,
                                     tt_distribution *distribution);
// The codec that is used; NULL: none.
const tt_codec_def *tt_distribution_codec(const tt_distribution *distribution);

// Defaults, then what the settings say; each is marked as used. Refuses what no
// number of ranks makes right.
tt_status tt_distribution_read(tt_settings *settings, tt_arena *arena,
                               tt_distribution *distribution_out);

// What no table says, after the tables were read: rules for some layers, and whether
// the collective exists.
tt_status tt_distribution_finish(tt_settings *settings, tt_arena *arena,
                                 tt_distribution *distribution);

// Whether a setting decides only where and when: it is one of these, or of those of
// exchange.* that decide when.
bool tt_distribution_has(const char *key);
// The same of a setting among others, or whether it is about what is distributed so.
bool tt_distribution_needs(const tt_settings *settings, const char *key);

// Whether it is layout.LAYERS.DIM: the axis that cuts a dimension in some layers.
// Checks the value.
bool tt_distribution_is_rule(const char *key);
tt_status tt_distribution_check_rule(const tt_setting *setting);

// The ranks as a mesh, and which dimensions of a graph its axes cut.
typedef struct tt_grid {
    int32_t ranks;
    bool is_open; // the mesh decides how many ranks there are
    int32_t data; // ranks that divide the batch
    int64_t size[TT_N_AXES];
    const char *mesh; // "data:2 tensor:4"; axes of one rank are left out
    tt_layout layout;
    const char *layout_text; // "batch:data heads:tensor"
} tt_grid;

// Whether ranks share layers, and send each other activations: what layout.codec is for.
bool tt_grid_shares_layers(const tt_grid *grid);

// What layout.DIM says: the axis that cuts it, TT_AXIS_NONE where it names none.
tt_axis tt_distribution_axis(const tt_distribution *distribution, int dim);
const char *tt_dim_name(int dim);

// Whether somebody named this dimension: layout.NAME or a rule does.
bool tt_distribution_is_set(const tt_distribution *distribution,
                            const char *name);

// An axis that cuts dimensions; -1: there is none.
int tt_axis_find(const char *name);
// Fails: `key` names an axis that is none.
tt_status tt_axis_unknown(const char *key, const char *name);

// `ranks` 0: as many as the mesh has; `usual`: rules of the model's family, for what
// the settings leave open (NULL: none). Text lies in the arena.
tt_status tt_grid_make(const tt_distribution *distribution, int32_t ranks,
                       const char *usual, tt_arena *arena, tt_grid *grid_out);

// The mesh of a grid with so many ranks along data.
tt_status tt_grid_mesh(const tt_distribution *distribution, const tt_grid *grid,
                       int64_t data, tt_arena *arena, const char **mesh_out);
// The same with so many along data, and behind each so many along a further axis: those
// of a group.
tt_status tt_grid_mesh_groups(const tt_distribution *distribution,
                              const tt_grid *grid, int64_t data, int64_t group,
                              tt_arena *arena, const char **mesh_out);

#endif
