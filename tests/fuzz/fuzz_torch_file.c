// fuzz_torch_file - files of torch.save: an archive and the pickle in it. What is
// accepted has all its data inside.

#include "fuzz/fuzz.h"
#include "store/torch_file.h"

FUZZ(torch_file)
{
    tt_torch_file *file = NULL;
    volatile unsigned char sum = 0;
    if (tt_torch_file_read((const char *)data, (int64_t)n, "fuzz", &file) !=
        TT_OK)
        return;
    for (int64_t i = 0; i < file->n; i++) {
        const unsigned char *bytes = file->tensor[i].data;
        for (int64_t k = 0; k < file->tensor[i].bytes; k++)
            sum = (unsigned char)(sum + bytes[k]);
    }
    tt_torch_file_close(file);
}
