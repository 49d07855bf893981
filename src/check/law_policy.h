// law_policy - what the files of the law `policy` share: a job whose replicas begin with
// random weights, with a learning rate of 0.

#ifndef TT_CHECK_LAW_POLICY_H
#define TT_CHECK_LAW_POLICY_H

#include "check/law.h"
#include "job/job.h"

enum { TT_LAW_WEIGHTS = 16 };

// One weight of the model, and of all replicas.
typedef struct tt__law_policy_weight {
    const tt_tensor *model, *replica;
    double *x, *mean; // [replicas][n], [n]
} tt__law_policy_weight;

typedef struct tt__law_policy_subject {
    tt_law_report *r;
    const tt_policy_def *policy;
    const char *sample;
    const tt_codec_def *codec; // NULL: none
    const char
        *gamma; // exchange.gamma with a codec; NULL: what is found for it
    int64_t replicas;
    int64_t group; // replicas in a group; without groups all of them
    tt_arena *arena;
    tt_job *job;
    tt__law_policy_weight weight[TT_LAW_WEIGHTS];
    int n;
} tt__law_policy_subject;

tt_status tt__law_policy_open(tt__law_policy_subject *s);
// Finds the weights and gives the replicas random ones, which are in `x` then.
tt_status tt__law_policy_scatter(tt__law_policy_subject *s);

// Policies whose replicas mix with neighbours.
tt_status tt__law_policy_check_mixes(tt_law_report *r);

#endif
