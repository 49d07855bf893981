// exchange - how ranks exchange what they computed: exchange.*
//
// Most of these settings decide what is computed: another policy is another run, so a
// run goes on under the same ones only. Five decide only when and how something is sent,
// and may change: exchange.meet, exchange.bucket, exchange.order, exchange.chunks and
// exchange.sparse.
//
// A policy is a def (policy/policy.h). It may have settings of its own, which exist only
// if it is the one that is used.

#ifndef TT_CONFIG_EXCHANGE_H
#define TT_CONFIG_EXCHANGE_H

#include "base/settings/settings.h"
#include "codec/codec.h"
#include "policy/policy.h"

enum { TT_POLICY_PARAMS = 512 }; // bytes, at most

// Whether residuals are kept.
typedef enum tt_feedback {
    TT_FEEDBACK_AUTO, // where the codec needs it
    TT_FEEDBACK_ON,
    TT_FEEDBACK_OFF,
} tt_feedback;

// Between groups of replicas: exchange.outer.*
typedef struct tt_exchange_outer {
    int policy; // 0: none; then the static ones, in the order of tt_policy_all
    _Alignas(16) char params[TT_POLICY_PARAMS]; // of the policy's own table
} tt_exchange_outer;

typedef struct tt_exchange {
    int policy;         // index of tt_policy_all
    int codec;          // index of tt_codec_all
    int feedback;       // tt_feedback
    int64_t replicas;   // 0: as many as ranks along data
    int64_t group;      // replicas in a group; 0: there are no groups
    int64_t meet;       // steps between two meetings at most; 0: log.every
    void *codec_params; // of its own table
    int64_t bucket;     // bytes; 0: as measured
    int order;          // tt_flight_order
    int64_t chunks;     // more than 1: sums may end in the next step
    int sparse;         // tt_sparse_way (pass/coded.h)
    // Of the policy's own table: the struct that its def says.
    _Alignas(16) char policy_params[TT_POLICY_PARAMS];
    tt_exchange_outer outer;
} tt_exchange;

// The policy that exchange.policy names. A name that there is not is found by the table
// below; the usual one then stands in.
const tt_policy_def *tt_exchange_policy_of(const tt_settings *settings);
const tt_policy_def *tt_exchange_policy(const tt_exchange *exchange);

// The policy between groups that exchange.outer.policy names; NULL: none.
const tt_policy_def *tt_exchange_outer_of(const tt_settings *settings);
const tt_policy_def *tt_exchange_outer_policy(const tt_exchange *exchange);
// All of exchange.outer.* under a policy; offsets are into tt_exchange_outer.
tt_status tt_exchange_outer_table(const tt_policy_def *policy, tt_arena *arena,
                                  const tt_opt **table_out);

// All of exchange.* under a policy (NULL: what every policy has), in the arena; offsets are
// into tt_exchange.
tt_status tt_exchange_table(const tt_policy_def *policy, tt_arena *arena,
                            const tt_opt **table_out);

// The codec that exchange.codec names, likewise.
const tt_codec_def *tt_exchange_codec_of(const tt_settings *settings);
// Room for its options.
tt_status tt_exchange_room(const tt_settings *settings, tt_arena *arena,
                           tt_exchange *exchange);
const tt_codec_def *tt_exchange_codec(const tt_exchange *exchange);

// Whether replicas have weights of their own.
bool tt_exchange_differs(const tt_exchange *exchange);
// Whether they agree in ways that are known beforehand.
bool tt_exchange_is_static(const tt_exchange *exchange);
// Whether replicas send something else than their gradients.
bool tt_exchange_is_coded(const tt_exchange *exchange);
bool tt_exchange_has_feedback(const tt_exchange *exchange);

// Defaults, then what the settings say; each is marked as used.
tt_status tt_exchange_read(tt_settings *settings, tt_arena *arena,
                           tt_exchange *exchange_out);

// Refuses options of policies and codecs that are not used, and names who has them.
tt_status tt_exchange_check_options(const tt_settings *settings);

// Whether a setting is one of those that decide only when something is sent.
bool tt_exchange_is_timing(const char *key);

// Whether a setting is about gradients that are old because of pipe.schedule: without stages
// it has no meaning.
bool tt_exchange_is_of_stages(const tt_settings *settings, const char *key);

#endif
