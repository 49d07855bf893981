// code_rows - codes of activations: a code for each row of a tensor.
//
// A packet (packet.h) is one lump of bytes for all that a rank has of a tensor. Ranks that
// share a layer move parts of it: they gather rows, exchange them, pass them on. So here
// each row has a code of its own, of a length that is known, and the codes of a tensor are
// a tensor with the same leading factors. Whatever moves rows moves their codes.
//
//   x      batch:8 seq:32 heads:4.head:8     f32
//   codes  batch:8 seq:32 bytes:36           u8, lead=2: a row is heads and head
//
// A row may have several parts, each with a code of its own: then it can be cut there.
//
//   codes  batch:8 seq:32 bytes:40           lead=2 parts=2: cut between heads 1 and 2
//
//   code   scales of all blocks, then digits (codes.h); no header and no check: every
//          byte stands for something, so no code can harm
//   names  rows_encode (x, -, seed, step) -> codes
//          rows_sum    (codes, like) -> what they stand for, as `like`; codes with a first
//                      dim more are terms, which are added in their order

#ifndef TT_OPS_CODEC_CODE_ROWS_H
#define TT_OPS_CODEC_CODE_ROWS_H

#include "graph/place.h"
#include "ops/codec/codes.h"

#define TT_CODE_BYTES "bytes" // the last dim of codes
#define TT_CODE_TERMS "terms" // the first dim of codes of several terms

typedef struct tt_code_rows_params {
    tt_code_params code;
    int kind;            // index of tt_code_rows_forms
    int64_t lead, parts; // leading factors that codes have too; parts of a row
} tt_code_rows_params;

enum { TT_ROWS_KINDS = 3 };
extern const tt_packet_form *const tt_code_rows_forms[TT_ROWS_KINDS];

// The index of a form; -1: its codes have no fixed length, or need a residual.
int tt_code_rows_kind(const tt_packet_form *form);

// What the rows of a tensor are, as a rank has them.
typedef struct tt_code_rows {
    int64_t n;       // rows, times the parts of each that are here
    int64_t columns; // numbers of a part
    int64_t bytes;   // of its code
} tt_code_rows;
tt_code_rows tt_code_rows_of(const tt_code_rows_params *params,
                             const tt_local *local);

// The key of a part's random numbers; `first` is its first element in the whole tensor.
static inline uint64_t tt_code_rows_key(uint64_t key, int64_t first)
{
    const uint64_t h = (key ^ (uint64_t)first) * 0x9e3779b97f4a7c15u;
    return (h ^ h >> 29) * 0xbf58476d1ce4e5b9u;
}

#endif
