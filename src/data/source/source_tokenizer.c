// source_tokenizer - PREFIX_tokenizer.json, as `data tokenize` leaves it.

#include "data/source/source_tokenizer.h"

#include "base/file.h"
#include "data/files.h"

#include <string.h>

// Bytes of PREFIX_ in PREFIX_train_000001.bin, 0 in train.bin; -1: it is neither.
static int64_t prefix_bytes(const char *base)
{
    static const char *const parts[] = {"train", "val"};
    int64_t n = -1;
    for (int i = 0; i < 2; i++) {
        const char *p = base;
        for (; (p = strstr(p, parts[i])) != NULL; p++)
            if (p == base || p[-1] == '_')
                n = p - base > n ? p - base : n;
    }
    return n;
}

static tt_status find_beside(const char *path, tt_arena *arena,
                             const char **found_out)
{
    const char *base = tt_path_base(path);
    const int64_t n = prefix_bytes(base);
    if (n < 0)
        return TT_OK;
    const char *beside = tt_arena_printf(arena, "%.*stokenizer.json",
                                         (int)(base - path + n), path);
    if (beside == NULL)
        return TT_ERR_NOMEM;
    *found_out = tt_file_exists(beside) ? beside : NULL;
    return TT_OK;
}

tt_status tt__source_tokenizer(const tt_source_request *request,
                               const char *path, tt_arena *arena,
                               tt_source *source)
{
    const bool is_wanted =
        request->tokenizer != NULL && request->tokenizer[0] != '\0';
    const char *spec = is_wanted ? request->tokenizer : NULL;
    if (!is_wanted)
        TT_TRY(find_beside(path, arena, &spec));
    if (spec == NULL)
        return TT_OK;
    const tt_status status =
        tt_tokenizer_open(spec, NULL, 0, &source->tokenizer);
    if (status != TT_OK && (is_wanted || status == TT_ERR_NOMEM))
        return status;
    if (status != TT_OK) {
        source->note = tt_arena_printf(
            arena, "%s; samples will be ids of tokens", tt_error_message());
        return source->note != NULL ? TT_OK : TT_ERR_NOMEM;
    }
    if (source->classes == 0)
        source->classes = tt_tokenizer_vocab(source->tokenizer);
    return TT_OK;
}
