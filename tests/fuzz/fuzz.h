// fuzz.h - how a reader is fuzzed.
//
//   FUZZ(idx)            // tests/fuzz/fuzz_idx.c, corpus in tests/fuzz/corpus/idx
//   {
//       ... read the `n` bytes at `data`; whatever they say, it must not crash
//   }
//
// `make fuzz` builds build/fuzz/idx with libFuzzer; `make test` replays the corpus
// and checks that no input made the reader hold more than its size and 64 MiB.

#ifndef TT_TESTS_FUZZ_H
#define TT_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

// The bytes as a file that can be opened by this name until the next call. The
// name ends with `suffix` (".gz"; "" when it does not matter).
const char *tt_fuzz_file(const uint8_t *data, size_t n, const char *suffix);

typedef void tt_fuzz_fn(const uint8_t *data, size_t n);

#ifdef TT_FUZZ
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
#    define FUZZ(id)                                                           \
        static void fuzz_##id(const uint8_t *data, size_t n);                  \
        int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)              \
        {                                                                      \
            fuzz_##id(data, n);                                                \
            return 0;                                                          \
        }                                                                      \
        static void fuzz_##id(const uint8_t *data, size_t n)
#else
#    include "test.h"

// Runs every file of tests/fuzz/corpus/NAME through `fuzz`.
void tt_fuzz_replay(const char *name, tt_fuzz_fn *fuzz);
#    define FUZZ(id)                                                           \
        static void fuzz_##id(const uint8_t *data, size_t n);                  \
        TEST(fuzz_##id##_replays)                                              \
        {                                                                      \
            tt_fuzz_replay(#id, fuzz_##id);                                    \
        }                                                                      \
        static void fuzz_##id(const uint8_t *data, size_t n)
#endif

#endif
