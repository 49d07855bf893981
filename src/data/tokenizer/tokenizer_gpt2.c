// tokenizer_gpt2 - vocab.json (encoder.json) and merges.txt (vocab.bpe).

#include "base/alloc.h"
#include "data/tokenizer/tokenizer_def.h"

#include <string.h>

enum { HOLES_MAX = 1 << 16 }; // ids without a token

// Ids of the vocabulary: the largest and one.
tt_status tt__vocab_size(const tt_json_value *vocab, int64_t *size_out)
{
    int64_t size = 0;
    for (const tt_json_value *v = vocab->first; v != NULL; v = v->next) {
        const int64_t id = tt_json_int(v, -1);
        if (id < 0 || id >= vocab->n + HOLES_MAX)
            return tt_fail(TT_ERR_ARG,
                           "token \"%.80s\": its id must be a whole number "
                           "from 0 to about the number of tokens, %lld",
                           v->key, (long long)vocab->n);
        if (id >= size)
            size = id + 1;
    }
    *size_out = size;
    return TT_OK;
}

// Sets tokens from their text; one that is not made of the characters for bytes
// stands for its own text.
tt_status tt__vocab_read(tt_tokenizer *t, const tt_json_value *vocab)
{
    tt_str bytes = {0};
    tt_status status = TT_OK;
    for (const tt_json_value *v = vocab->first; v != NULL; v = v->next) {
        const int64_t id = tt_json_int(v, -1);
        tt_str_clear(&bytes);
        const bool is_bytes = tt__byte_untext(v->key, v->key_n, &bytes);
        status = tt_str_status(&bytes);
        if (status == TT_OK)
            status = is_bytes
                         ? tt__tokenizer_set(t, id, tt_str_text(&bytes),
                                             bytes.n, true)
                         : tt__tokenizer_set(t, id, v->key, v->key_n, false);
        if (status != TT_OK)
            break;
        if (is_bytes && bytes.n == 1)
            t->bpe.byte_id[(unsigned char)bytes.text[0]] = (int32_t)id;
    }
    tt_str_fini(&bytes);
    return status;
}

// The id of bytes given as text, or an error that names merge `rank`.
static tt_status find_text(const tt_tokenizer *t, const char *text, int64_t n,
                           tt_str *bytes, int32_t *id_out)
{
    const int64_t from = bytes->n;
    if (n < 1 || !tt__byte_untext(text, n, bytes))
        return tt_fail(TT_ERR_ARG, "\"%.*s\" is not text of bytes",
                       (int)(n < 80 ? n : 80), text);
    TT_TRY(tt_str_status(bytes));
    *id_out = tt__tokenizer_find(t, tt_str_text(bytes) + from, bytes->n - from);
    if (*id_out < 0)
        return tt_fail(TT_ERR_ARG, "\"%.*s\" is not in the vocabulary",
                       (int)(n < 80 ? n : 80), text);
    return TT_OK;
}

tt_status tt__merge_read(tt_tokenizer *t, const tt_merge_text *m,
                         tt_str *scratch)
{
    int32_t a = 0, b = 0;
    tt_str_clear(scratch);
    TT_TRY(find_text(t, m->a, m->a_n, scratch, &a));
    TT_TRY(find_text(t, m->b, m->b_n, scratch, &b));
    const int32_t id = tt__tokenizer_find(t, tt_str_text(scratch), scratch->n);
    if (id < 0)
        return tt_fail(TT_ERR_ARG,
                       "\"%.*s\" and \"%.*s\" together are not in the "
                       "vocabulary",
                       (int)(m->a_n < 80 ? m->a_n : 80), m->a,
                       (int)(m->b_n < 80 ? m->b_n : 80), m->b);
    return tt__tokenizer_merge(t, a, b, id);
}

bool tt__merge_cut(const char *line, int64_t n, tt_merge_text *m)
{
    const char *blank = memchr(line, ' ', (size_t)n);
    if (blank == NULL)
        return false;
    *m = (tt_merge_text){line, blank - line, blank + 1, line + n - blank - 1};
    return memchr(m->b, ' ', (size_t)m->b_n) == NULL;
}

tt_status tt__merges_reserve(tt_tokenizer *t, int64_t n)
{
    TT_TRY(tt_bpe_init(&t->bpe, n));
    t->merge = tt_arena_alloc(t->arena, n * (int64_t)sizeof(*t->merge));
    return t->merge != NULL ? TT_OK : TT_ERR_NOMEM;
}

static tt_status read_lines(tt_tokenizer *t, const char *text, int64_t n)
{
    static const char version[] = "#version";
    const char *p = text, *end = text + n;
    tt_str scratch = {0};
    tt_status status = TT_OK;
    for (int64_t line = 1; p < end && status == TT_OK; line++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        int64_t k = (stop != NULL ? stop : end) - p;
        const char *next = p + k + (stop != NULL);
        tt_merge_text m;
        k -= k > 0 && p[k - 1] == '\r';
        const bool is_version =
            line == 1 && k >= 8 && memcmp(p, version, sizeof version - 1) == 0;
        if (k > 0 && !is_version) {
            status = tt__merge_cut(p, k, &m)
                         ? tt__merge_read(t, &m, &scratch)
                         : tt_fail(TT_ERR_ARG, "not two tokens with a blank "
                                               "between them");
            if (status != TT_OK)
                status = tt_fail_context(status, "merges, line %lld",
                                         (long long)line);
        }
        p = next;
    }
    tt_str_fini(&scratch);
    return status;
}

// What neither is a byte nor can be merged, and looks like <this>, is special.
static tt_status find_special(tt_tokenizer *t)
{
    tt_status status = TT_OK;
    int64_t n = 0;
    uint8_t *is_made = tt_alloc(t->vocab);
    if (is_made == NULL)
        return tt_fail(TT_ERR_NOMEM, "out of memory for a tokenizer");
    for (int64_t i = 0; i < t->bpe.n_slots; i++)
        if (t->bpe.slot[i].rank >= 0)
            is_made[t->bpe.slot[i].id] = 1;
    for (int pass = 0; pass < 2 && status == TT_OK; pass++) {
        for (int64_t i = 0; i < t->vocab && status == TT_OK; i++) {
            const tt_token *k = &t->token[i];
            if (is_made[i] != 0 || k->n < 3 || k->bytes[0] != '<' ||
                k->bytes[k->n - 1] != '>')
                continue;
            n++;
            if (pass == 1)
                status =
                    tt__tokenizer_add(t, &(tt_added_token){.text = k->bytes,
                                                           .n = k->n,
                                                           .id = (int32_t)i,
                                                           .is_special = true});
        }
        if (pass == 0)
            t->added = tt_arena_alloc(t->arena, n * (int64_t)sizeof(*t->added));
        if (t->added == NULL)
            status = TT_ERR_NOMEM;
    }
    tt_free(is_made);
    return status;
}

static tt_status read_parts(tt_tokenizer *t, const tt_json_value *vocab,
                            const char *merges, int64_t n)
{
    int64_t size = 0, lines = 1;
    TT_TRY(tt__vocab_size(vocab, &size));
    TT_TRY(tt__tokenizer_reserve(t, size));
    for (int64_t i = 0; i < n; i++)
        lines += merges[i] == '\n';
    TT_TRY(tt__merges_reserve(t, lines));
    TT_TRY(tt__vocab_read(t, vocab));
    TT_TRY(read_lines(t, merges, n));
    TT_TRY(find_special(t));
    TT_TRY(tt__tokenizer_stage(t, TT_SPLIT_GPT2, false));
    tt__tokenizer_finish(t);
    return TT_OK;
}

tt_status tt__tokenizer_gpt2(const tt_json_value *vocab, const char *merges,
                             int64_t n, tt_tokenizer **out)
{
    if (vocab->type != TT_JSON_OBJECT || vocab->n == 0)
        return tt_fail(TT_ERR_ARG,
                       "the vocabulary must be a JSON object of ids");
    tt_tokenizer *t = tt__tokenizer_create(TT_TOKENIZER_BPE);
    if (t == NULL)
        return TT_ERR_NOMEM;
    const tt_status status = read_parts(t, vocab, merges, n);
    if (status != TT_OK) {
        tt_tokenizer_close(t);
        return status;
    }
    *out = t;
    return TT_OK;
}
