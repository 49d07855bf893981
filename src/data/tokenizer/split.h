// split - cuts text into the pieces that byte-level BPE works on, by a regular
// expression (PCRE2: UTF, Unicode properties, compiled to machine code).
//
// GPT-2's own expression has a faster way for ASCII (split_gpt2.c).

#ifndef TT_DATA_TOKENIZER_SPLIT_H
#define TT_DATA_TOKENIZER_SPLIT_H

#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

#define TT_SPLIT_GPT2                                                          \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"       \
    "\\s+(?!\\S)|\\s+"

// Characters of words, inside of a class, as Rust has them; \w is Oniguruma's.
#define TT_SPLIT_WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}"

typedef struct tt_splitter tt_splitter;     // read by any number of threads
typedef struct tt_split_scan tt_split_scan; // one thread's memory for it

tt_status tt_splitter_open(const char *pattern, tt_splitter **splitter_out);
void tt_splitter_close(tt_splitter *splitter); // NULL is fine
const char *tt_splitter_pattern(const tt_splitter *splitter);

tt_status tt_split_scan_open(const tt_splitter *splitter,
                             tt_split_scan **scan_out);
void tt_split_scan_close(tt_split_scan *scan); // NULL is fine

typedef struct tt_piece {
    int64_t from, to;
} tt_piece;

typedef struct tt_bytes {
    const char *p;
    int64_t n;
} tt_bytes;

// The first match at or after `at`, empty ones too; -1, -1: none. The `n` bytes must be
// UTF-8, `at` the start of a character or `n`.
tt_status tt_split_find(tt_split_scan *scan, const char *text, int64_t n,
                        int64_t at, tt_piece *piece_out);

// The first match that cuts the text from `at` on: one with text in it, or an empty one
// after `at`, where a new piece begins (\b, (?=x)). n, n: none.
tt_status tt_split_next(tt_split_scan *scan, const char *text, int64_t n,
                        int64_t at, tt_piece *piece_out);

// Appends the text to `out` with `by` for each match. *lost_front (NULL: not wanted)
// becomes true when its first bytes became nothing.
tt_status tt_split_replace(tt_split_scan *scan, tt_bytes text, tt_bytes by,
                           tt_str *out, bool *lost_front);

// Bytes of GPT-2's piece at `text`, or 0 where ASCII alone does not tell.
int64_t tt_split_gpt2(const char *text, int64_t n);

#endif
