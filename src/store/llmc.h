// llmc - model files of llm.c: 256 numbers of header, then GPT-2's weights, each
// kind stacked over the layers.
//
//   [0] 20240326  [1] 3: fp32, 5: bf16  [2] positions  [3] vocabulary  [4] layers
//   [5] heads  [6] width  [7] vocabulary padded to a multiple of 128
//
// Matrices are (out, in) there and (in, out) in the names of Hugging Face, which
// is what callers see.

#ifndef TT_STORE_LLMC_H
#define TT_STORE_LLMC_H

#include "base/arena.h"
#include "base/status.h"
#include "store/safetensors.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_llmc_sizes {
    int64_t positions, vocab, layers, heads, width;
    bool is_bf16;
} tt_llmc_sizes;

// A file that was read: tensors with the names of GPT2LMHeadModel.
typedef struct tt_llmc {
    tt_arena *arena;
    tt_llmc_sizes sizes;
    int64_t n;
    tt_safetensor *tensor;
    void *memory;
} tt_llmc;

bool tt_llmc_is(const char *path); // whether the file begins like one

tt_status tt_llmc_read(const char *path, tt_llmc **file_out);
void tt_llmc_close(tt_llmc *file); // NULL is fine

// Writes such a file. `find` gives a tensor of that name in fp32 or bf16, as the
// sizes say, or NULL, which is an error.
typedef const tt_safetensor *tt_llmc_find_fn(void *user, const char *name);
tt_status tt_llmc_write(const char *path, const tt_llmc_sizes *sizes,
                        tt_llmc_find_fn *find, void *user);

#endif
