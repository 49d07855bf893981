// chain - a list of passes with their options. It turns the model's graph into the
// graph that a job runs.
//
// Whoever adds a pass need not know what comes before and after it: a chain keeps the
// order of list.h, which says why each stands where it does.

#ifndef TT_PASS_CHAIN_H
#define TT_PASS_CHAIN_H

#include "pass/pass.h"

enum { TT_CHAIN_MOST = 16, TT_CHAIN_PARAMS = 128 };

typedef struct tt_chain_link {
    const tt_pass_def *def; // NULL: this pass is not applied
    _Alignas(16) char params[TT_CHAIN_PARAMS];
} tt_chain_link;

typedef struct tt_chain { // all zero: empty
    tt_chain_link link[TT_CHAIN_MOST];
} tt_chain;

// `params` (NULL: the pass has none) are copied; texts in them are borrowed.
void tt_chain_add(tt_chain *chain, const tt_pass_def *def, const void *params);

// *graph becomes what the passes make of it, one after the other. On failure it is
// what the last good one made.
tt_status tt_chain_apply(const tt_chain *chain, tt_graph **graph);

#define TT_PASS(name) extern const tt_pass_def tt_pass_##name;
#include "pass/list.h"
#undef TT_PASS

#endif
