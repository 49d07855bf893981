// fuzz_safetensors - files of tensors.

#include "fuzz/fuzz.h"
#include "store/safetensors.h"

FUZZ(safetensors)
{
    tt_safetensors *file = NULL;
    if (tt_safetensors_open(tt_fuzz_file(data, n, ""), &file) == TT_OK)
        for (int64_t i = 0; i < tt_safetensors_count(file); i++) {
            const tt_safetensor *t = tt_safetensors_at(file, i);
            const volatile char *bytes = t->data; // all of them are there
            if (t->bytes > 0)
                (void)(bytes[0] + bytes[t->bytes - 1]);
        }
    tt_safetensors_close(file);
}
