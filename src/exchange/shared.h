// shared - a vector that several ranks read and change at the same time, without locks
// (Hogwild).
//
// A lock for every update would make workers wait for each other, and most updates touch what
// nobody else touches at that moment. So nobody locks: a word is read, changed and written
// back, and once in a while two do that at once and one of the two changes is lost.
//
//   seen   what this worker has read      next   where its step leads from there
//
//   word == seen    becomes next          nobody was here meanwhile
//   word != seen    word + (next - seen)  somebody was: the change is added to his
//
// Alone a worker therefore has the bits of plain training, whatever its optimiser is.
//
// Words are read and written by relaxed atomic instructions of 8 bytes, which on the usual
// processors are plain ones: what a race costs is defined, and the compiler may not read a
// word twice. Arithmetic is on blocks in the worker's own memory. With bf16 words a change is
// rounded up or down at random, so that its mean is right; else all small changes would
// be lost (Buckwild).
//
//   cost   one pass over the vector per update, one more to fetch it

#ifndef TT_EXCHANGE_SHARED_H
#define TT_EXCHANGE_SHARED_H

#include "exchange/vector.h"

typedef struct tt_shared {
    tt_vector_span span; // of what workers compute with
    bool is_narrow;      // words are bf16; else as the span says
    void *words;         // tt_shared_bytes of them, at a multiple of 8
} tt_shared;

int64_t tt_shared_bytes(const tt_shared *shared);

// All words at once.
void tt_shared_read(const tt_shared *shared, void *to);
// For somebody who is alone with it; narrow words are rounded to the nearest.
void tt_shared_write(const tt_shared *shared, const void *from);

// Adds what a worker has moved; `next` is then what the words have become. `key` is that
// of the random numbers.
void tt_shared_add(const tt_shared *shared, const void *seen, void *next,
                   uint64_t key);

// Both move half of the way to each other.
void tt_shared_join(const tt_shared *x, const tt_shared *y, uint64_t key);

// next - seen becomes one of 255 steps, from -127 to 127 times a 127th of the largest; the
// mean of many is right.
void tt_shared_coarsen(const tt_vector_span *span, const void *seen, void *next,
                       uint64_t key);

#endif
