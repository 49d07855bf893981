// lookup - BPE of characters and whole words. See lookup.h.
//
// Unlike byte-level BPE, the first symbols are characters. A character may look
// different at the start or end of a word (prefix, suffix), may have no token, and
// then becomes its bytes ("<0xE4>") or the unknown token. Symbols are collected until
// a border that no merge can cross (lookup_bridges.c); then that part is merged.

#include "data/tokenizer/lookup.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "data/tokenizer/tokenizer_def.h"

#include <stdio.h>
#include <string.h>

tt_status tt__no_token(const char *text, int64_t n)
{
    uint32_t code = 0;
    const int k = tt_utf8_read(text, n, &code);
    return tt_fail(TT_ERR_ARG,
                   "the tokenizer has no token for \"%.*s\" (U+%04X), and none "
                   "for what is unknown",
                   k, text, code);
}

bool tt__is_byte_token(const char *text, int64_t n, unsigned *byte_out)
{
    char name[8];
    unsigned byte = 0;
    for (int i = 3; i < 5 && n == 6; i++) {
        const char c = text[i];
        byte = 16 * byte + (unsigned)(c >= '0' && c <= '9'   ? c - '0'
                                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                                             : 0);
    }
    snprintf(name, sizeof name, "<0x%02X>", byte & 0xff);
    *byte_out = byte;
    return n == 6 && memcmp(text, name, 6) == 0;
}

tt_status tt__look_up_fallback(const tt_tokenizer *t, const char *text,
                               int64_t n, tt_ids *out, bool *is_done)
{
    const int32_t *token = t->general->lookup.byte_token;
    *is_done = false;
    for (int64_t i = 0; i < n; i++)
        if (token[(unsigned char)text[i]] < 0)
            return TT_OK;
    TT_TRY(tt_ids_reserve(out, n));
    for (int64_t i = 0; i < n; i++)
        out->v[out->n++] = token[(unsigned char)text[i]];
    *is_done = true;
    return TT_OK;
}

// ---- BPE -----------------------------------------------------------------

typedef struct word {
    tt_looker *l;
    const char *text;
    int64_t n, from, at; // a part of it: [from, at)
    bool is_unknown;     // one is still to be added
    tt_ids *out;
} word;

static tt_status add_symbol(word *w, int32_t id)
{
    TT_TRY(tt_ids_reserve(&w->l->symbols, 1));
    w->l->symbols.v[w->l->symbols.n++] = id;
    return TT_OK;
}

static tt_status add_pending(word *w)
{
    const bool is_unknown = w->is_unknown;
    w->is_unknown = false;
    return is_unknown ? add_symbol(w, w->l->t->general->lookup.unknown) : TT_OK;
}

static tt_status merge_part(word *w)
{
    const tt_ids *s = &w->l->symbols;
    const tt_bpe_part part = {w->text + w->from, w->at - w->from, s->v, s->n};
    TT_TRY(tt_bpe_merge_part(&w->l->t->bpe, w->l->cache, &part, w->out));
    w->l->symbols.n = 0;
    w->from = w->at;
    return TT_OK;
}

// The token of a character where it stands in the word.
static int32_t find_symbol(const word *w, uint32_t code, int k)
{
    const tt_lookup *look = &w->l->t->general->lookup;
    const char *p = w->text + w->at;
    const bool is_first = w->at == 0, is_last = w->at + k == w->n;
    const char *prefix = is_first ? "" : look->prefix;
    const char *suffix = is_last ? look->suffix : "";
    if (prefix[0] == '\0' && suffix[0] == '\0')
        return code < 128 ? look->ascii[code]
                          : tt__tokenizer_find(w->l->t, p, k);
    tt_str *text = &w->l->text;
    tt_str_clear(text);
    tt_str_add(text, prefix);
    tt_str_add_bytes(text, p, k);
    tt_str_add(text, suffix);
    return tt_str_status(text) == TT_OK
               ? tt__tokenizer_find(w->l->t, tt_str_text(text), text->n)
               : -1;
}

static tt_status add_unknown(word *w, int k)
{
    const tt_lookup *look = &w->l->t->general->lookup;
    const char *p = w->text + w->at;
    bool is_done = false;
    if (look->falls_to_bytes)
        TT_TRY(tt__look_up_fallback(w->l->t, p, k, &w->l->symbols, &is_done));
    if (is_done)
        return TT_OK;
    if (look->unknown < 0)
        return tt__no_token(p, k);
    if (!look->fuses_unknown)
        TT_TRY(add_pending(w));
    w->is_unknown = true;
    return TT_OK;
}

// True: a token may reach across the border before `at`.
static bool is_joined(const word *w, uint32_t last, uint32_t next)
{
    const tt_bridges *bridges = w->l->t->general->lookup.bridges;
    return bridges == NULL || w->is_unknown || w->l->symbols.n == 0 ||
           tt__bridges_join(bridges, last, next);
}

static tt_status look_up_bpe(tt_looker *l, const char *piece, int64_t n,
                             tt_ids *out)
{
    word w = {.l = l, .text = piece, .n = n, .out = out};
    const tt_lookup *look = &l->t->general->lookup;
    uint32_t last = TT_UNKNOWN_CODE;
    l->symbols.n = 0;
    while (w.at < n) {
        uint32_t code = (unsigned char)piece[w.at];
        const int k =
            code < 128 ? 1 : tt_utf8_read(piece + w.at, n - w.at, &code);
        const int32_t id = find_symbol(&w, code, k);
        const bool is_bytes = id < 0 && look->falls_to_bytes;
        const unsigned char first = (unsigned char)piece[w.at];
        const uint32_t next = id >= 0    ? code
                              : is_bytes ? (uint32_t)TT_BYTE_CODE + first
                                         : (uint32_t)TT_UNKNOWN_CODE;
        if (!is_joined(&w, last, next))
            TT_TRY(merge_part(&w));
        if (id >= 0) {
            TT_TRY(add_pending(&w));
            TT_TRY(add_symbol(&w, id));
            last = code;
        } else {
            TT_TRY(add_unknown(&w, k));
            const unsigned char end = (unsigned char)piece[w.at + k - 1];
            last = w.is_unknown ? (uint32_t)TT_UNKNOWN_CODE
                                : (uint32_t)TT_BYTE_CODE + end;
        }
        w.at += k;
    }
    TT_TRY(add_pending(&w));
    return merge_part(&w);
}

// ---- words ---------------------------------------------------------------

static tt_status look_up_word(tt_looker *l, const char *piece, int64_t n,
                              tt_ids *out)
{
    const int32_t id = tt__tokenizer_find(l->t, piece, n);
    const int32_t unknown = l->t->general->lookup.unknown;
    if (id < 0 && unknown < 0)
        return tt__no_token(piece, n);
    TT_TRY(tt_ids_reserve(out, 1));
    out->v[out->n++] = id >= 0 ? id : unknown;
    return TT_OK;
}

// ---- all -----------------------------------------------------------------

tt_status tt_looker_open(const tt_tokenizer *t, tt_bpe_cache *cache,
                         tt_looker **looker_out)
{
    tt_looker *l = tt_alloc(sizeof(*l));
    if (l == NULL)
        return tt_fail(TT_ERR_NOMEM, "out of memory for a text");
    l->t = t;
    l->cache = cache;
    *looker_out = l;
    return TT_OK;
}

void tt_looker_close(tt_looker *l)
{
    if (l == NULL)
        return;
    tt_ids_fini(&l->symbols);
    tt_str_fini(&l->text);
    tt_free(l->best);
    tt_free(l);
}

tt_status tt_look_up(tt_looker *l, const char *piece, int64_t n, tt_ids *out)
{
    const tt_lookup *look = &l->t->general->lookup;
    if (l->t->ignores_merges && n <= look->longest) {
        const int32_t id = tt__tokenizer_find(l->t, piece, n);
        if (id >= 0) {
            TT_TRY(tt_ids_reserve(out, 1));
            out->v[out->n++] = id;
            return TT_OK;
        }
    }
    switch (look->type) {
    case TT_LOOKUP_BYTES:
        return tt_bpe_encode(&l->t->bpe, l->cache, piece, n, out);
    case TT_LOOKUP_BPE:
        return look_up_bpe(l, piece, n, out);
    case TT_LOOKUP_WORDPIECE:
        return tt__look_up_wordpiece(l, piece, n, out);
    case TT_LOOKUP_UNIGRAM:
        return tt__look_up_unigram(l, piece, n, out);
    case TT_LOOKUP_WORDS:
        return look_up_word(l, piece, n, out);
    }
    return TT_OK;
}

tt_status tt_look_up_bytes(tt_looker *l, const char *bytes, int64_t n,
                           tt_ids *out)
{
    bool is_done = false;
    if (l->t->general->lookup.type == TT_LOOKUP_BYTES)
        return tt_bpe_encode(&l->t->bpe, l->cache, bytes, n, out);
    TT_TRY(tt__look_up_fallback(l->t, bytes, n, out, &is_done));
    if (is_done)
        return TT_OK;
    return tt_fail(TT_ERR_ARG,
                   "byte 0x%02x is not UTF-8, and the tokenizer has no tokens "
                   "for bytes",
                   (unsigned char)bytes[0]);
}

tt_status tt__lookup_finish(tt_tokenizer *t)
{
    tt_lookup *look = &t->general->lookup;
    bool has_all_bytes = true;
    for (int b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", b);
        look->byte_token[b] = tt__tokenizer_find(t, name, 6);
        has_all_bytes &= look->byte_token[b] >= 0;
    }
    for (int c = 0; c < 128; c++) {
        const char text = (char)c;
        look->ascii[c] = tt__tokenizer_find(t, &text, 1);
    }
    for (int64_t i = 0; i < t->vocab; i++)
        if (t->token[i].n > look->longest)
            look->longest = t->token[i].n;
    if (look->type != TT_LOOKUP_BPE || look->prefix[0] != '\0' ||
        look->suffix[0] != '\0' || (look->falls_to_bytes && !has_all_bytes))
        return TT_OK;
    return tt__bridges_make(t, &look->bridges);
}
