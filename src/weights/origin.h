// origin - what came with a model of others besides its weights, kept as it was so
// that an export has it again: which tokens begin, end and fill texts, how text is
// generated, templates of chats, settings of the tokenizer.

#ifndef TT_WEIGHTS_ORIGIN_H
#define TT_WEIGHTS_ORIGIN_H

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum { TT_ORIGIN_MAX = 8 };

typedef struct tt_origin_file {
    const char *name; // "generation_config.json"
    const char *text;
    int64_t n;
} tt_origin_file;

typedef struct tt_origin {
    int n;
    tt_origin_file file[TT_ORIGIN_MAX]; // texts are in the arena
} tt_origin;

// From FOLDER/origin.json of a run or a checkpoint, else from the files of a folder in
// the form of Hugging Face. A folder without any gives none.
tt_status tt_origin_read(const char *folder, tt_arena *arena, tt_origin *out);

// The text of origin.json; empty when there is nothing to keep.
void tt_origin_print(const tt_origin *origin, tt_str *out);

const tt_origin_file *tt_origin_find(const tt_origin *origin,
                                     const char *name); // or NULL

bool tt_origin_is_name(const char *name); // of a file that is kept

#endif
