// detokenizer - a chain of rules (Hugging Face's decoders), each of which hands
// texts of tokens to the next. See detokenizer.h.
//
//   id -> token's text -> rule 0 -> rule 1 -> ... -> out
//
// Hugging Face's rules work on the list of all tokens. Here tokens come one by one,
// while text is generated, and what is known shall be shown at once. So a rule hands a
// text on as soon as later tokens cannot change it, and holds it otherwise: bytes
// until a character is complete, a token whose ending depends on whether it is the
// last one.

#include "data/tokenizer/detokenizer.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "data/tokenizer/tokenizer_def.h"

#include <string.h>

typedef struct link {
    const tt_undo *undo;
    tt_split_scan *scan;
    bool is_fused; // all that comes is one token
    bool waits;    // for all of it
    bool has_begun;
    int64_t stripped;
    tt_str held;
    bool is_held;
} link;

struct tt_detokenizer {
    const tt_tokenizer *t;
    link v[TT_UNDOS_MAX];
    int n;
    tt_str *out;
};

static tt_status emit(tt_detokenizer *d, int i, const char *text, int64_t n);

void tt_undos_fini(tt_undos *undos)
{
    for (int i = 0; i < undos->n; i++)
        tt_splitter_close(undos->v[i].splitter);
    *undos = (tt_undos){0};
}

tt_status tt_detokenizer_open(const tt_tokenizer *t,
                              tt_detokenizer **detokenizer_out)
{
    tt_detokenizer *d = tt_alloc(sizeof(*d));
    tt_status status = TT_OK;
    bool is_fused = false;
    if (d == NULL)
        return tt_fail(TT_ERR_NOMEM, "out of memory for a text");
    d->t = t;
    d->n = t->general != NULL ? t->general->undos.n : 0;
    for (int i = 0; i < d->n && status == TT_OK; i++) {
        link *l = &d->v[i];
        l->undo = &t->general->undos.v[i];
        l->is_fused = is_fused;
        l->waits = is_fused && l->undo->type != TT_UNDO_FUSE &&
                   l->undo->type != TT_UNDO_BYTE_LEVEL &&
                   !(l->undo->type == TT_UNDO_STRIP && l->undo->right == 0);
        is_fused |= l->undo->type == TT_UNDO_FUSE ||
                    l->undo->type == TT_UNDO_BYTE_LEVEL;
        if (l->undo->splitter != NULL)
            status = tt_split_scan_open(l->undo->splitter, &l->scan);
    }
    if (status != TT_OK) {
        tt_detokenizer_close(d);
        return status;
    }
    *detokenizer_out = d;
    return TT_OK;
}

void tt_detokenizer_close(tt_detokenizer *d)
{
    if (d == NULL)
        return;
    for (int i = 0; i < d->n; i++) {
        tt_split_scan_close(d->v[i].scan);
        tt_str_fini(&d->v[i].held);
    }
    tt_free(d);
}

// ---- rules ---------------------------------------------------------------

static bool is_at(const char *text, int64_t n, const char *part, int64_t k)
{
    return k > 0 && k <= n && memcmp(text, part, (size_t)k) == 0;
}

// Appends the text with `by` in place of `part`.
static void add_replaced(const char *text, int64_t n, const tt_undo *undo,
                         const char *by, tt_str *out)
{
    for (int64_t i = 0; i < n;) {
        const bool is = is_at(text + i, n - i, undo->text, undo->n);
        if (is)
            tt_str_add(out, by);
        else
            tt_str_add_bytes(out, text + i, 1);
        i += is ? undo->n : 1;
    }
}

static tt_status replace(link *l, const char *text, int64_t n, tt_str *to)
{
    return tt_split_replace(l->scan, (tt_bytes){text, n},
                            (tt_bytes){l->undo->text, l->undo->n}, to, NULL);
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

// The byte that "<0xE4>" names, or -1.
static int byte_of(const char *text, int64_t n)
{
    if (n != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>' ||
        hex(text[3]) < 0 || hex(text[4]) < 0)
        return -1;
    return 16 * hex(text[3]) + hex(text[4]);
}

// Bytes that are no text all become U+FFFD, each by itself.
static tt_status emit_bytes(tt_detokenizer *d, int i)
{
    link *l = &d->v[i];
    tt_str held = l->held;
    tt_status status = TT_OK;
    if (held.n == 0)
        return TT_OK;
    l->held = (tt_str){0};
    if (tt_utf8_valid(tt_str_text(&held), held.n) == held.n)
        status = emit(d, i + 1, tt_str_text(&held), held.n);
    else
        for (int64_t k = 0; k < held.n && status == TT_OK; k++)
            status = emit(d, i + 1, "\xef\xbf\xbd", 3);
    tt_str_fini(&held);
    return status;
}

static tt_status fall_back(tt_detokenizer *d, int i, const char *text,
                           int64_t n)
{
    link *l = &d->v[i];
    const int byte = byte_of(text, n);
    if (byte >= 0) {
        const char c = (char)byte;
        tt_str_add_bytes(&l->held, &c, 1);
        return tt_str_status(&l->held);
    }
    TT_TRY(emit_bytes(d, i));
    return emit(d, i + 1, text, n);
}

// Left of all that comes, or of each token; right of a whole token.
static tt_status strip(tt_detokenizer *d, int i, const char *text, int64_t n)
{
    link *l = &d->v[i];
    const tt_undo *u = l->undo;
    const bool goes_on = l->is_fused && !l->waits;
    int64_t from = 0, to = n;
    int64_t left = goes_on ? u->left - l->stripped : u->left;
    for (; left > 0 && is_at(text + from, n - from, u->text, u->n); left--) {
        from += u->n;
        l->stripped++;
    }
    if (goes_on && from < n)
        l->stripped = u->left; // something else stands there
    for (int64_t right = u->right; right > 0; right--) {
        if (to - u->n < from || !is_at(text + to - u->n, u->n, u->text, u->n))
            break;
        to -= u->n;
    }
    return emit(d, i + 1, text + from, to - from);
}

static void add_clean(tt_str *text)
{
    static const char *const pairs[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (int i = 0; i < 11; i++) {
        tt_str to = {0};
        const tt_undo undo = {.text = pairs[i][0],
                              .n = (int64_t)strlen(pairs[i][0])};
        add_replaced(tt_str_text(text), text->n, &undo, pairs[i][1], &to);
        const tt_status status = tt_str_status(&to);
        tt_str_fini(text);
        *text = to;
        if (status != TT_OK)
            return;
    }
}

static void add_wordpiece(const link *l, const char *text, int64_t n,
                          tt_str *to)
{
    const tt_undo *u = l->undo;
    const bool goes_on = l->has_begun && is_at(text, n, u->text, u->n);
    if (l->has_begun && !goes_on)
        tt_str_add(to, " ");
    tt_str_add_bytes(to, text + (goes_on ? u->n : 0), n - (goes_on ? u->n : 0));
    if (u->cleans)
        add_clean(to);
}

static void add_bytes_of(const tt_detokenizer *d, const char *text, int64_t n,
                         tt_str *to)
{
    if (d->t->general->lookup.type == TT_LOOKUP_BYTES ||
        !tt__byte_untext(text, n, to)) {
        tt_str_clear(to);
        tt_str_add_bytes(to, text, n);
    }
}

// The token that waits is not the last one.
static tt_status emit_suffixed(tt_detokenizer *d, int i, bool is_last)
{
    link *l = &d->v[i];
    tt_str to = {0};
    if (!l->is_held)
        return TT_OK;
    l->is_held = false;
    add_replaced(tt_str_text(&l->held), l->held.n, l->undo, is_last ? "" : " ",
                 &to);
    tt_status status = tt_str_status(&to);
    if (status == TT_OK)
        status = emit(d, i + 1, tt_str_text(&to), to.n);
    tt_str_fini(&to);
    return status;
}

static tt_status hold(link *l, const char *text, int64_t n)
{
    tt_str_add_bytes(&l->held, text, n);
    l->is_held = true;
    return tt_str_status(&l->held);
}

// Rules that make one text of one text.
static tt_status change(tt_detokenizer *d, int i, const char *text, int64_t n)
{
    link *l = &d->v[i];
    tt_str to = {0};
    tt_status status = TT_OK;
    switch (l->undo->type) {
    case TT_UNDO_REPLACE:
        status = replace(l, text, n, &to);
        break;
    case TT_UNDO_METASPACE:
        add_replaced(text, n, l->undo,
                     !l->has_begun && l->undo->drops_first ? "" : " ", &to);
        break;
    case TT_UNDO_BYTE_LEVEL:
        add_bytes_of(d, text, n, &to);
        break;
    case TT_UNDO_WORDPIECE:
        add_wordpiece(l, text, n, &to);
        break;
    default: // JOIN
        if (l->has_begun)
            tt_str_add(&to, " ");
        tt_str_add_bytes(&to, text, n);
        break;
    }
    l->has_begun = true;
    if (status == TT_OK)
        status = tt_str_status(&to);
    if (status == TT_OK)
        status = emit(d, i + 1, tt_str_text(&to), to.n);
    tt_str_fini(&to);
    return status;
}

static tt_status apply(tt_detokenizer *d, int i, const char *text, int64_t n)
{
    switch (d->v[i].undo->type) {
    case TT_UNDO_FUSE:
        return emit(d, i + 1, text, n);
    case TT_UNDO_BYTE_FALLBACK:
        return fall_back(d, i, text, n);
    case TT_UNDO_STRIP:
        return strip(d, i, text, n);
    case TT_UNDO_SUFFIX:
        TT_TRY(emit_suffixed(d, i, false));
        tt_str_clear(&d->v[i].held);
        return hold(&d->v[i], text, n);
    default:
        return change(d, i, text, n);
    }
}

// Hands the text of a token to rule `i`; after the last rule it is written.
// NOLINTNEXTLINE(misc-no-recursion): as deep as there are rules
static tt_status emit(tt_detokenizer *d, int i, const char *text, int64_t n)
{
    if (i < d->n)
        return d->v[i].waits ? hold(&d->v[i], text, n) : apply(d, i, text, n);
    tt_str_add_bytes(d->out, text, n);
    return tt_str_status(d->out);
}

// ---- use -----------------------------------------------------------------

tt_status tt_detokenizer_next(tt_detokenizer *d, int32_t id, tt_str *out)
{
    const tt_tokenizer *t = d->t;
    if (id < 0 || id >= t->vocab || t->token[id].bytes == NULL)
        return tt_fail(TT_ERR_ARG,
                       "%d is a token that the tokenizer does not have: its "
                       "ids are below %lld",
                       id, (long long)t->vocab);
    d->out = out;
    return emit(d, 0, t->token[id].bytes, t->token[id].n);
}

tt_status tt_detokenizer_flush(tt_detokenizer *d, tt_str *out)
{
    d->out = out;
    for (int i = 0; i < d->n; i++) {
        link *l = &d->v[i];
        const tt_undo_type type = l->undo->type;
        if (l->waits && l->is_held) {
            tt_str held = l->held;
            l->held = (tt_str){0};
            l->is_held = false;
            const tt_status status = apply(d, i, tt_str_text(&held), held.n);
            tt_str_fini(&held);
            TT_TRY(status);
        }
        if (type == TT_UNDO_BYTE_FALLBACK)
            TT_TRY(emit_bytes(d, i));
        if (type == TT_UNDO_SUFFIX) {
            TT_TRY(emit_suffixed(d, i, true));
            tt_str_clear(&l->held);
        }
    }
    return tt_str_status(out);
}
