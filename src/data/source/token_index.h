// token_index - Megatron's .idx: lengths and places of sequences, and which of them
// begin documents. A document is one sequence, unless that would be too long.

#ifndef TT_DATA_SOURCE_TOKEN_INDEX_H
#define TT_DATA_SOURCE_TOKEN_INDEX_H

#include "base/status.h"
#include "base/str.h"

#include <stdint.h>

typedef struct tt_token_index {
    int32_t *lengths; // of sequences; the last grows
    int64_t n, capacity;
    int64_t *documents; // first sequences
    int64_t n_documents, documents_capacity;
} tt_token_index; // zero-initialise

tt_status tt_token_index_add(tt_token_index *index, int64_t tokens);
tt_status tt_token_index_document(tt_token_index *index); // the next begins
void tt_token_index_print(const tt_token_index *index, int bytes, tt_str *out);
void tt_token_index_fini(tt_token_index *index);

#endif
