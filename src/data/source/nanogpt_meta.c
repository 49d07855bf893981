// nanogpt_meta - one number out of a pickle, found by the key before it.
//
// A pickle is a program, and running one from elsewhere can do anything. So it is not
// run: the bytes of the key "vocab_size" are searched for, and the number after them
// is read. Nothing else of the pickle is looked at.

#include "data/source/nanogpt_meta.h"

#include "data/files.h"
#include "data/number.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATH_LONGEST = 4096 };

// Steps over the notes a pickle makes of what it has just read.
static const uint8_t *skip_notes(const uint8_t *p, const uint8_t *end)
{
    for (;;) {
        if (p < end && *p == 0x94) // MEMOIZE
            p++;
        else if (end - p > 1 && *p == 'q') // BINPUT
            p += 2;
        else if (end - p > 4 && *p == 'r') // LONG_BINPUT
            p += 5;
        else
            return p;
    }
}

static int64_t number_at(const uint8_t *p, const uint8_t *end)
{
    if (end - p > 1 && *p == 'K') // BININT1
        return p[1];
    if (end - p > 2 && *p == 'M') // BININT2
        return p[1] | p[2] << 8;
    if (end - p > 4 && *p == 'J') // BININT
        return (int32_t)tt_u32_at(p + 1);
    return 0;
}

static int64_t find_vocab(const tt_blob *blob)
{
    static const char key[] = "vocab_size";
    if (blob->n == 0)
        return 0;
    const uint8_t *end = blob->p + blob->n;
    const uint8_t *at = memmem(blob->p, (size_t)blob->n, key, sizeof key - 1);
    if (at == NULL)
        return 0;
    const int64_t vocab = number_at(skip_notes(at + sizeof key - 1, end), end);
    return vocab > 0 ? vocab : 0;
}

int64_t tt__nanogpt_vocab(const char *path)
{
    char meta[PATH_LONGEST];
    tt_blob blob = {0};
    const int folder = (int)(tt_path_base(path) - path);
    const int n = snprintf(meta, sizeof meta, "%.*smeta.pkl", folder, path);
    if (n < 0 || n >= (int)sizeof meta || access(meta, R_OK) != 0 ||
        tt_blob_open(meta, &blob) != TT_OK)
        return 0;
    const int64_t vocab = find_vocab(&blob);
    tt_blob_close(&blob);
    return vocab;
}
