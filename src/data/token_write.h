// token_write - streams of token ids into files that others read.
//
//   llmc      256 int32 of header, then uint16 or, from 65,537 ids on, uint32
//   nanogpt   the ids alone, the same
//   megatron  PREFIX.bin and PREFIX.idx; uint16 below 65,500 ids, else int32
//   npy       a NumPy array of uint16 or uint32
//
// Nothing has its name before all of it is on the disk.

#ifndef TT_DATA_TOKEN_WRITE_H
#define TT_DATA_TOKEN_WRITE_H

#include "base/file_set.h"
#include "base/status.h"
#include "base/str.h"

#include <stdint.h>

typedef enum tt_token_format {
    TT_TOKENS_LLMC,
    TT_TOKENS_NANOGPT,
    TT_TOKENS_MEGATRON,
    TT_TOKENS_NPY,
} tt_token_format;

#define TT_TOKEN_FORMATS "llmc|nanogpt|megatron|npy" // in this order

typedef struct tt_token_target {
    const char *prefix; // "data/books_train"; endings are added
    tt_token_format format;
    int64_t vocab; // all ids are below it
    int64_t
        shard; // tokens of a file, 0: as many as the format can; not megatron
} tt_token_target;

typedef struct tt_token_writer tt_token_writer; // one thread at a time

// Copies the target.
tt_status tt_token_writer_open(const tt_token_target *target,
                               tt_token_writer **writer_out);
tt_status tt_token_writer_add(tt_token_writer *writer, const int32_t *ids,
                              int64_t n);
// What comes next belongs to another document. Only megatron remembers.
tt_status tt_token_writer_document(tt_token_writer *writer);
// Writes the rest and hands the files over to `set`, which gives them their names:
// PREFIX.bin, or PREFIX_000000.bin and so on when there are several. Appends the names
// to `paths`, a line each.
tt_status tt_token_writer_finish(tt_token_writer *writer, tt_file_set *set,
                                 tt_str *paths);
// Without finish nothing is left. NULL is fine.
void tt_token_writer_close(tt_token_writer *writer);

int64_t tt_token_writer_count(const tt_token_writer *writer); // tokens so far

#endif
