// lookup_words - WordPiece and Unigram: from a piece of text to tokens.
//
// WordPiece (BERT) takes the longest token that fits at the beginning, then the
// longest at the rest, and so on. Tokens that do not begin a word have a prefix
// ("##"). If the rest has no token, the whole piece is unknown.
//
// Unigram (SentencePiece, T5) gives each token a log probability and takes the way
// through the piece with the greatest sum. That is the Viterbi algorithm: best[i] is
// the best way to byte i, found from all tokens that end there.
//
//   piece    u n a b l e
//   tokens   [un][able]  -3.1 - 4.0 = -7.1    <- taken
//            [una][ble]  -6.2 - 5.5 = -11.7
//
// A character that no token covers costs `unknown_score` and becomes the unknown
// token, or its bytes where the tokenizer has tokens for bytes.

#include "base/alloc.h"
#include "base/utf8.h"
#include "data/tokenizer/lookup.h"
#include "data/tokenizer/tokenizer_def.h"

#include <string.h>

static tt_status add_id(int32_t id, tt_ids *out)
{
    TT_TRY(tt_ids_reserve(out, 1));
    out->v[out->n++] = id;
    return TT_OK;
}

// ---- WordPiece -----------------------------------------------------------

static int64_t count_chars(const char *text, int64_t n)
{
    int64_t chars = 0;
    for (int64_t i = 0; i < n; i++)
        chars += ((unsigned char)text[i] & 0xc0) != 0x80;
    return chars;
}

// The longest token at `at`, its end in `*to_out`; -1: there is none.
static int32_t longest_at(tt_looker *l, const char *piece, int64_t n,
                          int64_t at, int64_t *to_out)
{
    const tt_lookup *look = &l->t->general->lookup;
    tt_str *text = &l->text;
    int64_t to = n;
    tt_str_clear(text);
    tt_str_add(text, at > 0 ? look->prefix : "");
    const int64_t before = text->n;
    if (to - at > look->longest)
        to = at + look->longest;
    tt_str_add_bytes(text, piece + at, to - at);
    while (tt_str_status(text) == TT_OK && to > at) {
        const bool is_border =
            to == n || ((unsigned char)piece[to] & 0xc0) != 0x80;
        const int32_t id =
            is_border
                ? tt__tokenizer_find(l->t, tt_str_text(text), before + to - at)
                : -1;
        if (id >= 0) {
            *to_out = to;
            return id;
        }
        to--;
    }
    return -1;
}

tt_status tt__look_up_wordpiece(tt_looker *l, const char *piece, int64_t n,
                                tt_ids *out)
{
    const tt_lookup *look = &l->t->general->lookup;
    const int64_t before = out->n;
    bool is_known = count_chars(piece, n) <= look->max_chars;
    for (int64_t at = 0; at < n && is_known;) {
        const int32_t id = longest_at(l, piece, n, at, &at);
        TT_TRY(tt_str_status(&l->text));
        is_known = id >= 0;
        if (is_known)
            TT_TRY(add_id(id, out));
    }
    if (is_known)
        return TT_OK;
    out->n = before;
    return look->unknown >= 0 ? add_id(look->unknown, out)
                              : tt__no_token(piece, n);
}

// ---- Unigram -------------------------------------------------------------

typedef struct way { // the best way to a byte
    double score;
    int64_t from; // of its last token; -1: none leads here
    int32_t id;
} way;

static tt_status reserve_ways(tt_looker *l, int64_t n)
{
    if (n > l->n_best) {
        tt_free(l->best);
        l->n_best = 0;
        l->best = tt_alloc(n * (int64_t)sizeof(way));
        if (l->best == NULL)
            return tt_fail(TT_ERR_NOMEM,
                           "out of memory for a piece of %lld bytes",
                           (long long)n);
        l->n_best = n;
    }
    way *best = l->best;
    for (int64_t i = 0; i < n; i++)
        best[i] = (way){.from = -1};
    return TT_OK;
}

static void offer(way *to, double score, int64_t from, int32_t id)
{
    if (to->from < 0 || score > to->score)
        *to = (way){score, from, id};
}

// The tokens that begin at `at`.
static tt_status step(tt_looker *l, const char *piece, int64_t n, int64_t at)
{
    const tt_lookup *look = &l->t->general->lookup;
    way *best = l->best;
    const int k = tt_utf8_read(piece + at, n - at, NULL);
    bool has_one = false;
    for (int64_t to = at + k; to <= n && to - at <= look->longest; to++) {
        if (to < n && ((unsigned char)piece[to] & 0xc0) == 0x80)
            continue;
        const int32_t id = tt__tokenizer_find(l->t, piece + at, to - at);
        if (id < 0)
            continue;
        offer(&best[to], best[at].score + look->score[id], at, id);
        has_one |= to == at + k;
    }
    if (has_one)
        return TT_OK;
    if (look->unknown < 0)
        return tt__no_token(piece + at, k);
    offer(&best[at + k], best[at].score + look->unknown_score, at,
          look->unknown);
    return TT_OK;
}

// A part of the piece that is one token: its own, its bytes, or unknown.
static tt_status add_part(tt_looker *l, const char *text, int64_t n,
                          tt_ids *out)
{
    const tt_lookup *look = &l->t->general->lookup;
    const int32_t id = tt__tokenizer_find(l->t, text, n);
    bool is_done = false;
    if (id >= 0)
        return add_id(id, out);
    if (look->falls_to_bytes)
        TT_TRY(tt__look_up_fallback(l->t, text, n, out, &is_done));
    if (is_done)
        return TT_OK;
    return look->unknown >= 0 ? add_id(look->unknown, out)
                              : tt__no_token(text, n);
}

tt_status tt__look_up_unigram(tt_looker *l, const char *piece, int64_t n,
                              tt_ids *out)
{
    const tt_lookup *look = &l->t->general->lookup;
    if (n >= INT32_MAX)
        return tt_fail(TT_ERR_ARG, "a piece of text without a place to cut is "
                                   "longer than 2 GiB");
    TT_TRY(reserve_ways(l, n + 1));
    way *best = l->best;
    best[0].from = 0;
    for (int64_t at = 0; at < n; at += tt_utf8_read(piece + at, n - at, NULL))
        TT_TRY(step(l, piece, n, at));
    // Back from the end; neighbours that are unknown may be one.
    tt_ids *ends = &l->symbols; // ends of parts, last first
    ends->n = 0;
    bool was_unknown = false;
    for (int64_t to = n; to > 0; to = best[to].from) {
        const bool is_unknown =
            look->fuses_unknown && best[to].id == look->unknown;
        if (!(is_unknown && was_unknown))
            TT_TRY(add_id((int32_t)to, ends));
        was_unknown = is_unknown;
    }
    int64_t from = 0;
    for (int64_t i = ends->n - 1; i >= 0; i--) {
        TT_TRY(add_part(l, piece + from, ends->v[i] - from, out));
        from = ends->v[i];
    }
    return TT_OK;
}
