// replicas - the parameters of the pass as a struct, and what its two files share.

#ifndef TT_PASS_REPLICAS_H
#define TT_PASS_REPLICAS_H

#include "codec/codec.h"
#include "pass/copy.h"
#include "policy/policy.h"

// Replicas of one group agree (level 0), and groups with each other (level 1). Without
// groups there is one level.
enum { TT_REPLICAS_LEVELS = 2 };

typedef struct tt_replicas_level {
    const char *axis; // of the mesh: its coordinates are those who agree
    const tt_policy_def *policy;
    const void *params;
} tt_replicas_level;

typedef struct tt_replicas_params {
    tt_replicas_level level[TT_REPLICAS_LEVELS];
    int n_levels;
    // An axis of ranks that work for the same replicas and divide their samples; NULL:
    // there is none.
    const char *shared;
    // What is sent of a mean over all replicas; NULL: the numbers.
    const tt_codec_def *codec;
    const void *codec_params;
    bool feedback; // residuals are kept
    double
        gamma; // how far a replica goes to mixes of codes, if its policy leaves it open
} tt_replicas_params;

// A state of which each replica has its own.
typedef struct tt__replica_state {
    int32_t old;    // in the old graph
    tt_val model;   // as the model has it; TT_NONE: the model has none
    tt_val replica; // [replica, ...]
    tt_val work;    // of a weight: its copy in the compute precision, likewise
    bool is_weight; // that is trained
    tt_val
        group; // of a weight: the model of each group, [group, ...]; or TT_NONE
    // Of a weight, at each level: the part of the weights that it belongs to, and what the
    // policy keeps.
    int32_t part[TT_REPLICAS_LEVELS];
    tt_val state[TT_REPLICAS_LEVELS][TT_POLICY_STATES];
} tt__replica_state;

typedef struct tt__level {
    int axis;
    int64_t n; // coordinates along it
    const tt_policy_def *policy;
    const void *params;
    int first; // the stage of its first agreement
} tt__level;

// What neighbours know of a value that is sent as codes (replicas_mix.c): states.
typedef struct tt__replica_shared {
    int32_t old; // the weight, in the old graph
    bool from_model;
    tt_val public, drift;
    const tt__level *level;
    const double *pull; // of equal copies at each replica; NULL: none
} tt__replica_shared;

typedef struct tt__replicas {
    tt__rewrite r;
    const tt_replicas_params *params;
    tt__level level[TT_REPLICAS_LEVELS];
    int n_levels;
    int32_t *state_of; // old value -> index into `state`; -1: is shared
    bool *is_own;      // old value: each replica has its own
    tt__replica_state *state;
    int32_t n_states;
    tt_val mass[TT_REPLICAS_LEVELS]; // states (replicas_mass.c); or TT_NONE
    tt_val *model_of;                // old state -> the model's leaf
    tt__replica_shared *shared;
    int32_t n_shared;
} tt__replicas;

// The value as the rank has it, for itself; `drop` dims at the front are left out.
tt_val tt__replicas_take(tt__replicas *w, tt_val x, int64_t drop);
// A new state like an old value, with a name after it, of which there is one for each
// coordinate of the highest `levels` levels: [group, replica, ...].
tt_val tt__replicas_state(tt__replicas *w, int32_t old, const char *suffix,
                          int levels, tt_init init);
// A new state that belongs to no old value, of this type for each of them.
tt_val tt__replicas_extra(tt__replicas *w, const char *name, const tt_type *own,
                          int levels, tt_init init);
// x of all replicas, placed like `state`.
tt_val tt__replicas_stack(tt__replicas *w, tt_val x, tt_val state);
// A new state of so many numbers for each replica, which only the host reads and writes.
#define TT_PERIOD "exchange.period"
tt_status tt__replicas_numbers(tt__replicas *w, const char *name, int64_t n);
// One number of each replica, as one value.
tt_val tt__replicas_number(tt__replicas *w, tt_val x);
// Dims at the front of such a state.
int tt__replicas_dims(const tt__replicas *w, const tt_type *type);

// ---- segments aside ------------------------------------------------------

// The segments aside: agreements, the model from the replicas, these from the model.
tt_status tt__replicas_asides(tt__replicas *w);
tt_status tt__replicas_meeting(tt__replicas *w);
tt_status tt__replicas_spread(tt__replicas *w);

bool tt__replicas_is_coded(const tt__replicas *w);
// Nodes from `first` on run on what each rank has: a result is own along an axis where
// something that the node reads is.
void tt__replicas_place(tt__replicas *w, int32_t first);
tt_val tt__replicas_scaled(tt__replicas *w, tt_val x, double by);
// A state as a leaf of the segment that is being made, what a replica reads of it, and
// its new version. TT_NONE stays what it is.
tt_val tt__replicas_again(tt__replicas *w, tt_val state);
tt_val tt__replicas_read(tt__replicas *w, tt_val leaf);
void tt__replicas_settle(tt__replicas *w, tt_val leaf, tt_val x);
// What of x, which those of a level have, goes into their mean that is a model: policies
// may keep something beside it.
tt_val tt__replicas_counted(tt__replicas *w, const tt__replica_state *s,
                            int level, tt_val x);
// The mean along the axis of a level.
tt_val tt__replicas_mean(tt__replicas *w, int level, tt_val x);

#endif
