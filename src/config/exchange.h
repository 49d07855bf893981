// exchange - how ranks exchange what they computed: exchange.*
//
// Most of these settings decide what is computed: another policy is another run, so a
// run goes on under the same ones only. Two decide only when something is sent, and may
// change: exchange.bucket and exchange.order.
//
// A policy is one entry in the array in exchange.c. It may have settings of its own,
// which exist only if it is the one that is used.

#ifndef TT_CONFIG_EXCHANGE_H
#define TT_CONFIG_EXCHANGE_H

#include "base/settings/settings.h"

typedef struct tt_exchange {
    int policy;     // index of tt_exchange_policies
    int64_t bucket; // bytes; 0: as measured
    int order;      // tt_flight_order
} tt_exchange;

// One way in which gradients of ranks become one.
typedef struct tt_exchange_policy {
    const char *name;
    const tt_opt
        *options; // exchange.* that only it has, in tt_exchange; or NULL
} tt_exchange_policy;

const tt_exchange_policy *tt_exchange_policies(int *n_out);

// The one that exchange.policy names. A name that there is not is found by the table
// below; the usual one then stands in.
const tt_exchange_policy *tt_exchange_policy_of(const tt_settings *settings);

// All of exchange.* under a policy, in the arena; offsets are into tt_exchange.
tt_status tt_exchange_table(const tt_exchange_policy *policy, tt_arena *arena,
                            const tt_opt **table_out);

// Defaults, then what the settings say; each is marked as used.
tt_status tt_exchange_read(tt_settings *settings, tt_arena *arena,
                           tt_exchange *exchange_out);

// Whether a setting is one of those that decide only when something is sent.
bool tt_exchange_is_timing(const char *key);

#endif
