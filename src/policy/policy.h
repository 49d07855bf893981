// policy - how replicas of a model come to agree: what each does with the others' work,
// with whom it speaks, and how often.
//
// A policy is a def: a name, options (exchange.*, which exist only if it is the one that
// is used), what is true of it, and functions. Three kinds:
//
//   sum       gradients are added in every step, so weights are equal everywhere
//   static    replicas have weights of their own. Who speaks with whom, and after which
//             step, is known beforehand: nodes of the graph
//   dynamic   it depends on who is ready: messages, and a place that keeps the weights
//
// A static policy takes every weight through an agreement, which runs after some steps:
//
//   replica i   x -> send -> sent \                  / got -> take -> new x
//                                  +- mean of all, --+
//   replica j   x -> send -> sent /   or a mix        \ got -> take -> new x
//
// A mix is a matrix: what of replica j goes into replica i. Only neighbours' entries are
// not 0, and only they are sent. How it is done, with codes too, is the business of
// pass/replicas_mix.c.
//
// Agreements may come in variants (another neighbour in each, another part of the
// weights); `is_due` says which run after a step. Beside the replicas' weights there is
// the model's: what is evaluated, sampled and saved. Some policies keep it up to date in
// agreements (a centre, an anchor), for the others it is the mean of the replicas.
//
// The folder policy: policies as the user sees them. Who carries them out is not known
// here; nothing here touches a number.

#ifndef TT_POLICY_POLICY_H
#define TT_POLICY_POLICY_H

#include "graph/build.h"

enum { TT_POLICY_STATES = 3, TT_POLICY_GOT = 2, TT_POLICY_VARIANTS = 64 };

typedef enum tt_policy_kind {
    TT_POLICY_SUM,
    TT_POLICY_STATIC,
    TT_POLICY_DYNAMIC,
} tt_policy_kind;

// A state that a policy keeps for each weight, in the weight's shape.
typedef struct tt_policy_state {
    const char *name; // "momentum"
    bool is_common;   // the same in all replicas
    bool from_model;  // starts as the model's weight; else with zeros
} tt_policy_state;

// One weight on its way through an agreement. `x`, `sent` and a mix are the replica's own;
// the model and the mean are the same in all replicas.
typedef struct tt_agreement {
    const void *params;
    int64_t replicas;
    int variant;
    bool
        is_coded; // what is sent loses something: it must be a change of the model
    tt_val x, model;
    tt_val state[TT_POLICY_STATES];
    tt_val sent; // set by send
    tt_val also; // a second value that is sent; TT_NONE: there is none
    tt_val got[TT_POLICY_GOT]; // of both: the mean of what all sent, or a mix
    tt_val per_mass; // of policies with mass: 1 over what the replica has of it
    // Set by take; TT_NONE: it stays as it is.
    tt_val x_out, model_out;
    tt_val state_out[TT_POLICY_STATES];
} tt_agreement;

// How far the next agreement is, where that depends on the loss: a state of each replica
// (exchange.period), of which all but the sums are the same in all of them.
enum { TT_PERIOD_NUMBERS = 5 };

typedef struct tt_period {
    double every;       // steps between two agreements; 0: none was yet
    double last;        // the step after which they agreed last
    double first_loss;  // mean over the steps before the first agreement
    double loss, count; // sums over the steps since they agreed last
} tt_period;

typedef struct tt_policy_def {
    const char *name, *doc;
    const char *paper; // who described it; NULL: nobody in particular
    tt_policy_kind kind;
    int peer; // of a dynamic one: what workers with weights of their own do
              // (tt_peer_kind); 0: a server has the weights
    bool is_drawn; // of a dynamic one: its clock is always drawn from the seed
    const tt_opt *options; // exchange.*; NULL: none
    int64_t params_bytes;
    // Refuses options that have no meaning for so many replicas; NULL: all have one.
    tt_status (*check)(const void *params, int64_t replicas);

    // Of static policies.
    // How many variants there are; NULL: one.
    int (*variants)(const void *params, int64_t replicas);
    // Whether a variant runs after step `step` (from 1 on).
    bool (*is_due)(const void *params, int64_t replicas, int64_t step,
                   int variant);
    // Whether steps between agreements depend on the loss. Then there is one variant, which
    // is due as `is_time` says, and `retime` follows an agreement: sums are over all
    // replicas. NULL: is_due says all.
    bool (*is_retimed)(const void *params);
    bool (*is_time)(const void *params, const tt_period *period, int64_t step);
    void (*retime)(const void *params, tt_period *period);
    // Parts of the weights, of which variant i agrees about part i; NULL: one part, about
    // which all variants do.
    int (*parts)(const void *params);
    // What variants after those of the parts do, which send nothing: with part 0, 1, ... of
    // the weights, some steps after these were agreed about. NULL: there are none.
    tt_status (*late)(tt_builder *b, tt_agreement *a);
    // What of replica j goes into replica i: w[i * replicas + j], which is 0 before. False,
    // or NULL: the mean over all.
    bool (*mix)(const void *params, int64_t replicas, int variant, double *w);
    // Whether columns of the matrix add up to 1, but not rows. Then replicas have a mass,
    // which is 1 at first and mixed as weights are. NULL: no.
    bool (*has_mass)(const void *params);
    // With a codec: how far a replica goes to a mix of public copies; 0: as far as the codec
    // allows; NULL: 1.
    double (*gamma)(const void *params);
    // The states that it keeps, and how many.
    int (*states)(const void *params, const tt_policy_state **state_out);
    // Whether agreements keep the model; NULL: no, it is the mean of the replicas.
    bool (*keeps_model)(const void *params);
    // What of a replica goes into the mean that is the model; NULL: its weights.
    tt_val (*counts)(tt_builder *b, const tt_agreement *a);
    // Replicas of a group follow the group's model by themselves: what groups agree about
    // moves it alone, not them.
    bool model_leads;
    tt_status (*send)(tt_builder *b, tt_agreement *a); // NULL: x is sent
    tt_status (*take)(tt_builder *b, tt_agreement *a);
    // What happens to weights of other parts than the variant's, of which nothing is sent;
    // NULL: they stay as they are.
    tt_status (*rest)(tt_builder *b, tt_agreement *a);
    // What a code does not say is still in what is sent the next time, so that there are no
    // residuals.
    bool keeps_rest;
    // What it sends is of a kind that this codec makes shorter without loss; NULL: it is
    // sent as it is, or by the codec that was asked for.
    const char *codec;
    // Without training: by what the distance of the replicas from their mean is
    // multiplied at most, by an agreement.
    double (*rate)(const void *params, int64_t replicas, int variant);
    // Texts of options that the law `policy` and the tests try; NULL ends the list.
    const char *const *samples;
} tt_policy_def;

// The first is the usual one.
const tt_policy_def *const *tt_policy_all(int *n);
const tt_policy_def *tt_policy_find(const char *name); // or NULL

// The functions of a def, or what holds without them.
int tt_policy_variants(const tt_policy_def *def, const void *params,
                       int64_t replicas);
bool tt_policy_mix(const tt_policy_def *def, const void *params,
                   int64_t replicas, int variant, double *w);
int tt_policy_states(const tt_policy_def *def, const void *params,
                     const tt_policy_state **state_out);
bool tt_policy_is_retimed(const tt_policy_def *def, const void *params);
bool tt_policy_has_mass(const tt_policy_def *def, const void *params);
bool tt_policy_keeps_model(const tt_policy_def *def, const void *params);

// What a replica has changed and not told yet, if it goes on from x = model + untold / n
// with state[0] what it had not told before the step.
tt_val tt_policy_untold(tt_builder *b, const tt_agreement *a);

// a + factor b, for weights.
tt_val tt_policy_add(tt_builder *b, tt_val x, double factor, tt_val y);

#endif
