// tokenizer_encode - text to ids, as a stream: memory does not grow with the text.
//
// Text falls into *runs*: between added tokens (such as <|endoftext|>), and between
// bytes that are no UTF-8. A regular expression cuts a run into pieces, and each piece
// is encoded by itself.
//
//   text    The cat<|endoftext|>Once upon
//   runs    [The cat]           [Once upon]
//   pieces  [The][ cat]         [Once][ upon]
//
// A run may be the whole text, gigabytes long. The expression is therefore given only a
// window of it. But what follows may change a piece: at the window's end " up" could
// become " upon". So a piece is taken only when it ends at least MARGIN bytes before
// the window does; otherwise the window grows.

#include "base/alloc.h"
#include "base/utf8.h"
#include "data/tokenizer/tokenizer_def.h"
#include "data/tokenizer/tokenizer_stream.h"

#include <string.h>

enum { WINDOW = 64 << 10, MARGIN = 64, PREFIX_FIRST = 256 };

struct tt_encoder {
    const tt_tokenizer *t;
    const char *text;
    int64_t n, at;
    bool with_special, uses_added;
    int64_t from;        // where the run begins that `at` is in
    int64_t known;       // it goes so far at least
    bool is_whole;       // and ends there:
    bool begins_segment; // nothing was taken since the start or an added token
    const tt_added_token *next; // before this one; NULL: a bad byte or the end
    int64_t next_to;            // where that ends
    tt_bpe_cache *cache;
    tt_split_scan *scan[TT_STAGES_MAX];
    tt_piece_fn *piece; // NULL: encode
    void *user;
    tt_general_encoder *general; // does all of it, for that kind
};

tt_status tt_encoder_open(const tt_tokenizer *t, const char *text, int64_t n,
                          bool with_special, tt_encoder **encoder_out)
{
    tt_encoder *e = tt_alloc(sizeof(*e));
    tt_status status = TT_OK;
    if (e == NULL)
        return tt_fail(TT_ERR_NOMEM, "out of memory for a text");
    *e = (tt_encoder){.t = t,
                      .text = text,
                      .n = n,
                      .with_special = with_special,
                      .begins_segment = true};
    for (int64_t i = 0; i < t->n_added; i++)
        e->uses_added |= with_special || !t->added[i].is_special;
    for (int i = 0; i < t->n_stages && status == TT_OK; i++)
        status = tt_split_scan_open(t->stage[i].splitter, &e->scan[i]);
    if (status == TT_OK && t->type == TT_TOKENIZER_BPE) {
        e->cache = tt_bpe_cache_create(n);
        if (e->cache == NULL)
            status = tt_fail(TT_ERR_NOMEM, "out of memory for a text");
    }
    if (status == TT_OK && t->type == TT_TOKENIZER_GENERAL)
        status =
            tt__general_open(t, &(tt_text){text, n}, with_special, &e->general);
    if (status != TT_OK) {
        tt_encoder_close(e);
        return status;
    }
    *encoder_out = e;
    return TT_OK;
}

void tt_encoder_close(tt_encoder *e)
{
    if (e == NULL)
        return;
    for (int i = 0; i < TT_STAGES_MAX; i++)
        tt_split_scan_close(e->scan[i]);
    tt_bpe_cache_destroy(e->cache);
    tt__general_close(e->general);
    tt_free(e);
}

int64_t tt_encoder_at(const tt_encoder *e)
{
    return e->at;
}

tt_text tt_encoder_text(const tt_encoder *e)
{
    return (tt_text){e->text, e->n};
}

tt_status tt_encoder_copy(const tt_encoder *e, tt_encoder **encoder_out)
{
    return tt_encoder_open(e->t, e->text, e->n, e->with_special, encoder_out);
}

// Patterns with a look-behind, whose match depends on the text before it. ^ in a class
// is none.
static bool looks_behind(const char *pattern)
{
    static const char *const behind[] = {"(?<", "\\b", "\\B", "\\A", "\\G"};
    for (int i = 0; i < 5; i++)
        if (strstr(pattern, behind[i]) != NULL)
            return true;
    for (const char *p = strchr(pattern, '^'); p != NULL;
         p = strchr(p + 1, '^'))
        if (p == pattern || p[-1] != '[')
            return true;
    return false;
}

bool tt_encoder_is_local(const tt_encoder *e)
{
    const tt_tokenizer *t = e->t;
    if (t->type == TT_TOKENIZER_GENERAL)
        return false;
    if (t->type != TT_TOKENIZER_BPE)
        return true;
    return !t->adds_space && t->n_stages > 0 &&
           !looks_behind(tt_splitter_pattern(t->stage[0].splitter));
}

// ---- runs ----------------------------------------------------------------

// Bytes of the blank at `text`, or 0.
static int blank(const char *text, int64_t n)
{
    uint32_t c = 0;
    const int k = tt_utf8_read(text, n, &c);
    return tt_unicode_is_blank(c) ? k : 0;
}

// The same for the one that ends before `at`, not before `from`.
static int blank_before(const char *text, int64_t from, int64_t at)
{
    for (int k = 1; k <= 3 && k <= at - from; k++)
        if (((unsigned char)text[at - k] & 0xc0) != 0x80)
            return blank(text + at - k, k);
    return 0;
}

static const tt_added_token *added_at(const tt_encoder *e, int64_t at)
{
    for (int64_t i = 0; i < e->t->n_added; i++) {
        const tt_added_token *a = &e->t->added[i];
        if ((e->with_special || !a->is_special) && a->n <= e->n - at &&
            memcmp(a->text, e->text + at, (size_t)a->n) == 0)
            return a;
    }
    return NULL;
}

// The first added token that begins in [from, to): its place, or `to`.
static int64_t find_added(tt_encoder *e, int64_t from, int64_t to)
{
    if (!e->uses_added)
        return to;
    for (int64_t i = from; i < to; i++) {
        if (!e->t->begins[(unsigned char)e->text[i]])
            continue;
        e->next = added_at(e, i);
        if (e->next != NULL)
            return i;
    }
    return to;
}

static void begin_run(tt_encoder *e)
{
    e->from = e->known = e->at;
    e->is_whole = false;
    e->next = NULL;
}

void tt_encoder_seek(tt_encoder *e, int64_t at)
{
    e->at = at;
    e->begins_segment = at == 0;
    begin_run(e);
}

// Around an added token that eats blanks.
static void widen_added(tt_encoder *e)
{
    e->next_to = e->known + e->next->n;
    int k = 0;
    while (e->next->eats_left &&
           (k = blank_before(e->text, e->at, e->known)) > 0)
        e->known -= k;
    while (e->next->eats_right &&
           (k = blank(e->text + e->next_to, e->n - e->next_to)) > 0)
        e->next_to += k;
}

// Looks `bytes` further.
static void look_ahead(tt_encoder *e, int64_t bytes)
{
    const int64_t to = bytes < e->n - e->known ? e->known + bytes : e->n;
    const int64_t end = find_added(e, e->known, to);
    const int64_t k = tt_utf8_valid(e->text + e->known, end - e->known);
    e->known += k;
    if (e->known < end &&
        tt_utf8_read(e->text + e->known, e->n - e->known, NULL) == 0) {
        e->is_whole = true;
        e->next = NULL;
    } else if (e->known == end && e->next != NULL) {
        e->is_whole = true;
        widen_added(e);
    } else {
        e->is_whole = e->known == e->n;
    }
}

// ---- pieces --------------------------------------------------------------

static tt_status take_word(const tt_encoder *e, const char *p, int64_t n,
                           tt_ids *out)
{
    if (e->piece != NULL)
        return e->piece(e->user, p, n);
    if (e->t->ignores_merges) {
        const int32_t id = tt__tokenizer_find(e->t, p, n);
        if (id >= 0) {
            TT_TRY(tt_ids_reserve(out, 1));
            out->v[out->n++] = id;
            return TT_OK;
        }
    }
    const tt_status status = tt_bpe_encode(&e->t->bpe, e->cache, p, n, out);
    if (status == TT_ERR_ARG)
        return tt_fail_context(status, "byte %lld of the text",
                               (long long)e->at);
    return status;
}

// A piece of the first stage goes through the others, depth first, so that ids come
// out in the order of the text and only one piece per stage is open. The text is UTF-8.
static tt_status take_piece(const tt_encoder *e, int stage, const char *p,
                            int64_t n, tt_ids *out)
{
    // Pieces still to be cut: at most one per stage.
    tt_piece left[TT_STAGES_MAX + 1];
    int64_t at[TT_STAGES_MAX + 1];
    const int first = stage, last = e->t->n_stages;
    left[stage] = (tt_piece){0, n};
    at[stage] = 0;
    while (stage >= first) {
        const tt_piece *part = &left[stage];
        const char *text = p + part->from;
        const int64_t bytes = part->to - part->from;
        if (stage == last) {
            TT_TRY(take_word(e, text, bytes, out));
            stage--;
            continue;
        }
        if (at[stage] == bytes) {
            stage--;
            continue;
        }
        tt_piece found;
        TT_TRY(tt_split_next(e->scan[stage], text, bytes, at[stage], &found));
        const bool is_gap = found.from > at[stage];
        const int64_t from = at[stage], to = is_gap ? found.from : found.to;
        at[stage] = to;
        if (is_gap && e->t->stage[stage].drops_gaps)
            continue;
        stage++;
        left[stage] = (tt_piece){part->from + from, part->from + to};
        at[stage] = 0;
    }
    return TT_OK;
}

// The piece of the first stage at `at`; what does not match is one too.
static tt_status first_piece(const tt_encoder *e, const char *text, int64_t n,
                             int64_t at, bool *is_gap, int64_t *to_out)
{
    *is_gap = false;
    if (e->t->n_stages == 0) {
        *to_out = n;
        return TT_OK;
    }
    if (e->t->stage[0].is_gpt2) {
        const int64_t k = tt_split_gpt2(text + at, n - at);
        if (k > 0) {
            *to_out = at + k;
            return TT_OK;
        }
    }
    tt_piece found;
    TT_TRY(tt_split_next(e->scan[0], text, n, at, &found));
    *is_gap = found.from > at;
    *to_out = *is_gap ? found.from : found.to;
    return TT_OK;
}

static tt_status take_first(const tt_encoder *e, const char *p, int64_t n,
                            bool is_gap, tt_ids *out)
{
    if (is_gap && e->t->stage[0].drops_gaps)
        return TT_OK;
    if (e->t->n_stages <= 1)
        return take_word(e, p, n, out);
    return take_piece(e, 1, p, n, out);
}

// The first piece of a segment that gets a blank in front. The text itself is not
// changed, so the beginning is copied after a blank, in amounts that double until the
// piece ends well inside of the copy.
static tt_status next_with_blank(tt_encoder *e, tt_ids *out)
{
    tt_str text = {0};
    tt_status status = TT_OK;
    int64_t to = 0;
    for (int64_t ahead = PREFIX_FIRST; status == TT_OK; ahead *= 2) {
        bool is_gap = false;
        while (!e->is_whole && e->known - e->at < ahead)
            look_ahead(e, WINDOW);
        const int64_t n = e->known - e->at;
        const bool is_all = e->is_whole && n <= ahead;
        int64_t k = is_all ? n : ahead;
        while (!is_all && ((unsigned char)e->text[e->at + k] & 0xc0) == 0x80)
            k--;
        tt_str_clear(&text);
        tt_str_add(&text, " ");
        tt_str_add_bytes(&text, e->text + e->at, k);
        status = tt_str_status(&text);
        if (status == TT_OK)
            status =
                first_piece(e, tt_str_text(&text), text.n, 0, &is_gap, &to);
        if (status == TT_OK && (is_all || to <= text.n - MARGIN)) {
            status = take_first(e, tt_str_text(&text), to, is_gap, out);
            break;
        }
    }
    tt_str_fini(&text);
    e->at += to - 1;
    return status;
}

static tt_status next_in_run(tt_encoder *e, tt_ids *out)
{
    bool is_gap = false;
    int64_t to = 0;
    if (e->begins_segment && e->t->adds_space && e->text[e->at] != ' ') {
        e->begins_segment = false;
        return next_with_blank(e, out);
    }
    e->begins_segment = false;
    for (;;) {
        TT_TRY(first_piece(e, e->text + e->from, e->known - e->from,
                           e->at - e->from, &is_gap, &to));
        to += e->from;
        if (e->is_whole || to <= e->known - MARGIN)
            break;
        look_ahead(e, e->known - e->at > WINDOW ? e->known - e->at : WINDOW);
    }
    TT_TRY(take_first(e, e->text + e->at, to - e->at, is_gap, out));
    e->at = to;
    return TT_OK;
}

// After a run: an added token, or bytes that are no characters.
static tt_status next_between(tt_encoder *e, tt_ids *out)
{
    if (e->next != NULL) {
        if (e->piece == NULL) {
            TT_TRY(tt_ids_reserve(out, 1));
            out->v[out->n++] = e->next->id;
        }
        e->at = e->next_to;
        e->begins_segment = true;
    } else {
        int64_t to = e->at + 1;
        while (to < e->n && tt_utf8_read(e->text + to, e->n - to, NULL) == 0)
            to++;
        TT_TRY(take_word(e, e->text + e->at, to - e->at, out));
        e->at = to;
        e->begins_segment = false;
    }
    begin_run(e);
    return TT_OK;
}

static tt_status next_pieces(tt_encoder *e, int64_t bytes, tt_ids *out)
{
    const int64_t stop = bytes < e->n - e->at ? e->at + bytes : e->n;
    while (e->at < stop) {
        if (!e->is_whole && e->known - e->at < MARGIN)
            look_ahead(e, WINDOW);
        if (e->at < e->known)
            TT_TRY(next_in_run(e, out));
        else if (e->is_whole)
            TT_TRY(next_between(e, out));
    }
    return TT_OK;
}

// ---- all kinds -----------------------------------------------------------

static tt_status next_bytes(tt_encoder *e, int64_t to, tt_ids *out)
{
    TT_TRY(tt_ids_reserve(out, to - e->at));
    while (e->at < to)
        out->v[out->n++] = (unsigned char)e->text[e->at++];
    return TT_OK;
}

static tt_status next_chars(tt_encoder *e, int64_t to, tt_ids *out)
{
    while (to < e->n && ((unsigned char)e->text[to] & 0xc0) == 0x80)
        to++;
    TT_TRY(tt__chars_encode(e->t, e->text, to, e->at, out));
    e->at = to;
    return TT_OK;
}

tt_status tt_encoder_next(tt_encoder *e, int64_t bytes, tt_ids *out,
                          bool *more_out)
{
    const int64_t to = bytes < e->n - e->at ? e->at + bytes : e->n;
    switch (e->t->type) {
    case TT_TOKENIZER_BYTES:
        TT_TRY(next_bytes(e, to, out));
        break;
    case TT_TOKENIZER_CHARS:
        TT_TRY(next_chars(e, to, out));
        break;
    case TT_TOKENIZER_BPE:
        TT_TRY(next_pieces(e, bytes, out));
        break;
    case TT_TOKENIZER_GENERAL:
        return tt__general_next(e->general, bytes, out, more_out);
    }
    *more_out = e->at < e->n;
    return TT_OK;
}

tt_status tt_encoder_pieces(tt_encoder *e, tt_piece_fn *piece, void *user)
{
    e->piece = piece;
    e->user = user;
    return next_pieces(e, e->n, NULL);
}

tt_status tt_tokenizer_encode(const tt_tokenizer *t, const char *text,
                              int64_t n, bool with_special, tt_ids *out)
{
    tt_encoder *e = NULL;
    bool more = false;
    const int64_t before = out->n;
    TT_TRY(tt_encoder_open(t, text, n, with_special, &e));
    // Counted after normalizing, a text may be longer than it is.
    const tt_status status = tt_encoder_next(e, INT64_MAX, out, &more);
    tt_encoder_close(e);
    if (status != TT_OK)
        out->n = before;
    return status;
}
