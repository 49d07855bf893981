// general - text to ids by the steps of a tokenizer.json. See general.h.
//
//   text       added tokens that are not normalized cut it into segments
//   segment    is normalized; then the other added tokens cut it into parts
//   part       is cut into pieces, whose ids are looked up
//
// Each step is what Hugging Face's library does, in the same order, because the ids
// must be the same. A segment is kept normalized, so memory grows with the longest one.
//
// The encoder stops after any piece and goes on later. So what would be local
// variables of three nested loops (text, segment, part) are members of a struct, and
// tt__general_next decides from them which loop is to be continued.

#include "data/tokenizer/general.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "data/tokenizer/tokenizer_def.h"

#include <stdlib.h>
#include <string.h>

struct tt_general_encoder {
    const tt_tokenizer *t;
    const tt_general *g;
    tt_text text;
    bool with_special;
    int64_t at;   // of the text
    int64_t scan; // added tokens are looked for from here on
    const tt_added_token *next;
    int64_t next_to; // an added token that follows the segment, and its end
    int64_t bad_to;  // or bytes that are no characters
    tt_str segment;
    int64_t segment_at, segment_scan;
    bool segment_is_first, continues;
    const tt_added_token *part_next;
    int64_t part_next_to, part_to;
    bool is_cutting;
    tt_cutter *cutter;
    tt_looker *looker;
    tt_bpe_cache *cache;
    tt_split_scan *word;
};

tt_status tt__general_open(const tt_tokenizer *t, const tt_text *text,
                           bool with_special, tt_general_encoder **out)
{
    tt_general_encoder *e = tt_alloc(sizeof(*e));
    if (e == NULL)
        return tt_fail(TT_ERR_NOMEM, "out of memory for a text");
    *e = (tt_general_encoder){
        .t = t, .g = t->general, .text = *text, .with_special = with_special};
    tt_status status = tt_cutter_open(&t->general->cuts, &e->cutter);
    e->cache = tt_bpe_cache_create(text->n);
    if (status == TT_OK && e->cache == NULL)
        status = tt_fail(TT_ERR_NOMEM, "out of memory for a text");
    if (status == TT_OK)
        status = tt_looker_open(t, e->cache, &e->looker);
    if (status == TT_OK && t->general->word != NULL)
        status = tt_split_scan_open(t->general->word, &e->word);
    if (status != TT_OK) {
        tt__general_close(e);
        return status;
    }
    *out = e;
    return TT_OK;
}

void tt__general_close(tt_general_encoder *e)
{
    if (e == NULL)
        return;
    tt_cutter_close(e->cutter);
    tt_looker_close(e->looker);
    tt_bpe_cache_destroy(e->cache);
    tt_split_scan_close(e->word);
    tt_str_fini(&e->segment);
    tt_free(e);
}

// ---- added tokens --------------------------------------------------------

typedef struct search {
    const tt_added_list *list;
    const char *text; // searched from `scan` to `to`; `n` bytes are there
    int64_t n, from, scan, to;
    const tt_added_token *found;
    int64_t at, end; // of what was found, with the blanks that it eats
    int64_t next;    // and without those after it: blanks may be tokens too
} search;

static int64_t found_at(const search *s, int64_t at)
{
    for (int64_t i = 0; i < s->list->n; i++) {
        const tt_text *a = &s->list->text[i];
        if (a->n <= s->to - at &&
            memcmp(a->bytes, s->text + at, (size_t)a->n) == 0)
            return i;
    }
    return -1;
}

static int64_t char_before(const char *text, int64_t at)
{
    do
        at--;
    while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80);
    return at;
}

static bool is_blank_at(const search *s, int64_t at, int *bytes)
{
    uint32_t code = 0;
    *bytes = tt_utf8_read(s->text + at, s->n - at, &code);
    return *bytes > 0 && tt_unicode_is_blank(code);
}

static tt_status is_word_at(const tt_general_encoder *e, const search *s,
                            int64_t at, bool *is_word)
{
    const int k = tt_utf8_read(s->text + at, s->n - at, NULL);
    tt_piece found = {0};
    *is_word = false;
    if (k == 0)
        return TT_OK;
    TT_TRY(tt_split_next(e->word, s->text + at, k, 0, &found));
    *is_word = found.from < k;
    return TT_OK;
}

// Not where it would be a part of a word.
static tt_status stands_alone(const tt_general_encoder *e, const search *s,
                              int64_t at, int64_t end, bool *alone)
{
    bool before = false, after = false;
    if (at > 0)
        TT_TRY(is_word_at(e, s, char_before(s->text, at), &before));
    if (end < s->n)
        TT_TRY(is_word_at(e, s, end, &after));
    *alone = !before && !after;
    return TT_OK;
}

static void widen(search *s)
{
    int k = 0;
    while (s->found->eats_left && s->at > s->from &&
           is_blank_at(s, char_before(s->text, s->at), &k))
        s->at -= k;
    while (s->found->eats_right && s->end < s->to && is_blank_at(s, s->end, &k))
        s->end += k;
}

// One that does not count here hides what overlaps it, as it does elsewhere.
static tt_status find_added(const tt_general_encoder *e, search *s)
{
    s->found = NULL;
    s->at = s->end = s->next = s->to;
    for (int64_t i = s->scan; i < s->to && s->list->n > 0; i++) {
        if (!s->list->begins[(unsigned char)s->text[i]])
            continue;
        const int64_t which = found_at(s, i);
        if (which < 0)
            continue;
        const tt_added_token *a = s->list->v[which];
        const int64_t end = i + s->list->text[which].n;
        bool counts = e->with_special || !a->is_special;
        if (counts && a->is_word)
            TT_TRY(stands_alone(e, s, i, end, &counts));
        if (counts) {
            s->found = a;
            s->at = i;
            s->end = s->next = end;
            widen(s);
            s->at = s->at > s->from ? s->at : s->from;
            return TT_OK;
        }
        i = end - 1;
    }
    return TT_OK;
}

static tt_status add_id(int32_t id, tt_ids *out)
{
    TT_TRY(tt_ids_reserve(out, 1));
    out->v[out->n++] = id;
    return TT_OK;
}

// ---- segments ------------------------------------------------------------

static tt_status begin_segment(tt_general_encoder *e)
{
    const tt_text *text = &e->text;
    const int64_t valid = tt_utf8_valid(text->bytes + e->at, text->n - e->at);
    search s = {.list = &e->g->plain,
                .text = text->bytes,
                .n = text->n,
                .from = e->at,
                .scan = e->scan < e->at ? e->scan : e->at,
                .to = e->at + valid};
    bool lost_front = false;
    TT_TRY(find_added(e, &s));
    e->scan = s.next;
    e->next = s.found;
    e->next_to = s.end;
    e->bad_to = s.at;
    while (s.found == NULL && e->bad_to < text->n &&
           tt_utf8_read(text->bytes + e->bad_to, text->n - e->bad_to, NULL) ==
               0)
        e->bad_to++;
    tt_str_clear(&e->segment);
    tt_str_add_bytes(&e->segment, text->bytes + e->at, s.at - e->at);
    if (tt_str_status(&e->segment) != TT_OK)
        return tt_fail(TT_ERR_NOMEM, "out of memory for a text");
    if (e->segment.n > 0)
        TT_TRY(
            tt_normalize(&e->g->norms, e->continues, &e->segment, &lost_front));
    e->segment_is_first = e->at == 0 && !lost_front;
    e->segment_at = e->segment_scan = 0;
    e->at = s.at;
    return TT_OK;
}

// What follows a segment: an added token, or bytes that are no characters.
static tt_status end_segment(tt_general_encoder *e, tt_ids *out)
{
    e->continues = e->next == NULL;
    if (e->next != NULL) {
        TT_TRY(add_id(e->next->id, out));
        e->at = e->next_to;
    } else if (e->bad_to > e->at) {
        TT_TRY(tt_look_up_bytes(e->looker, e->text.bytes + e->at,
                                e->bad_to - e->at, out));
        e->at = e->scan = e->bad_to;
    }
    e->next = NULL;
    e->bad_to = 0;
    return TT_OK;
}

// ---- parts ---------------------------------------------------------------

static tt_status begin_part(tt_general_encoder *e)
{
    search s = {.list = &e->g->normalized,
                .text = tt_str_text(&e->segment),
                .n = e->segment.n,
                .from = e->segment_at,
                .scan = e->segment_scan,
                .to = e->segment.n};
    TT_TRY(find_added(e, &s));
    e->segment_scan = s.next;
    e->part_next = s.found;
    e->part_next_to = s.end;
    e->part_to = s.at;
    tt_cutter_begin(e->cutter, s.text + e->segment_at, s.at - e->segment_at,
                    e->segment_is_first && e->segment_at == 0);
    e->is_cutting = true;
    return TT_OK;
}

static tt_status next_piece(tt_general_encoder *e, int64_t *bytes, tt_ids *out)
{
    const char *piece = NULL;
    int64_t n = 0;
    TT_TRY(tt_cutter_next(e->cutter, &piece, &n));
    if (piece != NULL) {
        *bytes -= n;
        return tt_look_up(e->looker, piece, n, out);
    }
    e->is_cutting = false;
    e->segment_at = e->part_next != NULL ? e->part_next_to : e->part_to;
    return e->part_next != NULL ? add_id(e->part_next->id, out) : TT_OK;
}

tt_status tt__general_next(tt_general_encoder *e, int64_t bytes, tt_ids *out,
                           bool *more_out)
{
    tt_status status = TT_OK;
    bool more = true;
    while (status == TT_OK && more && bytes > 0) {
        if (e->is_cutting) {
            status = next_piece(e, &bytes, out);
        } else if (e->segment_at < e->segment.n ||
                   e->segment_scan < e->segment.n) {
            status = begin_part(e);
        } else if (e->next != NULL || e->bad_to > e->at) {
            status = end_segment(e, out);
        } else if (e->at < e->text.n || e->scan < e->text.n) {
            status = begin_segment(e);
        } else {
            more = false;
        }
    }
    if (status == TT_ERR_ARG)
        return tt_fail_context(status, "near byte %lld of the text",
                               (long long)e->at);
    *more_out = more;
    return status;
}

// ---- making one ----------------------------------------------------------

void tt__general_fini(tt_general *g)
{
    if (g == NULL)
        return;
    tt_norms_fini(&g->norms);
    tt_cuts_fini(&g->cuts);
    tt_undos_fini(&g->undos);
    tt_splitter_close(g->word);
}

typedef struct sought {
    const tt_added_token *token;
    tt_text text;
} sought;

static int longer_first(const void *a, const void *b)
{
    const tt_text *x = &((const sought *)a)->text;
    const tt_text *y = &((const sought *)b)->text;
    if (x->n != y->n)
        return x->n > y->n ? -1 : 1;
    return memcmp(x->bytes, y->bytes, (size_t)x->n);
}

// What is looked for in normalized text is normalized too.
static tt_status sought_text(tt_tokenizer *t, const tt_added_token *a,
                             tt_text *text_out)
{
    tt_str text = {0};
    bool lost_front = false;
    tt_str_add_bytes(&text, a->text, a->n);
    tt_status status = tt_str_status(&text);
    if (status == TT_OK && a->is_normalized)
        status = tt_normalize(&t->general->norms, false, &text, &lost_front);
    if (status == TT_OK) {
        text_out->n = text.n;
        text_out->bytes =
            tt_arena_copy(t->arena, tt_str_text(&text), text.n + 1);
        if (text_out->bytes == NULL)
            status = TT_ERR_NOMEM;
    }
    tt_str_fini(&text);
    return status;
}

static tt_status make_list(tt_tokenizer *t, bool normalized, sought *v,
                           tt_added_list *list)
{
    for (int64_t i = 0; i < t->n_added; i++) {
        const tt_added_token *a = &t->added[i];
        if (a->is_normalized != normalized)
            continue;
        v[list->n].token = a;
        TT_TRY(sought_text(t, a, &v[list->n].text));
        const tt_text *text = &v[list->n].text;
        if (text->n != a->n || memcmp(text->bytes, a->text, (size_t)a->n) != 0)
            t->token[a->id] = (tt_token){text->bytes, text->n}; // as others do
        list->n += v[list->n].text.n > 0;
    }
    if (list->n > 1)
        qsort(v, (size_t)list->n, sizeof(*v), longer_first);
    const tt_added_token **tokens =
        tt_arena_alloc(t->arena, list->n * (int64_t)sizeof(*tokens));
    tt_text *texts =
        tt_arena_alloc(t->arena, list->n * (int64_t)sizeof(*texts));
    if (tokens == NULL || texts == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < list->n; i++) {
        tokens[i] = v[i].token;
        texts[i] = v[i].text;
        list->begins[(unsigned char)v[i].text.bytes[0]] = true;
    }
    list->v = tokens;
    list->text = texts;
    return TT_OK;
}

tt_status tt__general_finish(tt_tokenizer *t)
{
    tt_general *g = t->general;
    sought *v = tt_alloc((t->n_added + 1) * (int64_t)sizeof(*v));
    tt_status status =
        v != NULL ? TT_OK : tt_fail(TT_ERR_NOMEM, "no memory for a tokenizer");
    if (status == TT_OK)
        status = make_list(t, false, v, &g->plain);
    if (status == TT_OK)
        status = make_list(t, true, v, &g->normalized);
    tt_free(v);
    for (int64_t i = 0; i < t->n_added && status == TT_OK && !g->word; i++)
        if (t->added[i].is_word)
            status = tt_splitter_open("[" TT_SPLIT_WORD "]", &g->word);
    return status == TT_OK ? tt__lookup_finish(t) : status;
}
