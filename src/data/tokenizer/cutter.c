// cutter - the rules at work. See cutter.h.
//
// Each rule has a level. The first cuts the text, the second cuts the pieces of the
// first, and so on. To get the next piece, the deepest level is asked; when it has no
// more, the level above gives it its next piece. So pieces come out one at a time and
// in order, and only one piece per level is held.

#include "data/tokenizer/cutter.h"

#include "base/alloc.h"

#include <string.h>

typedef struct span {
    int64_t from, to;
    bool is_match;
} span;

typedef struct level { // one rule and the piece that it cuts
    const tt_cut_rule *cut;
    tt_split_scan *scan;
    tt_str own; // the piece, where the rule changes it
    const char *text;
    int64_t n, at;
    bool is_first;
    tt_piece match; // found, but what stands before it came first
    bool has_match;
    span held; // may still grow, or be joined to the next
    bool is_held, was_match;
} level;

struct tt_cutter {
    level v[TT_CUTS_MAX];
    int n, depth;
    const char *whole; // without rules: the text
    int64_t whole_n;
};

void tt_cuts_fini(tt_cuts *cuts)
{
    for (int i = 0; i < cuts->n; i++)
        tt_splitter_close(cuts->v[i].splitter);
    *cuts = (tt_cuts){0};
}

tt_status tt_cutter_open(const tt_cuts *cuts, tt_cutter **cutter_out)
{
    tt_cutter *c = tt_alloc(sizeof(*c));
    tt_status status = TT_OK;
    if (c == NULL)
        return tt_fail(TT_ERR_NOMEM, "out of memory for a text");
    c->n = cuts->n;
    c->depth = -1;
    for (int i = 0; i < cuts->n && status == TT_OK; i++) {
        c->v[i].cut = &cuts->v[i];
        if (cuts->v[i].splitter != NULL)
            status = tt_split_scan_open(cuts->v[i].splitter, &c->v[i].scan);
    }
    if (status != TT_OK) {
        tt_cutter_close(c);
        return status;
    }
    *cutter_out = c;
    return TT_OK;
}

void tt_cutter_close(tt_cutter *c)
{
    if (c == NULL)
        return;
    for (int i = 0; i < c->n; i++) {
        tt_split_scan_close(c->v[i].scan);
        tt_str_fini(&c->v[i].own);
    }
    tt_free(c);
}

// ---- one rule ------------------------------------------------------------

static bool begins_with(const char *text, int64_t n, const char *prefix)
{
    const int64_t k = (int64_t)strlen(prefix);
    return k <= n && memcmp(text, prefix, (size_t)k) == 0;
}

// The piece with its blanks replaced and what is put before it.
static tt_status rewrite(level *l)
{
    const tt_cut_rule *cut = l->cut;
    const char *blank = cut->blank != NULL ? cut->blank : " ";
    const bool begins_so =
        begins_with(l->text, l->n, cut->prefix) ||
        (l->text[0] == ' ' && strcmp(blank, cut->prefix) == 0);
    const bool prepends = cut->prepend == TT_PREPEND_ALWAYS ||
                          (cut->prepend == TT_PREPEND_FIRST && l->is_first);
    tt_str_clear(&l->own);
    if (prepends && !begins_so)
        tt_str_add(&l->own, cut->prefix);
    for (int64_t i = 0; i < l->n;) {
        const char *at = memchr(l->text + i, ' ', (size_t)(l->n - i));
        const int64_t k = at != NULL ? at - l->text - i : l->n - i;
        tt_str_add_bytes(&l->own, l->text + i, k);
        if (at != NULL)
            tt_str_add(&l->own, blank);
        i += k + (at != NULL);
    }
    TT_TRY(tt_str_status(&l->own));
    l->text = tt_str_text(&l->own);
    l->n = l->own.n;
    return TT_OK;
}

static tt_status begin(level *l, const char *text, int64_t n, bool is_first)
{
    l->text = text;
    l->n = n;
    l->at = 0;
    l->is_first = is_first;
    l->has_match = l->is_held = l->was_match = false;
    if (n > 0 && (l->cut->blank != NULL || l->cut->prepend != TT_PREPEND_NEVER))
        return rewrite(l);
    return TT_OK;
}

// The next match, which may be empty, or what stands before it. False: the text is at
// its end.
static tt_status find(level *l, span *s, bool *is_there)
{
    *s = (span){l->at, l->at, false};
    *is_there = l->at < l->n;
    if (!*is_there)
        return TT_OK;
    if (l->scan == NULL) {
        s->to = l->at = l->n;
        return TT_OK;
    }
    if (!l->has_match && l->cut->is_gpt2) {
        const int64_t k = tt_split_gpt2(l->text + l->at, l->n - l->at);
        if (k > 0) {
            l->at += k;
            *s = (span){l->at - k, l->at, !l->cut->inverts};
            return TT_OK;
        }
    }
    if (!l->has_match)
        TT_TRY(tt_split_next(l->scan, l->text, l->n, l->at, &l->match));
    const bool is_match = l->match.from == l->at;
    s->to = is_match ? l->match.to : l->match.from;
    s->is_match = is_match != l->cut->inverts;
    l->has_match = !is_match && l->match.from < l->n;
    l->at = s->to;
    return TT_OK;
}

// Holds `s` and gives what was held before; true: there was something.
static bool swap(level *l, const span *s, span *out)
{
    const bool was = l->is_held;
    *out = l->held;
    l->held = *s;
    l->is_held = true;
    return was;
}

// True: `out` is the next piece. Otherwise `s` was taken in.
static bool add_span(level *l, const span *s, span *out)
{
    const bool was_match = l->was_match;
    l->was_match = s->is_match;
    switch (l->cut->behavior) {
    case TT_CUT_REMOVED:
        *out = *s;
        return !s->is_match;
    case TT_CUT_CONTIGUOUS:
        if (!l->is_held || l->held.is_match != s->is_match)
            return swap(l, s, out);
        l->held.to = s->to;
        return false;
    case TT_CUT_WITH_PREVIOUS:
        if (!s->is_match || was_match || !l->is_held)
            return swap(l, s, out);
        l->held.to = s->to;
        return false;
    case TT_CUT_WITH_NEXT:
        if (!s->is_match && was_match && l->is_held) {
            *out = (span){l->held.from, s->to, false};
            l->is_held = false;
            return true;
        }
        return swap(l, s, out);
    case TT_CUT_ISOLATED:
        break;
    }
    *out = *s;
    return true;
}

static tt_status next_span(level *l, span *out, bool *is_there)
{
    for (;;) {
        span s;
        bool is_more = false;
        TT_TRY(find(l, &s, &is_more));
        if (!is_more) {
            *out = l->held;
            *is_there = l->is_held && l->held.to > l->held.from;
            l->is_held = false;
            return TT_OK;
        }
        // An empty one parts its neighbours and is no piece itself.
        if (add_span(l, &s, out) && out->to > out->from) {
            *is_there = true;
            return TT_OK;
        }
    }
}

// ---- all of them ---------------------------------------------------------

void tt_cutter_begin(tt_cutter *c, const char *text, int64_t n, bool is_first)
{
    c->whole = text;
    c->whole_n = n;
    c->depth = -1;
    if (c->n > 0) // the rule looks at it when the first piece is wanted
        c->v[0].is_first = is_first;
}

int64_t tt_cutter_at(const tt_cutter *c)
{
    return c->depth < 0 || c->n == 0 ? 0 : c->v[0].at;
}

static tt_status next_of_rules(tt_cutter *c, const char **text_out,
                               int64_t *n_out)
{
    while (c->depth >= 0) {
        level *l = &c->v[c->depth];
        span s;
        bool is_there = false;
        TT_TRY(next_span(l, &s, &is_there));
        if (!is_there) {
            c->depth--;
            continue;
        }
        const char *text = l->text + s.from;
        if (c->depth + 1 == c->n) {
            *text_out = text;
            *n_out = s.to - s.from;
            return TT_OK;
        }
        c->depth++;
        TT_TRY(begin(&c->v[c->depth], text, s.to - s.from,
                     l->is_first && s.from == 0));
    }
    return TT_OK;
}

tt_status tt_cutter_next(tt_cutter *c, const char **text_out, int64_t *n_out)
{
    const char *whole = c->whole;
    *text_out = NULL;
    *n_out = 0;
    c->whole = NULL;
    if (whole != NULL && c->whole_n > 0) {
        if (c->n == 0) {
            *text_out = whole;
            *n_out = c->whole_n;
            return TT_OK;
        }
        c->depth = 0;
        TT_TRY(begin(&c->v[0], whole, c->whole_n, c->v[0].is_first));
    }
    return next_of_rules(c, text_out, n_out);
}
