// mix - matrices of gossip: what of replica j goes into replica i is w[i * n + j].
//
//   rows add up to 1       equal replicas stay equal
//   columns add up to 1    the mean over all replicas stays
//   both                   doubly stochastic: all come to the mean

#ifndef TT_POLICY_MIX_H
#define TT_POLICY_MIX_H

#include "base/status.h"

#include <stdint.h>

// What one mixing multiplies the distance of the replicas from their mean by at most: the
// largest factor by which the matrix stretches what has no mean. Its rows add up to 1. By power iteration;
// negative: no memory.
double tt_policy_mix_rate(const double *w, int64_t n);

// Refuses a matrix with which what one replica knows does not come to all others.
tt_status tt_policy_mix_check(const double *w, int64_t n);

#endif
