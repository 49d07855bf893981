// normalize - the steps. See normalize.h.

#include "data/tokenizer/normalize.h"

#include "base/utf8.h"
#include "data/tokenizer/tokenizer_def.h"

#include <string.h>

typedef struct work {
    const tt_norms *norms;
    const tt_norm *step;
    const char *from;
    int64_t n;
    tt_str *to;
    bool *lost_front;
} work;

void tt_norms_fini(tt_norms *norms)
{
    for (int i = 0; i < norms->n; i++)
        tt_splitter_close(norms->v[i].splitter);
    tt_splitter_close(norms->controls);
    *norms = (tt_norms){0};
}

// ---- character by character ----------------------------------------------

// Appends what becomes of one character.
typedef void char_fn(const work *w, uint32_t code, const char *text, int n);

static tt_status for_each(const work *w, char_fn *fn)
{
    for (int64_t i = 0; i < w->n;) {
        uint32_t code = 0;
        const int k = tt_utf8_read(w->from + i, w->n - i, &code);
        if (k == 0)
            return tt_fail(TT_ERR_ARG, "byte %lld is not UTF-8", (long long)i);
        fn(w, code, w->from + i, k);
        *w->lost_front |= i == 0 && w->to->n == 0;
        i += k;
    }
    return TT_OK;
}

static void lower(const work *w, uint32_t code, const char *text, int n)
{
    if (code < 0x80) {
        const char c = (char)(code >= 'A' && code <= 'Z' ? code + 32 : code);
        tt_str_add_bytes(w->to, &c, 1);
    } else {
        tt_unicode_add_lower(w->norms->unicode, code, w->to);
    }
    (void)text;
    (void)n;
}

static void no_mark(const work *w, uint32_t code, const char *text, int n)
{
    if (code < 0x300 || !tt_unicode_is_mark(w->norms->unicode, code))
        tt_str_add_bytes(w->to, text, n);
}

static void no_nonspacing(const work *w, uint32_t code, const char *text, int n)
{
    if (code < 0x300 || !tt_unicode_is_nonspacing(w->norms->unicode, code))
        tt_str_add_bytes(w->to, text, n);
}

static void nmt(const work *w, uint32_t c, const char *text, int n)
{
    if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) ||
        c == 0x7f || c == 0x8f || c == 0x9f)
        return;
    if (c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == 0x1680 ||
        (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 ||
        c == 0x2581 || c == 0xfeff || c == 0xfffd)
        tt_str_add(w->to, " ");
    else
        tt_str_add_bytes(w->to, text, n);
}

static void chinese(const work *w, uint32_t c, const char *text, int n)
{
    const bool is =
        (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
        (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
        (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
        (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
    if (is)
        tt_str_add(w->to, " ");
    tt_str_add_bytes(w->to, text, n);
    if (is)
        tt_str_add(w->to, " ");
}

static void blanks(const work *w, uint32_t c, const char *text, int n)
{
    if (c == '\t' || c == '\n' || c == '\r' || tt_unicode_is_blank(c))
        tt_str_add(w->to, " ");
    else
        tt_str_add_bytes(w->to, text, n);
}

// ---- matches -------------------------------------------------------------

// Matches become `n` bytes of `by`.
static tt_status replace(const work *w, const tt_splitter *splitter,
                         const char *by, int64_t n)
{
    tt_split_scan *scan = NULL;
    TT_TRY(tt_split_scan_open(splitter, &scan));
    const tt_status status =
        tt_split_replace(scan, (tt_bytes){w->from, w->n}, (tt_bytes){by, n},
                         w->to, w->lost_front);
    tt_split_scan_close(scan);
    return status;
}

// A text of one byte needs no expression.
static tt_status replace_byte(const work *w, char byte)
{
    int64_t i = 0;
    while (i < w->n) {
        const char *at = memchr(w->from + i, byte, (size_t)(w->n - i));
        const int64_t k = at != NULL ? at - w->from - i : w->n - i;
        tt_str_add_bytes(w->to, w->from + i, k);
        if (at != NULL)
            tt_str_add_bytes(w->to, w->step->text, w->step->n);
        i += k + (at != NULL);
    }
    return TT_OK;
}

static tt_status replace_all(const work *w)
{
    const char *pattern = tt_splitter_pattern(w->step->splitter);
    if (w->step->n > 0 && strlen(pattern) == 1 &&
        (pattern[0] == ' ' || pattern[0] == '\n'))
        return replace_byte(w, pattern[0]);
    return replace(w, w->step->splitter, w->step->text, w->step->n);
}

// ---- steps ---------------------------------------------------------------

static void strip(const work *w)
{
    int64_t from = 0, to = w->n;
    while (w->step->strips_left && from < to) {
        uint32_t code = 0;
        const int k = tt_utf8_read(w->from + from, to - from, &code);
        if (!tt_unicode_is_blank(code))
            break;
        from += k;
        *w->lost_front = true;
    }
    while (w->step->strips_right && to > from) {
        uint32_t code = 0;
        int64_t k = to - 1;
        while (k > from && ((unsigned char)w->from[k] & 0xc0) == 0x80)
            k--;
        (void)tt_utf8_read(w->from + k, to - k, &code);
        if (!tt_unicode_is_blank(code))
            break;
        to = k;
    }
    tt_str_add_bytes(w->to, w->from + from, to - from);
}

static tt_status clean(const work *w)
{
    tt_str kept = {0};
    work part = *w;
    part.to = &kept;
    tt_status status = replace(&part, w->norms->controls, "", 0);
    part = *w;
    part.from = tt_str_text(&kept);
    part.n = kept.n;
    if (status == TT_OK)
        status = tt_str_status(&kept);
    if (status == TT_OK)
        status = for_each(&part, blanks);
    tt_str_fini(&kept);
    return status;
}

static tt_status apply(const work *w, bool continues)
{
    const tt_norm *s = w->step;
    switch (s->type) {
    case TT_NORM_FORM:
        return tt_unicode_normalize(w->norms->unicode, s->form, w->from, w->n,
                                    w->to);
    case TT_NORM_LOWER:
        return for_each(w, lower);
    case TT_NORM_STRIP:
        strip(w);
        return TT_OK;
    case TT_NORM_ACCENTS:
        return for_each(w, no_mark);
    case TT_NORM_REPLACE:
        return replace_all(w);
    case TT_NORM_PREPEND:
        if (w->n > 0 && !continues)
            tt_str_add_bytes(w->to, s->text, s->n);
        tt_str_add_bytes(w->to, w->from, w->n);
        return TT_OK;
    case TT_NORM_NMT:
        return for_each(w, nmt);
    case TT_NORM_BYTES:
        tt__byte_text(w->from, w->n, w->to);
        return TT_OK;
    case TT_NORM_CLEAN:
        return clean(w);
    case TT_NORM_CHINESE:
        return for_each(w, chinese);
    case TT_NORM_NONSPACING:
        return for_each(w, no_nonspacing);
    }
    return TT_OK;
}

tt_status tt_normalize(const tt_norms *norms, bool continues, tt_str *text,
                       bool *lost_front)
{
    for (int i = 0; i < norms->n; i++) {
        tt_str to = {0};
        const work w = {norms,   &norms->v[i], tt_str_text(text),
                        text->n, &to,          lost_front};
        tt_status status = apply(&w, continues);
        if (status == TT_OK && tt_str_status(&to) != TT_OK)
            status = tt_fail(TT_ERR_NOMEM, "out of memory to normalize a text");
        tt_str_fini(text);
        *text = to;
        TT_TRY(status);
    }
    return TT_OK;
}
