// sampler - the next token from the logits.
//
//   probabilities = softmax(logits / temperature) of the top_k largest, of which
//   the fewest that together reach top_p are kept
//
// Of equal logits the one with the smaller id counts as larger. The draw is a
// function of (seed, index), so the same seed gives the same text.

#ifndef TT_TEXT_SAMPLER_H
#define TT_TEXT_SAMPLER_H

#include "base/settings/opt.h"
#include "base/status.h"

#include <stdint.h>

typedef struct tt_sampler_options {
    double temperature; // 0: always the largest
    int64_t top_k;      // 0: all
    double top_p;       // 0: the largest only; 1: all
    int64_t seed;
} tt_sampler_options;
extern const tt_opt tt_sampler_option_table[];

typedef struct tt_sampler tt_sampler;

// For logits of up to `n` tokens.
tt_status tt_sampler_create(const tt_sampler_options *options, int64_t n,
                            tt_sampler **sampler_out);
void tt_sampler_destroy(tt_sampler *sampler); // NULL is fine

// Draw number `index`. NaN among the logits, or nothing to choose from, is an
// error.
tt_status tt_sampler_draw(tt_sampler *sampler, const double *logits, int64_t n,
                          int64_t index, int32_t *id_out);

#endif
