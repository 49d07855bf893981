// alloc - the only door to the heap, so that tests can make it fail.
//
// Thread-safe. Memory is zeroed. Sizes are checked: a negative or absurd size
// is an allocation failure, never an overflow.

#ifndef TT_BASE_ALLOC_H
#define TT_BASE_ALLOC_H

#include <stdint.h>

// Returns zeroed memory, or NULL (no message is recorded).
void *tt_alloc(int64_t bytes);

// Grows or shrinks; new bytes are zero. On failure the old block stays.
void *tt_realloc(void *old, int64_t old_bytes, int64_t new_bytes);

// Zeroed memory at a multiple of `align` (a power of two, at least 64).
// Large blocks come straight from the system, so untouched pages cost nothing.
void *tt_alloc_aligned(int64_t bytes, int64_t align);

void tt_free(void *block);         // NULL is fine
void tt_free_aligned(void *block); // for tt_alloc_aligned; NULL is fine

// Fault injection: the k-th allocation from now on fails (k = 1 is the next
// one), and only that one; 0 switches it off. Counts across all threads.
void tt_alloc_fail_at(int64_t k);

// Allocations made since the last tt_alloc_fail_at; blocks alive now.
int64_t tt_alloc_count(void);
int64_t tt_alloc_live(void);

// Bytes held now, and the most since the last reset.
int64_t tt_alloc_bytes(void);
int64_t tt_alloc_peak(void);
void tt_alloc_peak_reset(void);

#endif
