// codec_trial - a codec at work between replicas that are one process: what laws look at.

#ifndef TT_CHECK_CODEC_TRIAL_H
#define TT_CHECK_CODEC_TRIAL_H

#include "codec/codec.h"
#include "interp/interp.h"

enum { TT_TRIAL_PEERS = 4 };

typedef struct tt_trial_options {
    const tt_codec_def *codec;
    const char *options; // text, over the defaults
    const char *shape;   // of the tensor
    tt_dtype dtype;
    int peers;
    bool feeds_back;
    bool is_merged; // codes are lists, as for merging
} tt_trial_options;

// Memory of replica r: what it wants to send, what it still owes, the codec's states.
typedef struct tt_trial {
    tt_trial_options asked;
    tt_arena *arena;
    void *params;
    tt_graph *graph;
    tt_interp *interp;
    int64_t n; // elements
    tt_val x[TT_TRIAL_PEERS], residual[TT_TRIAL_PEERS];
    int n_states;
    tt_val state[TT_TRIAL_PEERS][TT_CODEC_STATES];
    // After a step; codes of the last round.
    tt_val sum[TT_TRIAL_PEERS], left[TT_TRIAL_PEERS];
    tt_val next[TT_TRIAL_PEERS][TT_CODEC_STATES];
    tt_val code[TT_TRIAL_PEERS][TT_CODEC_CODES];
    int n_codes;
    int64_t code_bytes; // of all rounds, of one replica
} tt_trial;

tt_status tt_trial_init(tt_trial *t, const tt_trial_options *asked);
void tt_trial_fini(tt_trial *t);

// One exchange. Residuals and states go on from the step before.
tt_status tt_trial_step(tt_trial *t, int64_t step);

// Numbers of a value, as doubles; room for as many as it has.
void tt_trial_write(tt_trial *t, tt_val v, const double *data);
void tt_trial_read(tt_trial *t, tt_val v, double *data);

#endif
