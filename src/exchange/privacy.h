// privacy - how much a federation has told about any one client: (epsilon, delta).
//
// The problem. Each round adds up changes that were clipped to a length S, and noise of
// deviation sigma S. With every round whoever sees the weights can tell a little better
// whether a client took part. How much better is epsilon, but for a chance of delta.
//
// The idea. Add up the Renyi divergence of order alpha, which over rounds is a plain sum,
// and turn it into (epsilon, delta) once, at the order that is best. Of the Gaussian with
// clients that are asked by chance q (Mironov 2019), at whole orders:
//
//   D(alpha) = 1 / (alpha - 1) log sum_k C(alpha, k) (1 - q)^(alpha - k) q^k
//                                        exp(k (k - 1) / (2 sigma^2))
//   epsilon  = min over alpha of  rounds D(alpha) + log(1 / delta) / (alpha - 1)
//
// It is the moments accountant of Abadi 2016. Cost: a few ten thousand exponentials.

#ifndef TT_EXCHANGE_PRIVACY_H
#define TT_EXCHANGE_PRIVACY_H

#include <stdint.h>

// Infinity without noise; 0 before the first round.
double tt_privacy_epsilon(double q, double sigma, int64_t rounds, double delta);

#endif
