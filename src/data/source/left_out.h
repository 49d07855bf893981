// left_out - files beside the samples that are not read, counted by the ends of their
// names, so that nothing is dropped without a word.

#ifndef TT_DATA_SOURCE_LEFT_OUT_H
#define TT_DATA_SOURCE_LEFT_OUT_H

#include "base/arena.h"

#include <stdint.h>

enum { TT_LEFT_OUT_KINDS = 8, TT_LEFT_OUT_CHARS = 12 };

typedef struct tt_left_out { // zero-initialise
    int64_t n, others;       // all; of kinds that have no place here
    int n_kinds;
    struct {
        char end[TT_LEFT_OUT_CHARS]; // "webp"; "": no dot in the name
        int64_t n;
    } kind[TT_LEFT_OUT_KINDS];
} tt_left_out;

void tt_left_out_add(tt_left_out *left, const char *name);

// "3 files are left out: 2 .webp, 1 .txt", in the arena; NULL when there are none, or
// no memory.
const char *tt_left_out_text(const tt_left_out *left, tt_arena *arena);

#endif
