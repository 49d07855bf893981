// replicas - the parameters of the pass as a struct, and what its two files share.

#ifndef TT_PASS_REPLICAS_H
#define TT_PASS_REPLICAS_H

#include "codec/codec.h"
#include "pass/copy.h"
#include "policy/policy.h"

typedef struct tt_replicas_params {
    const char *axis; // NULL: "data"
    const tt_policy_def *policy;
    const void *policy_params;
    // What is sent of a mean over all replicas; NULL: the numbers.
    const tt_codec_def *codec;
    const void *codec_params;
    bool feedback; // residuals are kept
} tt_replicas_params;

// A state of which each replica has its own.
typedef struct tt__replica_state {
    int32_t old;    // in the old graph
    tt_val model;   // as the model has it; TT_NONE: the model has none
    tt_val replica; // [replica, ...]
    tt_val work;    // of a weight: its copy in the compute precision, likewise
    int32_t part;   // of a weight: which part of the weights it belongs to
    bool is_weight; // that is trained
    tt_val state[TT_POLICY_STATES]; // of a weight: the policy's
} tt__replica_state;

typedef struct tt__replicas {
    tt__rewrite r;
    const tt_replicas_params *params;
    int axis;
    int64_t replicas;
    int32_t *state_of; // old value -> index into `state`; -1: is shared
    bool *is_own;      // old value: each replica has its own
    tt__replica_state *state;
    int32_t n_states;
    tt_val *model_of; // old state -> the model's leaf
} tt__replicas;

// The value as the rank has it, for itself; `drop` dims at the front are left out.
tt_val tt__replicas_take(tt__replicas *w, tt_val x, int64_t drop);
// A new state [replica, ...] like an old value, with a name after it.
tt_val tt__replicas_state(tt__replicas *w, int32_t old, const char *suffix,
                          bool is_common, tt_init init);
// x of all replicas, placed like `state`.
tt_val tt__replicas_stack(tt__replicas *w, tt_val x, tt_val state);

// The segments aside: agreements, the model from the replicas, these from the model.
tt_status tt__replicas_asides(tt__replicas *w);

#endif
