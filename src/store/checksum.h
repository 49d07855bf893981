// checksum - a check of a tensor's elements that ranks can make in parts.
//
// Each element is mixed with its index in the whole tensor and the results are added
// up, so sums of parts add up to the sum of the whole, whoever read which part. Any
// change of one element changes the sum; of several, but for one case in 2^64.

#ifndef TT_STORE_CHECKSUM_H
#define TT_STORE_CHECKSUM_H

#include <stdint.h>

// Of `n` elements of `size` bytes (1, 2, 4 or 8), the first of which is element
// `first` of its tensor. `data` may lie anywhere.
uint64_t tt_checksum(const void *data, int64_t n, int64_t size, int64_t first);

// Bytes that count as one element of a file's dtype: 1 for those of other sizes.
int64_t tt_checksum_size(const char *dtype);

#endif
