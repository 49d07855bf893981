// masks - a sum whose terms the server does not see (Bonawitz et al. 2017).
//
// The problem. A client's change of the weights tells about its data. The server needs only
// the sum of all changes.
//
// The idea. Changes become whole numbers modulo 2^64 (fixed point). Each pair of clients
// agrees on a key and makes a row of random numbers of it; one adds it, the other takes it
// away. The server sees numbers that look random; in the sum the rows cancel, exactly.
//
//   client 0   x0 + b0 + r01 + r02
//   client 1   x1 + b1 - r01 + r12        b: a row of each client's own
//   client 2   x2 + b2 - r02 - r12        sum = x0 + x1 + x2 + b0 + b1 + b2
//
// A client that goes away leaves its rows in the others' numbers. So each shares its two
// secrets (its private key, and the seed of b) out to all clients before it sends: any
// `threshold` of them can put a secret together again, fewer know nothing (Shamir 1979).
// Those who are left show the server their shares of the private keys of those who are
// gone, and of the seeds of those who are not: never both of one client.
//
// What it is worth. The arithmetic is the protocol's; the strength is not. Keys are agreed
// by Diffie-Hellman modulo 2^61 - 1, which takes seconds to break, random rows are Philox's,
// and all secrets follow from the seed of the run, so that a run can be repeated. It shows
// what the server needs to see and what it costs; it keeps nothing from an attacker.
//
// Cost, of n clients that were asked and m numbers: n m random numbers at a client; at the
// server as many, and n m more for each client that is gone.

#ifndef TT_EXCHANGE_MASKS_H
#define TT_EXCHANGE_MASKS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_masks { // of one round
    uint64_t seed;
    int64_t round;
    int32_t n;         // clients that were asked
    int32_t threshold; // as many must be left
} tt_masks;

// More than half of those who were asked.
tt_masks tt_masks_of(uint64_t seed, int64_t round, int32_t n);

// Fixed point: 32 bits behind the point. Whether n such numbers can be added.
bool tt_masks_fits(double x, int32_t n);
uint64_t tt_masks_encode(double x);
double tt_masks_decode(uint64_t v);

// What client i of the round (from 0) adds to its numbers.
void tt_masks_hide(const tt_masks *masks, int32_t i, uint64_t *v, int64_t n);
// Takes what is left of the masks out of the sum of those who are there. Fails when they
// are too few: then the round is lost.
tt_status tt_masks_reveal(const tt_masks *masks, const bool *is_there,
                          uint64_t *sum, int64_t n);

// A secret of client i shared out by a polynomial of degree threshold - 1: the share of
// client k; and the secret from `threshold` shares of clients k[].
uint64_t tt_masks_share(uint64_t secret, uint64_t key, int32_t threshold,
                        int32_t k);
uint64_t tt_masks_join(const int32_t *k, const uint64_t *share, int32_t n);

#endif
