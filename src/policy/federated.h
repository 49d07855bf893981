// federated - the options of exchange.policy=federated, as a struct.

#ifndef TT_POLICY_FEDERATED_H
#define TT_POLICY_FEDERATED_H

#include "policy/server.h"

#include <stdbool.h>

typedef enum tt_client_weights {
    TT_WEIGHTS_SIZE, // by a client's number of samples
    TT_WEIGHTS_EQUAL,
} tt_client_weights;

typedef enum tt_control { TT_CONTROL_NONE, TT_CONTROL_SCAFFOLD } tt_control;

typedef struct tt_federated_params {
    tt_ps_params ps; // pace, limit, local_steps, local_lr, proximal
    double fraction;
    int64_t local_epochs; // 0: local_steps
    int weights;          // tt_client_weights
    int control;          // tt_control
    int split;            // tt_share_kind
    double alpha;
    int64_t labels;
    double over, deadline, drop; // exchange/rounds.h
    double clip, noise, delta;   // exchange/privacy.h
    bool masks;                  // exchange/masks.h
} tt_federated_params;

#endif
