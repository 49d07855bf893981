// fuzz_llmc_model - model files of llm.c.

#include "fuzz/fuzz.h"
#include "store/llmc.h"

FUZZ(llmc_model)
{
    tt_llmc *file = NULL;
    if (tt_llmc_read(tt_fuzz_file(data, n, ""), &file) == TT_OK)
        for (int64_t i = 0; i < file->n; i++) {
            const volatile char *bytes = file->tensor[i].data;
            if (file->tensor[i].bytes > 0)
                (void)(bytes[0] + bytes[file->tensor[i].bytes - 1]);
        }
    tt_llmc_close(file);
}
