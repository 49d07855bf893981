// tokenizer_build - the table of tokens, and what fills it.
//
// Tokens lie in an array by id, and a hash table finds the id of a text. It is at most
// half full, so a search is short, and it never grows: the number of tokens is known
// first. All memory is the arena's.

#include "base/alloc.h"
#include "data/tokenizer/tokenizer_def.h"

#include <stdlib.h>
#include <string.h>

tt_tokenizer *tt__tokenizer_create(tt_tokenizer_type type)
{
    tt_tokenizer *t = tt_alloc(sizeof(*t));
    tt_arena *arena = tt_arena_create();
    if (t == NULL || arena == NULL) {
        tt_arena_destroy(arena);
        tt_free(t);
        (void)tt_fail(TT_ERR_NOMEM, "out of memory for a tokenizer");
        return NULL;
    }
    t->arena = arena;
    t->type = type;
    t->end = -1;
    return t;
}

void tt_tokenizer_close(tt_tokenizer *t)
{
    if (t == NULL)
        return;
    for (int i = 0; i < t->n_stages; i++)
        tt_splitter_close(t->stage[i].splitter);
    tt_bpe_fini(&t->bpe);
    tt__general_fini(t->general);
    tt_arena_destroy(t->arena);
    tt_free(t);
}

tt_status tt__tokenizer_reserve(tt_tokenizer *t, int64_t vocab)
{
    int64_t n = 16;
    while (n < 2 * vocab)
        n *= 2;
    t->token = tt_arena_alloc(t->arena, vocab * (int64_t)sizeof(*t->token));
    t->slot = tt_arena_alloc(t->arena, n * (int64_t)sizeof(*t->slot));
    if (t->token == NULL || t->slot == NULL)
        return TT_ERR_NOMEM;
    memset(t->slot, 0xff, (size_t)n * sizeof(*t->slot));
    t->n_slots = n;
    t->vocab = vocab;
    return TT_OK;
}

static int32_t *slot_of(const tt_tokenizer *t, const char *bytes, int64_t n)
{
    const uint64_t mask = (uint64_t)t->n_slots - 1;
    uint64_t h = (uint64_t)n;
    for (int64_t i = 0; i < n; i += 8) {
        uint64_t part = 0;
        memcpy(&part, bytes + i, (size_t)(n - i < 8 ? n - i : 8));
        h = (h ^ part) * 0x9e3779b97f4a7c15u;
        h ^= h >> 31;
    }
    uint64_t i = h & mask;
    for (; t->slot[i] >= 0; i = (i + 1) & mask) {
        const tt_token *token = &t->token[t->slot[i]];
        if (token->n == n && memcmp(token->bytes, bytes, (size_t)n) == 0)
            break;
    }
    return &t->slot[i];
}

int32_t tt__tokenizer_find(const tt_tokenizer *t, const char *bytes, int64_t n)
{
    return *slot_of(t, bytes, n);
}

tt_status tt__tokenizer_set(tt_tokenizer *t, int64_t id, const char *bytes,
                            int64_t n, bool is_indexed)
{
    if (id < 0 || id >= t->vocab)
        return tt_fail(TT_ERR_ARG, "token \"%.80s\": id %lld is out of range",
                       bytes, (long long)id);
    if (t->token[id].bytes != NULL)
        return tt_fail(TT_ERR_ARG, "id %lld is given to two tokens",
                       (long long)id);
    char *copy = tt_arena_alloc(t->arena, n + 1);
    if (copy == NULL)
        return TT_ERR_NOMEM;
    memcpy(copy, bytes, (size_t)n);
    t->token[id] = (tt_token){copy, n};
    if (is_indexed) {
        int32_t *slot = slot_of(t, copy, n);
        if (*slot < 0)
            *slot = (int32_t)id;
    }
    return TT_OK;
}

tt_status tt__tokenizer_add(tt_tokenizer *t, const tt_added_token *added)
{
    char *copy = tt_arena_alloc(t->arena, added->n + 1);
    if (copy == NULL)
        return TT_ERR_NOMEM;
    memcpy(copy, added->text, (size_t)added->n);
    t->added[t->n_added] = *added;
    t->added[t->n_added++].text = copy;
    return TT_OK;
}

static int longer_first(const void *a, const void *b)
{
    const tt_added_token *x = a, *y = b;
    if (x->n != y->n)
        return x->n > y->n ? -1 : 1;
    return memcmp(x->text, y->text, (size_t)x->n);
}

void tt__tokenizer_finish(tt_tokenizer *t)
{
    static const char *const ends[] = {"<|endoftext|>", "<|end_of_text|>",
                                       "</s>", "<eos>", "<|im_end|>"};
    const int n_ends = sizeof(ends) / sizeof(ends[0]);
    int best = n_ends;
    if (t->n_added > 1)
        qsort(t->added, (size_t)t->n_added, sizeof(*t->added), longer_first);
    for (int64_t i = 0; i < t->n_added; i++) {
        const tt_added_token *a = &t->added[i];
        t->begins[(unsigned char)a->text[0]] = true;
        for (int k = 0; k < best; k++)
            if ((int64_t)strlen(ends[k]) == a->n &&
                memcmp(ends[k], a->text, (size_t)a->n) == 0) {
                t->end = a->id;
                best = k;
            }
    }
}

tt_status tt__tokenizer_stage(tt_tokenizer *t, const char *pattern,
                              bool drops_gaps)
{
    if (t->n_stages == TT_STAGES_MAX)
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "more than %d splits one after "
                       "another are not supported",
                       TT_STAGES_MAX);
    tt_token_stage *stage = &t->stage[t->n_stages];
    TT_TRY(tt_splitter_open(pattern, &stage->splitter));
    stage->is_gpt2 = strcmp(pattern, TT_SPLIT_GPT2) == 0;
    stage->drops_gaps = drops_gaps;
    t->n_stages++;
    return TT_OK;
}

tt_status tt__tokenizer_bytes(tt_tokenizer *t, int64_t first)
{
    for (int i = 0; i < 256; i++) {
        const char byte = (char)tt__byte_order[i];
        TT_TRY(tt__tokenizer_set(t, first + i, &byte, 1, true));
        t->bpe.byte_id[tt__byte_order[i]] = (int32_t)(first + i);
    }
    return TT_OK;
}

tt_status tt__tokenizer_merge(tt_tokenizer *t, int32_t a, int32_t b, int32_t id)
{
    const int64_t rank = t->bpe.n;
    if (!tt_bpe_add(&t->bpe, a, b, id))
        return TT_OK; // said before: the first counts
    t->merge[rank] = (tt_pair_ids){a, b};
    return TT_OK;
}
