// replicas_mix - see replicas_mix.c.

#ifndef TT_PASS_REPLICAS_MIX_H
#define TT_PASS_REPLICAS_MIX_H

#include "pass/coded.h"
#include "pass/replicas.h"

// What replica r hears from replica r - by.
typedef struct tt__mix_link {
    int64_t by;
    bool is_even;         // it counts as much for all replicas
    const double *weight; // of each replica; 0: it hears nothing
    const char *only;     // '1' for each replica that hears; NULL: all do
    tt_val number;        // where it is not even: the weight, once it is there
} tt__mix_link;

// The matrix of one variant, by distances; n is 0: there is none.
typedef struct tt__mix {
    const tt__level *level;
    int variant, n;
    tt__mix_link self, *link;
    bool is_mean;       // all weights are equal
    const double *pull; // the sum of each row but 1; NULL: all are 0
} tt__mix;

typedef struct tt__mix_codes {
    tt_val of[TT_CODEC_ROUNDS][TT_CODEC_CODES];
} tt__mix_codes;

// A value on its way.
typedef struct tt__mixed {
    tt_val x;        // what the replica sends
    int32_t old;     // the weight that it is about
    bool from_model; // starts as the model's weight; else with zeros
    bool is_plain;   // numbers are sent, whatever the codec
    tt_val *got;     // of each link
    // As codes.
    tt__coded_near near;
    tt__mix_codes *code;          // of each link
    tt_val public, drift, before; // leaves of the states; the public copy
} tt__mixed;

// With codes: how far a replica goes to the mix.
double tt__mix_gamma(const tt__replicas *w, const tt__mix *mix);
tt_status tt__mix_begin(tt__replicas *w, const tt__level *level, int variant,
                        tt__mix *mix_out);
// x, old and from_model are set. `label` is a part of the names of states.
tt_status tt__mix_send(tt__replicas *w, const tt__mix *mix, tt__mixed *m,
                       const char *label);
// A number for each replica of a level, of the dtype of `like`.
tt_val tt__mix_number(tt__replicas *w, const tt__level *level,
                      const double *value, tt_val like);
tt_status tt__mix_take(tt__replicas *w, tt__mix *mix, tt__mixed *m,
                       tt_val *mixed_out);

#endif
