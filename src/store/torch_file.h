// torch_file - tensors of a file that torch.save wrote (.pt, .pth, pytorch_model.bin).
//
// Such a file is a zip archive of a pickle and of the tensors' bytes. A pickle is a
// program that may call anything; here nothing is called: dictionaries, lists, numbers
// and tensors are understood, everything else becomes a value that nobody looks at.
// Sizes, offsets and strides are checked, and no memory is asked for that the file does
// not account for.

#ifndef TT_STORE_TORCH_FILE_H
#define TT_STORE_TORCH_FILE_H

#include "base/arena.h"
#include "base/map.h"
#include "base/status.h"
#include "store/safetensors.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_torch_file {
    tt_arena *arena;
    tt_map map;
    int64_t n;
    tt_safetensor
        *tensor; // in the order of the dictionary; data as they lie there, or
    int64_t n_copies; // dense copies of those that were not
    void **copy;
} tt_torch_file;

// Whether the file begins like one, in the format of today or of before 2020.
bool tt_torch_file_is(const char *path);

tt_status tt_torch_file_open(const char *path, tt_torch_file **file_out);
// The same from memory, which must outlive it.
tt_status tt_torch_file_read(const char *bytes, int64_t n, const char *name,
                             tt_torch_file **file_out);
void tt_torch_file_close(tt_torch_file *file); // NULL is fine

#endif
