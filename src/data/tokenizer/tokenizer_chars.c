// tokenizer_chars - one id per distinct character, in the order of their codes.
//
// The characters of the text are collected as one bit per code of Unicode. Sorting
// follows from that, so the ids depend only on the set of characters, as in nanoGPT.

#include "base/alloc.h"
#include "base/utf8.h"
#include "data/tokenizer/tokenizer_def.h"

#include <stdlib.h>
#include <string.h>

enum { N_CODES = 0x110000 };

static tt_status not_utf8(const char *text, int64_t at)
{
    int64_t line = 1;
    for (int64_t i = 0; i < at; i++)
        line += text[i] == '\n';
    return tt_fail(TT_ERR_ARG,
                   "byte %lld (line %lld) of the text, 0x%02x, is not UTF-8; "
                   "the tokenizer \"bytes\" takes any text",
                   (long long)at, (long long)line, (unsigned char)text[at]);
}

static tt_status unknown_char(const char *text, int64_t at, uint32_t code,
                              int n)
{
    int64_t line = 1;
    for (int64_t i = 0; i < at; i++)
        line += text[i] == '\n';
    return tt_fail(TT_ERR_ARG,
                   "character \"%.*s\" (U+%04X) at byte %lld (line %lld) of "
                   "the text is not one of those the tokenizer has",
                   n, text + at, code, (long long)at, (long long)line);
}

static tt_status mark_codes(const char *text, int64_t n, uint8_t *seen)
{
    for (int64_t i = 0; i < n;) {
        uint32_t code = (unsigned char)text[i];
        const int k = code < 128 ? 1 : tt_utf8_read(text + i, n - i, &code);
        if (k == 0)
            return not_utf8(text, i);
        seen[code >> 3] |= (uint8_t)(1u << (code & 7));
        i += k;
    }
    return TT_OK;
}

static tt_status reserve(tt_tokenizer *t, int64_t n_codes, int64_t vocab)
{
    TT_TRY(tt__tokenizer_reserve(t, vocab));
    t->code = tt_arena_alloc(t->arena, n_codes * (int64_t)sizeof(*t->code));
    t->code_id =
        tt_arena_alloc(t->arena, n_codes * (int64_t)sizeof(*t->code_id));
    memset(t->ascii_id, 0xff, sizeof t->ascii_id);
    return t->code == NULL || t->code_id == NULL ? TT_ERR_NOMEM : TT_OK;
}

// Codes come in increasing order.
static tt_status append(tt_tokenizer *t, uint32_t code, int32_t id)
{
    char text[4];
    if (code < 128)
        t->ascii_id[code] = id;
    t->code[t->n_codes] = code;
    t->code_id[t->n_codes++] = id;
    return tt__tokenizer_set(t, id, text, tt_utf8_write(code, text), true);
}

static tt_status fill(tt_tokenizer *t, const uint8_t *seen)
{
    int64_t n = 0;
    for (int i = 0; i < N_CODES / 8; i++)
        n += __builtin_popcount(seen[i]);
    TT_TRY(reserve(t, n, n));
    for (uint32_t code = 0; code < N_CODES; code++)
        if ((seen[code >> 3] >> (code & 7) & 1) != 0)
            TT_TRY(append(t, code, (int32_t)t->n_codes));
    return TT_OK;
}

tt_status tt__tokenizer_chars(const char *text, int64_t n, tt_tokenizer **out)
{
    if (n == 0)
        return tt_fail(TT_ERR_ARG, "the tokenizer \"chars\" takes its "
                                   "characters from a text, but there is none");
    uint8_t *seen = tt_alloc(N_CODES / 8);
    tt_tokenizer *t = tt__tokenizer_create(TT_TOKENIZER_CHARS);
    tt_status status = TT_OK;
    if (seen == NULL || t == NULL)
        status = tt_fail(TT_ERR_NOMEM, "out of memory for a tokenizer");
    if (status == TT_OK)
        status = mark_codes(text, n, seen);
    if (status == TT_OK)
        status = fill(t, seen);
    tt_free(seen);
    if (status != TT_OK) {
        tt_tokenizer_close(t);
        return status;
    }
    *out = t;
    return TT_OK;
}

typedef struct char_id {
    uint32_t code;
    int32_t id;
} char_id;

static int by_code(const void *a, const void *b)
{
    const char_id *x = a, *y = b;
    return (x->code > y->code) - (x->code < y->code);
}

static tt_status read_chars(const tt_json_value *vocab, char_id *v)
{
    int64_t n = 0;
    for (const tt_json_value *i = vocab->first; i != NULL; i = i->next) {
        const int64_t id = tt_json_int(i, -1);
        if (tt_utf8_read(i->key, i->key_n, &v[n].code) != i->key_n ||
            i->key_n == 0)
            return tt_fail(TT_ERR_UNSUPPORTED,
                           "token \"%.80s\": without merges and "
                           "pre_tokenizer every token must be one character",
                           i->key);
        if (id < 0 || id >= vocab->n)
            return tt_fail(TT_ERR_ARG,
                           "token \"%.80s\": its id must be below the number "
                           "of tokens, %lld",
                           i->key, (long long)vocab->n);
        v[n++].id = (int32_t)id;
    }
    qsort(v, (size_t)n, sizeof(*v), by_code);
    return TT_OK;
}

tt_status tt__tokenizer_chars_of(const tt_json_value *vocab, tt_tokenizer **out)
{
    char_id *v = tt_alloc(vocab->n * (int64_t)sizeof(*v));
    tt_tokenizer *t = tt__tokenizer_create(TT_TOKENIZER_CHARS);
    tt_status status = TT_OK;
    if (v == NULL || t == NULL)
        status = tt_fail(TT_ERR_NOMEM, "out of memory for a tokenizer");
    if (status == TT_OK)
        status = read_chars(vocab, v);
    if (status == TT_OK)
        status = reserve(t, vocab->n, vocab->n);
    for (int64_t i = 0; i < vocab->n && status == TT_OK; i++)
        status = append(t, v[i].code, v[i].id);
    tt_free(v);
    if (status != TT_OK) {
        tt_tokenizer_close(t);
        return status;
    }
    *out = t;
    return TT_OK;
}

static int32_t id_of(const tt_tokenizer *t, uint32_t code)
{
    int64_t first = 0, last = t->n_codes - 1;
    while (first <= last) {
        const int64_t middle = first + (last - first) / 2;
        if (t->code[middle] == code)
            return t->code_id[middle];
        if (t->code[middle] < code)
            first = middle + 1;
        else
            last = middle - 1;
    }
    return -1;
}

// Bytes [at, n) of the text.
tt_status tt__chars_encode(const tt_tokenizer *t, const char *text, int64_t n,
                           int64_t at, tt_ids *out)
{
    TT_TRY(tt_ids_reserve(out, n - at));
    while (at < n) {
        uint32_t code = (unsigned char)text[at];
        const int k = code < 128 ? 1 : tt_utf8_read(text + at, n - at, &code);
        if (k == 0)
            return not_utf8(text, at);
        const int32_t id = code < 128 ? t->ascii_id[code] : id_of(t, code);
        if (id < 0)
            return unknown_char(text, at, code, k);
        out->v[out->n++] = id;
        at += k;
    }
    return TT_OK;
}
