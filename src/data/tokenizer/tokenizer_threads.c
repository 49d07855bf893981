// tokenizer_threads - one text encoded by several threads, with the ids that one thread
// would give.
//
// A text cannot be cut anywhere: a cut inside of a piece changes the ids around it. So
// it is cut where a line begins, which is hardly ever inside of a piece. Each thread
// encodes up to the end of the piece in which its part ends, and notes where that was.
// Afterwards the parts are checked in order. If one part did not end where the next
// began, the next is encoded once more from there. The result is always right, and a
// second time is rare.

#include "base/alloc.h"
#include "data/tokenizer/tokenizer_def.h"
#include "data/tokenizer/tokenizer_stream.h"

#include <stdio.h>
#include <string.h>

enum { PARTS_MAX = 256, PART_MIN = 64 << 10, LINE_MAX = 16 << 10 };

typedef struct range {
    int64_t from, to;
    int64_t end; // of its last piece
    tt_ids ids;
    tt_status status;
    char message[400]; // errors are kept per thread
} range;

static void encode_range(const tt_encoder *like, range *r)
{
    tt_encoder *e = NULL;
    bool more = false;
    r->ids.n = 0;
    r->status = tt_encoder_copy(like, &e);
    if (r->status == TT_OK) {
        tt_encoder_seek(e, r->from);
        r->status = tt_encoder_next(e, r->to - r->from, &r->ids, &more);
        r->end = tt_encoder_at(e);
    }
    if (r->status != TT_OK)
        snprintf(r->message, sizeof r->message, "%s", tt_error_message());
    tt_encoder_close(e);
}

// The start of a line that begins with a letter, near `at`; or of a character.
static int64_t find_cut(const tt_text *text, int64_t at)
{
    const char *p = text->bytes;
    int64_t stop = at + LINE_MAX < text->n ? at + LINE_MAX : text->n;
    for (int64_t i = at; i + 1 < stop; i++) {
        const char c = (char)(p[i + 1] | 0x20);
        if (p[i] == '\n' && c >= 'a' && c <= 'z')
            return i + 1;
    }
    while (at < text->n && ((unsigned char)p[at] & 0xc0) == 0x80)
        at++;
    return at;
}

static int cut(const tt_text *text, int64_t from, int64_t to, int n, range *v)
{
    int parts = 0;
    for (int i = 0; i < n; i++) {
        const int64_t border =
            i + 1 == n ? to : find_cut(text, from + (to - from) / n * (i + 1));
        const int64_t begin = parts > 0 ? v[parts - 1].to : from;
        if (border > begin && border <= to)
            v[parts++] = (range){.from = begin, .to = border};
    }
    return parts;
}

// Appends what the threads found, in order.
static tt_status collect(tt_encoder *e, range *v, int n, tt_ids *out)
{
    int64_t at = v[0].from;
    for (int i = 0; i < n; i++) {
        range *r = &v[i];
        if (at >= r->to)
            continue; // a piece of an earlier part covers all of it
        if (at != r->from) {
            r->from = at;
            encode_range(e, r);
        }
        if (r->status != TT_OK)
            return tt_fail(r->status, "%s", r->message);
        TT_TRY(tt_ids_reserve(out, r->ids.n));
        if (r->ids.n > 0)
            memcpy(out->v + out->n, r->ids.v,
                   (size_t)r->ids.n * sizeof(*out->v));
        out->n += r->ids.n;
        at = r->end;
    }
    tt_encoder_seek(e, at);
    return TT_OK;
}

tt_status tt_encoder_next_threads(tt_encoder *e, int64_t bytes, int n_threads,
                                  tt_ids *out, bool *more_out)
{
    const tt_text text = tt_encoder_text(e);
    const int64_t from = tt_encoder_at(e);
    const int64_t to = bytes < text.n - from ? from + bytes : text.n;
    int n = n_threads < PARTS_MAX ? n_threads : PARTS_MAX;
    if (n > (to - from) / PART_MIN)
        n = (int)((to - from) / PART_MIN);
    if (n < 2 || !tt_encoder_is_local(e))
        return tt_encoder_next(e, bytes, out, more_out);
    range *v = tt_alloc(n * (int64_t)sizeof(*v));
    if (v == NULL)
        return tt_fail(TT_ERR_NOMEM, "out of memory for a text");
    const int parts = cut(&text, from, to, n, v);
#pragma omp parallel for num_threads(n) schedule(static, 1)
    for (int i = 0; i < parts; i++)
        encode_range(e, &v[i]);
    const tt_status status = collect(e, v, parts, out);
    for (int i = 0; i < parts; i++)
        tt_ids_fini(&v[i].ids);
    tt_free(v);
    *more_out = tt_encoder_at(e) < text.n;
    return status;
}
