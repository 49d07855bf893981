// bpe_train - learns byte-level BPE.
//
// The problem. Training merges the most frequent pair of neighbours, again and again,
// as often as the vocabulary has tokens. Counting all pairs anew would read the whole
// text for each token.
//
// The idea. Two things make it fast:
//
//   words    the text is cut into pieces once. Equal pieces are one *word* with a
//            count. A language has far fewer words than a text has pieces, and from
//            here on the text is not needed
//   deltas   each pair knows the words in which it occurs. A merge visits only these
//            and changes only the counts of the pairs to the left and right of it
//
//   merge (e, r) in  l o w e r  (count 7):   (w, e) -7   (e, r) -7   (w, er) +7
//
// The best pair comes from a heap whose entries may be out of date (bpe_pairs.c). Of
// equally frequent pairs the one with the greater bytes wins, so the result depends on
// the text alone, not on the order in which pairs were found.

#include "base/alloc.h"
#include "data/tokenizer/bpe_pairs.h"
#include "data/tokenizer/tokenizer_stream.h"

#include <string.h>

typedef struct word {
    int64_t at; // in the trainer's symbols
    int32_t n;
    int64_t count;
} word;

typedef struct trainer {
    tt_tokenizer *t;
    tt_pairs pairs;
    word *words;
    int64_t n_words, words_capacity;
    int32_t *slot; // words by their bytes, -1: free
    int64_t n_slots;
    int32_t *symbols; // of all words; at first their bytes
    int64_t n_symbols, symbols_capacity;
} trainer;

static tt_status no_memory(void)
{
    return tt_fail(TT_ERR_NOMEM, "out of memory for the words of a text");
}

// ---- words ---------------------------------------------------------------

static bool is_word(const trainer *r, const word *w, const char *p, int64_t n)
{
    if (w->n != n)
        return false;
    for (int64_t i = 0; i < n; i++)
        if (r->symbols[w->at + i] != r->t->bpe.byte_id[(unsigned char)p[i]])
            return false;
    return true;
}

// The same for bytes and for symbols, which stand for bytes at first.
static uint64_t step_hash(uint64_t h, int32_t symbol)
{
    return (h ^ (uint32_t)symbol) * 0x100000001b3u;
}

static uint64_t end_hash(uint64_t h)
{
    return h ^ h >> 29;
}

static tt_status grow_slots(trainer *r)
{
    const int64_t n = r->n_slots == 0 ? 4096 : r->n_slots * 2;
    int32_t *slot =
        n <= INT32_MAX ? tt_alloc(n * (int64_t)sizeof(*slot)) : NULL;
    if (slot == NULL)
        return no_memory();
    memset(slot, 0xff, (size_t)n * sizeof(*slot));
    tt_free(r->slot);
    r->slot = slot;
    r->n_slots = n;
    for (int64_t i = 0; i < r->n_words; i++) {
        uint64_t h = 0xcbf29ce484222325u;
        for (int32_t k = 0; k < r->words[i].n; k++)
            h = step_hash(h, r->symbols[r->words[i].at + k]);
        h = end_hash(h) & ((uint64_t)n - 1);
        while (slot[h] >= 0)
            h = (h + 1) & ((uint64_t)n - 1);
        slot[h] = (int32_t)i;
    }
    return TT_OK;
}

static tt_status add_word(trainer *r, const char *p, int64_t n)
{
    if (r->n_words == r->words_capacity) {
        const int64_t more = r->words_capacity * 2 + 1024;
        word *words =
            tt_realloc(r->words, r->words_capacity * (int64_t)sizeof(*words),
                       more * (int64_t)sizeof(*words));
        if (words == NULL)
            return no_memory();
        r->words = words;
        r->words_capacity = more;
    }
    if (r->symbols_capacity - r->n_symbols < n) {
        const int64_t more = r->symbols_capacity * 2 + n + 4096;
        int32_t *symbols = tt_realloc(
            r->symbols, r->symbols_capacity * (int64_t)sizeof(*symbols),
            more * (int64_t)sizeof(*symbols));
        if (symbols == NULL)
            return no_memory();
        r->symbols = symbols;
        r->symbols_capacity = more;
    }
    for (int64_t i = 0; i < n; i++)
        r->symbols[r->n_symbols + i] = r->t->bpe.byte_id[(unsigned char)p[i]];
    r->words[r->n_words++] = (word){r->n_symbols, (int32_t)n, 1};
    r->n_symbols += n;
    return TT_OK;
}

static tt_status count_piece(void *user, const char *p, int64_t n)
{
    trainer *r = user;
    uint64_t h = 0xcbf29ce484222325u;
    if (n >= INT32_MAX)
        return tt_fail(TT_ERR_ARG, "a piece of text without a place to cut is "
                                   "longer than 2 GiB");
    if (2 * r->n_words >= r->n_slots)
        TT_TRY(grow_slots(r));
    const uint64_t mask = (uint64_t)r->n_slots - 1;
    for (int64_t i = 0; i < n; i++)
        h = step_hash(h, r->t->bpe.byte_id[(unsigned char)p[i]]);
    uint64_t i = end_hash(h) & mask;
    for (; r->slot[i] >= 0; i = (i + 1) & mask) {
        word *w = &r->words[r->slot[i]];
        if (is_word(r, w, p, n)) {
            w->count++;
            return TT_OK;
        }
    }
    r->slot[i] = (int32_t)r->n_words;
    return add_word(r, p, n);
}

static tt_status count_words(trainer *r, const tt_text *text)
{
    tt_encoder *e = NULL;
    TT_TRY(tt_encoder_open(r->t, text->bytes, text->n, true, &e));
    const tt_status status = tt_encoder_pieces(e, count_piece, r);
    tt_encoder_close(e);
    return status;
}

// ---- merges --------------------------------------------------------------

static tt_status count_pairs(trainer *r)
{
    for (int64_t i = 0; i < r->n_words; i++) {
        const word *w = &r->words[i];
        const int32_t *s = r->symbols + w->at;
        for (int32_t k = 0; k + 1 < w->n; k++)
            TT_TRY(tt__bpe_pairs_count(&r->pairs, (tt_pair_ids){s[k], s[k + 1]},
                                       w->count, (int32_t)i));
    }
    for (int64_t i = 0; i < r->pairs.n; i++)
        TT_TRY(tt__bpe_pairs_queue(&r->pairs, (int32_t)i));
    return TT_OK;
}

static tt_status count_and_queue(trainer *r, tt_pair_ids pair, int64_t more,
                                 int32_t index)
{
    TT_TRY(tt__bpe_pairs_count(&r->pairs, pair, more, index));
    if (more < 0)
        return TT_OK;
    return tt__bpe_pairs_queue(&r->pairs, tt__bpe_pairs_find(&r->pairs, pair));
}

// Merges the pair in one word, from left to right.
static tt_status merge_word(trainer *r, int32_t index, tt_pair_ids pair,
                            int32_t id)
{
    word *w = &r->words[index];
    int32_t *s = r->symbols + w->at;
    int32_t n = 0;
    for (int32_t i = 0; i < w->n; i++) {
        if (i + 1 == w->n || s[i] != pair.a || s[i + 1] != pair.b) {
            s[n++] = s[i];
            continue;
        }
        TT_TRY(count_and_queue(r, pair, -w->count, index));
        if (n > 0) {
            const int32_t before = s[n - 1];
            TT_TRY(count_and_queue(r, (tt_pair_ids){before, pair.a}, -w->count,
                                   index));
            TT_TRY(
                count_and_queue(r, (tt_pair_ids){before, id}, w->count, index));
        }
        if (i + 2 < w->n) {
            const int32_t after = s[i + 2];
            TT_TRY(count_and_queue(r, (tt_pair_ids){pair.b, after}, -w->count,
                                   index));
            TT_TRY(
                count_and_queue(r, (tt_pair_ids){id, after}, w->count, index));
        }
        s[n++] = id;
        i++;
    }
    w->n = n;
    return TT_OK;
}

static tt_status merge_words(trainer *r, tt_pair_ids pair, int32_t first,
                             int32_t id)
{
    for (int32_t i = first; i >= 0; i = r->pairs.list[i].next)
        TT_TRY(merge_word(r, r->pairs.list[i].word, pair, id));
    return TT_OK;
}

// The token of both together. Another merge may have made the same bytes before ("ab"
// + "c" and "a" + "bc"): then that token is used again, and the vocabulary does not
// grow.
static tt_status join(trainer *r, tt_pair_ids pair, int64_t *vocab,
                      int32_t *id_out)
{
    const tt_token *a = &r->t->token[pair.a], *b = &r->t->token[pair.b];
    tt_str both = {0};
    tt_str_add_bytes(&both, a->bytes, a->n);
    tt_str_add_bytes(&both, b->bytes, b->n);
    tt_status status = tt_str_status(&both);
    if (status == TT_OK) {
        *id_out = tt__tokenizer_find(r->t, tt_str_text(&both), both.n);
        if (*id_out < 0) {
            *id_out = (int32_t)(*vocab)++;
            status = tt__tokenizer_set(r->t, *id_out, tt_str_text(&both),
                                       both.n, true);
        }
    }
    tt_str_fini(&both);
    return status;
}

// More than one merge may lead to the same token, but not many do.
static int64_t max_merges(int64_t first, int64_t wanted)
{
    return 2 * (wanted - first);
}

static tt_status learn(trainer *r, int64_t first, int64_t wanted)
{
    int64_t vocab = first;
    TT_TRY(count_pairs(r));
    const int64_t most = max_merges(first, wanted);
    while (vocab < wanted && r->t->bpe.n < most) {
        const int32_t best = tt__bpe_pairs_best(&r->pairs);
        int32_t id = 0;
        if (best < 0)
            break; // every piece is one token
        const tt_pair p = r->pairs.v[best];
        const tt_pair_ids pair = {p.a, p.b};
        TT_TRY(join(r, pair, &vocab, &id));
        TT_TRY(tt__tokenizer_merge(r->t, pair.a, pair.b, id));
        r->pairs.v[best].words = -1;
        TT_TRY(merge_words(r, pair, p.words, id));
    }
    r->t->vocab = vocab;
    return TT_OK;
}

// ---- whole ---------------------------------------------------------------

static tt_status add_special(tt_tokenizer *t, const tt_bpe_options *options)
{
    t->added = tt_arena_alloc(t->arena,
                              options->n_special * (int64_t)sizeof(*t->added));
    if (t->added == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < options->n_special; i++) {
        const tt_added_token a = {.text = options->special[i],
                                  .n = (int64_t)strlen(options->special[i]),
                                  .id = i,
                                  .is_special = true};
        if (a.n == 0)
            return tt_fail(TT_ERR_ARG, "a special token is empty");
        for (int k = 0; k < i; k++)
            if (strcmp(a.text, options->special[k]) == 0)
                return tt_fail(TT_ERR_ARG,
                               "the special token \"%s\" is given twice",
                               a.text);
        TT_TRY(tt__tokenizer_set(t, i, a.text, a.n, false));
        TT_TRY(tt__tokenizer_add(t, &a));
    }
    tt__tokenizer_finish(t);
    return TT_OK;
}

static tt_status train(trainer *r, const tt_text *texts, int64_t n,
                       const tt_bpe_options *options)
{
    const int64_t first = options->n_special + 256;
    const char *pattern = options->pattern;
    TT_TRY(tt__tokenizer_reserve(r->t, options->vocab));
    TT_TRY(tt__merges_reserve(r->t, max_merges(first, options->vocab)));
    TT_TRY(add_special(r->t, options));
    TT_TRY(tt__tokenizer_bytes(r->t, options->n_special));
    TT_TRY(tt__tokenizer_stage(r->t, pattern ? pattern : TT_SPLIT_GPT2, false));
    for (int64_t i = 0; i < n; i++)
        TT_TRY(count_words(r, &texts[i]));
    return learn(r, first, options->vocab);
}

tt_status tt_bpe_train(const tt_text *texts, int64_t n,
                       const tt_bpe_options *options,
                       tt_tokenizer **tokenizer_out)
{
    const int64_t least = options->n_special + 256;
    if (options->vocab < least || options->vocab > 1 << 24)
        return tt_fail(TT_ERR_ARG,
                       "a vocabulary of %lld is not possible: it holds 256 "
                       "bytes and the special tokens, so at least %lld, and "
                       "16777216 at most",
                       (long long)options->vocab, (long long)least);
    trainer r = {.t = tt__tokenizer_create(TT_TOKENIZER_BPE)};
    if (r.t == NULL)
        return TT_ERR_NOMEM;
    r.pairs.t = r.t;
    const tt_status status = train(&r, texts, n, options);
    tt__bpe_pairs_fini(&r.pairs);
    tt_free(r.words);
    tt_free(r.slot);
    tt_free(r.symbols);
    if (status != TT_OK) {
        tt_tokenizer_close(r.t);
        return status;
    }
    *tokenizer_out = r.t;
    return TT_OK;
}
