// token_index - see token_index.h and the layout in source_megatron.c.

#include "data/source/token_index.h"

#include "base/alloc.h"

#include <stdbool.h>
#include <stddef.h>

static tt_status grow(void **array, int64_t n, int64_t *capacity, int64_t bytes)
{
    if (n < *capacity)
        return TT_OK;
    const int64_t more = *capacity * 2 + 64;
    void *grown = tt_realloc(*array, *capacity * bytes, more * bytes);
    if (grown == NULL)
        return tt_fail(TT_ERR_NOMEM, "out of memory for an index of tokens");
    *array = grown;
    *capacity = more;
    return TT_OK;
}

static tt_status begin_sequence(tt_token_index *x)
{
    TT_TRY(grow((void **)&x->lengths, x->n, &x->capacity, sizeof(*x->lengths)));
    x->lengths[x->n++] = 0;
    return TT_OK;
}

tt_status tt_token_index_document(tt_token_index *x)
{
    const bool is_empty = x->n > 0 && x->lengths[x->n - 1] == 0;
    if (is_empty)
        return TT_OK; // the one that was begun is still to come
    TT_TRY(grow((void **)&x->documents, x->n_documents, &x->documents_capacity,
                sizeof(*x->documents)));
    x->documents[x->n_documents++] = x->n;
    return begin_sequence(x);
}

tt_status tt_token_index_add(tt_token_index *x, int64_t tokens)
{
    if (x->n == 0 && tokens > 0)
        TT_TRY(tt_token_index_document(x));
    while (tokens > 0) {
        if (x->lengths[x->n - 1] == INT32_MAX)
            TT_TRY(begin_sequence(x));
        const int64_t room = INT32_MAX - x->lengths[x->n - 1];
        const int64_t part = tokens < room ? tokens : room;
        x->lengths[x->n - 1] += (int32_t)part;
        tokens -= part;
    }
    return TT_OK;
}

static void put(tt_str *out, int64_t value, int bytes)
{
    char text[8];
    for (int i = 0; i < bytes; i++)
        text[i] = (char)((uint64_t)value >> (8 * i));
    tt_str_add_bytes(out, text, bytes);
}

void tt_token_index_print(const tt_token_index *x, int bytes, tt_str *out)
{
    // A document that was begun but has no tokens is not there.
    const bool is_open = x->n > 0 && x->lengths[x->n - 1] == 0;
    const int64_t n = x->n - is_open, documents = x->n_documents - is_open;
    int64_t offset = 0;
    tt_str_add_bytes(out, "MMIDIDX\0", 9);
    put(out, 1, 8);
    put(out, bytes == 2 ? 8 : 4, 1);
    put(out, n, 8);
    put(out, documents + 1, 8);
    for (int64_t i = 0; i < n; i++)
        put(out, x->lengths[i], 4);
    for (int64_t i = 0; i < n; i++) {
        put(out, offset, 8);
        offset += (int64_t)x->lengths[i] * bytes;
    }
    for (int64_t i = 0; i < documents; i++)
        put(out, x->documents[i], 8);
    put(out, n, 8);
}

void tt_token_index_fini(tt_token_index *x)
{
    tt_free(x->lengths);
    tt_free(x->documents);
    *x = (tt_token_index){0};
}
