// unicode - normal forms of text. See unicode.h.
//
// The same text can be written in several ways: "e with acute" as one character or as
// an "e" and an accent. A normal form makes one of them. NFD takes everything apart,
// NFC puts it together again, NFKD and NFKC also replace variants (ligatures, wide
// forms).
//
//   1  decompose   each character into its parts, by the tables
//   2  order       accents after a letter, by their combining class, stable
//   3  compose     a letter and the accents that are not blocked, by the tables
//
// Most text does not change. So text is copied as long as no character of it can
// change or join another one (count_inert), which a flag per page of 256 codes
// decides. The others go through the three steps up to the next place where nothing
// can join.
//
// Korean syllables are computed and not looked up: 19 x 21 x 28 of them lie in order.

#include "data/tokenizer/unicode.h"

#include "base/alloc.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum {
    HANGUL = 0xac00, // syllables, made of an L, a V and perhaps a T
    HANGUL_N = 11172,
    JAMO_L = 0x1100,
    JAMO_V = 0x1161,
    JAMO_T = 0x11a7,
    N_L = 19,
    N_V = 21,
    N_T = 28,
    PLAIN = 0x300, // codes below never join the one before
    N_PAGES = 0x1100,
    FEW = 32,
};

typedef struct decomposition {
    uint32_t code;
    int32_t first; // place of its codes in `to`
    uint8_t n;
    bool is_compatible, is_excluded;
} decomposition;

typedef struct composition {
    uint64_t pair; // first << 32 | second
    uint32_t code;
} composition;

typedef struct range {
    uint32_t first, last, kind;
} range;

struct tt_unicode {
    decomposition *decomposition;
    composition *composition;
    range *class, *mark, *lower; // lower: code, code it becomes, 0
    uint32_t *to;
    int64_t n_decompositions, n_compositions, n_classes, n_marks, n_lower;
    bool is_busy[N_PAGES]; // a page of 256 codes has some that are not inert
};

// ---- tables --------------------------------------------------------------

static uint32_t read_number(const char **p)
{
    uint32_t value = 0, digit = 32;
    for (int shift = 0; digit >= 32 && **p != '\0'; shift += 5, (*p)++) {
        digit = **p == '0'   ? '\\' - 64
                : **p == '1' ? 127 - 64
                             : (uint32_t)(**p - 64);
        value |= digit % 32 << shift;
    }
    return value;
}

static uint32_t read_signed(const char **p)
{
    const uint32_t v = read_number(p);
    return v % 2 == 0 ? v / 2 : ~(v / 2);
}

// An entry has `per` characters of the text at least.
static void *room(tt_arena *arena, const char *text, int per, size_t size)
{
    return tt_arena_alloc(arena, (int64_t)strlen(text) / per * (int64_t)size);
}

static void mark_busy(tt_unicode *u, uint32_t code)
{
    u->is_busy[code >> 8] = true;
}

static void read_decompositions(tt_unicode *u)
{
    uint32_t code = 0, before[32] = {0};
    int32_t n_to = 0;
    for (const char *p = tt__unicode_decompositions; *p != '\0';) {
        code += read_number(&p);
        const uint32_t shape = read_number(&p);
        decomposition *d = &u->decomposition[u->n_decompositions++];
        *d = (decomposition){code, n_to, (uint8_t)(shape / 4), (shape & 2) != 0,
                             (shape & 1) != 0};
        for (int i = 0; i < d->n; i++) {
            before[i] += read_signed(&p) + (i == 0);
            u->to[n_to++] = before[i];
        }
        mark_busy(u, code);
    }
}

static int by_pair(const void *a, const void *b)
{
    const composition *x = a, *y = b;
    return (x->pair > y->pair) - (x->pair < y->pair);
}

static void find_compositions(tt_unicode *u)
{
    for (int64_t i = 0; i < u->n_decompositions; i++) {
        const decomposition *d = &u->decomposition[i];
        if (d->n != 2 || d->is_compatible || d->is_excluded)
            continue;
        const uint32_t a = u->to[d->first], b = u->to[d->first + 1];
        u->composition[u->n_compositions++] =
            (composition){(uint64_t)a << 32 | b, d->code};
        mark_busy(u, b); // so it begins nothing
    }
    qsort(u->composition, (size_t)u->n_compositions, sizeof(*u->composition),
          by_pair);
}

static int64_t read_ranges(const char *text, range *v)
{
    int64_t n = 0;
    uint32_t last = 0;
    for (const char *p = text; *p != '\0'; n++) {
        const uint32_t first = last + read_number(&p);
        last = first + read_number(&p);
        v[n] = (range){first, last, read_number(&p)};
    }
    return n;
}

static void read_lower(tt_unicode *u)
{
    uint32_t code = 0;
    for (const char *p = tt__unicode_lower; *p != '\0';) {
        code += read_number(&p);
        u->lower[u->n_lower++] = (range){code, code, code + read_signed(&p)};
    }
}

tt_status tt_unicode_open(tt_arena *arena, const tt_unicode **unicode_out)
{
    tt_unicode *u = tt_arena_alloc(arena, sizeof(*u));
    if (u == NULL)
        return TT_ERR_NOMEM;
    const char *pairs = tt__unicode_decompositions;
    u->decomposition = room(arena, pairs, 3, sizeof(*u->decomposition));
    u->composition = room(arena, pairs, 4, sizeof(*u->composition));
    u->to = room(arena, pairs, 1, sizeof(*u->to));
    u->class = room(arena, tt__unicode_classes, 3, sizeof(*u->class));
    u->mark = room(arena, tt__unicode_marks, 3, sizeof(*u->mark));
    u->lower = room(arena, tt__unicode_lower, 2, sizeof(*u->lower));
    if (u->decomposition == NULL || u->composition == NULL || u->to == NULL ||
        u->class == NULL || u->mark == NULL || u->lower == NULL)
        return TT_ERR_NOMEM;
    read_decompositions(u);
    find_compositions(u);
    u->n_classes = read_ranges(tt__unicode_classes, u->class);
    u->n_marks = read_ranges(tt__unicode_marks, u->mark);
    read_lower(u);
    for (int64_t i = 0; i < u->n_classes; i++)
        for (uint32_t c = u->class[i].first; c <= u->class[i].last; c++)
            mark_busy(u, c);
    mark_busy(u, JAMO_L);
    for (uint32_t c = HANGUL; c < HANGUL + HANGUL_N; c += 256)
        mark_busy(u, c);
    *unicode_out = u;
    return TT_OK;
}

// ---- characters ----------------------------------------------------------

static const range *find_range(const range *v, int64_t n, uint32_t code)
{
    int64_t first = 0, last = n - 1;
    while (first <= last) {
        const int64_t middle = first + (last - first) / 2;
        if (code < v[middle].first)
            last = middle - 1;
        else if (code > v[middle].last)
            first = middle + 1;
        else
            return &v[middle];
    }
    return NULL;
}

static uint8_t class_of(const tt_unicode *u, uint32_t code)
{
    if (code < PLAIN || !u->is_busy[code >> 8])
        return 0;
    const range *r = find_range(u->class, u->n_classes, code);
    return r != NULL ? (uint8_t)r->kind : 0;
}

bool tt_unicode_is_mark(const tt_unicode *u, uint32_t code)
{
    return find_range(u->mark, u->n_marks, code) != NULL;
}

bool tt_unicode_is_nonspacing(const tt_unicode *u, uint32_t code)
{
    const range *r = find_range(u->mark, u->n_marks, code);
    return r != NULL && r->kind == 1;
}

void tt_unicode_add_punctuation(tt_str *out)
{
    uint32_t last = 0;
    for (const char *p = tt__unicode_punctuation; *p != '\0';) {
        const uint32_t first = last + read_number(&p);
        last = first + read_number(&p);
        (void)read_number(&p); // there is one kind
        tt_str_addf(out, "\\x{%x}-\\x{%x}", first, last);
    }
}

bool tt_unicode_is_blank(uint32_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

void tt_unicode_add(tt_str *out, uint32_t code)
{
    char text[4];
    tt_str_add_bytes(out, text, tt_utf8_write(code, text));
}

void tt_unicode_add_lower(const tt_unicode *u, uint32_t code, tt_str *out)
{
    const range *r = find_range(u->lower, u->n_lower, code);
    if (code == 0x130) {
        tt_unicode_add(out, 'i');
        tt_unicode_add(out, 0x307);
    } else {
        tt_unicode_add(out, r != NULL ? r->kind : code);
    }
}

// ---- normal forms --------------------------------------------------------

typedef struct piece { // decomposed, up to where nothing joins
    uint32_t *v;       // class << 24 | code
    int64_t n, capacity;
    bool has_failed;
} piece;

static uint32_t code_of(uint32_t v)
{
    return v & 0xffffff;
}

static void push(const tt_unicode *u, piece *p, uint32_t code)
{
    if (p->n == p->capacity) {
        const int64_t more = p->capacity < 64 ? 64 : 2 * p->capacity;
        uint32_t *v = tt_realloc(p->v, p->capacity * (int64_t)sizeof(*v),
                                 more * (int64_t)sizeof(*v));
        if (v == NULL) {
            p->has_failed = true;
            return;
        }
        p->v = v;
        p->capacity = more;
    }
    p->v[p->n++] = (uint32_t)class_of(u, code) << 24 | code;
}

static const decomposition *find_decomposition(const tt_unicode *u,
                                               uint32_t code)
{
    int64_t first = 0, last = u->n_decompositions - 1;
    while (first <= last) {
        const int64_t middle = first + (last - first) / 2;
        const decomposition *d = &u->decomposition[middle];
        if (d->code == code)
            return d;
        if (d->code < code)
            first = middle + 1;
        else
            last = middle - 1;
    }
    return NULL;
}

// Decompositions are at most a few deep, by the tables.
static void decompose(const tt_unicode *u, bool compatible, uint32_t code,
                      piece *p) // NOLINT(misc-no-recursion)
{
    if (code >= HANGUL && code < HANGUL + HANGUL_N) {
        const uint32_t s = code - HANGUL;
        push(u, p, JAMO_L + s / (N_V * N_T));
        push(u, p, JAMO_V + s % (N_V * N_T) / N_T);
        if (s % N_T > 0)
            push(u, p, JAMO_T + s % N_T);
        return;
    }
    const decomposition *d =
        u->is_busy[code >> 8] ? find_decomposition(u, code) : NULL;
    if (d == NULL || (d->is_compatible && !compatible)) {
        push(u, p, code);
        return;
    }
    for (int i = 0; i < d->n; i++)
        decompose(u, compatible, u->to[d->first + i], p);
}

// Sorts codes whose class is not 0 by class; equal classes stay in order. A few by
// insertion; many, which only hostile text has, by counting, so that it is not
// quadratic.
static void order_run(uint32_t *v, int64_t n, uint32_t *room)
{
    int64_t start[257] = {0};
    if (n <= FEW) {
        for (int64_t i = 1; i < n; i++) {
            const uint32_t x = v[i];
            int64_t k = i;
            for (; k > 0 && v[k - 1] >> 24 > x >> 24; k--)
                v[k] = v[k - 1];
            v[k] = x;
        }
        return;
    }
    for (int64_t i = 0; i < n; i++)
        start[(v[i] >> 24) + 1]++;
    for (int i = 0; i < 256; i++)
        start[i + 1] += start[i];
    for (int64_t i = 0; i < n; i++)
        room[start[v[i] >> 24]++] = v[i];
    memcpy(v, room, (size_t)n * sizeof(*v));
}

static tt_status order(piece *p)
{
    uint32_t *room = NULL;
    tt_status status = TT_OK;
    for (int64_t i = 0; i < p->n && status == TT_OK;) {
        int64_t to = i;
        while (to < p->n && p->v[to] >> 24 != 0)
            to++;
        if (to - i > FEW && room == NULL)
            room = tt_alloc(p->n * (int64_t)sizeof(*room));
        if (to - i > FEW && room == NULL)
            status = TT_ERR_NOMEM;
        else
            order_run(p->v + i, to - i, room);
        i = to + 1;
    }
    tt_free(room);
    return status;
}

// What two codes join to, or 0.
static uint32_t join(const tt_unicode *u, uint32_t a, uint32_t b)
{
    if (a >= JAMO_L && a < JAMO_L + N_L && b >= JAMO_V && b < JAMO_V + N_V)
        return HANGUL + ((a - JAMO_L) * N_V + b - JAMO_V) * N_T;
    if (a >= HANGUL && a < HANGUL + HANGUL_N && (a - HANGUL) % N_T == 0 &&
        b > JAMO_T && b < JAMO_T + N_T)
        return a + b - JAMO_T;
    const composition key = {.pair = (uint64_t)a << 32 | b};
    const composition *c = bsearch(
        &key, u->composition, (size_t)u->n_compositions, sizeof(key), by_pair);
    return c != NULL ? c->code : 0;
}

static void compose(const tt_unicode *u, piece *p)
{
    int64_t starter = -1, n = 0;
    for (int64_t i = 0; i < p->n; i++) {
        const uint32_t class = p->v[i] >> 24;
        // Blocked by what stands between: of the same class or higher, or a starter.
        const bool is_next = starter >= 0 && n == starter + 1;
        const bool is_free = starter >= 0 && n > starter + 1 && class != 0 &&
                             p->v[n - 1] >> 24 < class;
        const uint32_t joined =
            is_next || is_free
                ? join(u, code_of(p->v[starter]), code_of(p->v[i]))
                : 0;
        if (joined != 0) {
            p->v[starter] = joined;
            continue;
        }
        if (class == 0)
            starter = n;
        p->v[n++] = p->v[i];
    }
    p->n = n;
}

static bool is_boundary(const tt_unicode *u, uint32_t code)
{
    return code < PLAIN || !u->is_busy[code >> 8];
}

// The character does not change and nothing that could join it follows.
static bool is_inert(const tt_unicode *u, tt_unicode_form form, uint32_t code)
{
    return code < 0x80 || !u->is_busy[code >> 8] ||
           (form == TT_UNICODE_NFC && code < PLAIN);
}

// Bytes from `text` on that stay as they are.
static int64_t count_inert(const tt_unicode *u, tt_unicode_form form,
                           const char *text, int64_t n)
{
    int64_t i = 0;
    while (i < n) {
        uint32_t code = (unsigned char)text[i], next = 0;
        const int k = code < 0x80 ? 1 : tt_utf8_read(text + i, n - i, &code);
        if (k == 0 || !is_inert(u, form, code))
            break;
        if (i + k < n && (unsigned char)text[i + k] >= 0x80 &&
            (tt_utf8_read(text + i + k, n - i - k, &next) == 0 ||
             !is_boundary(u, next)))
            break;
        i += k;
    }
    return i;
}

tt_status tt_unicode_normalize(const tt_unicode *u, tt_unicode_form form,
                               const char *text, int64_t n, tt_str *out)
{
    const bool compatible = form == TT_UNICODE_NFKC || form == TT_UNICODE_NFKD;
    const bool composes = form == TT_UNICODE_NFC || form == TT_UNICODE_NFKC;
    piece p = {0};
    tt_status status = TT_OK;
    int64_t i = 0;
    while (i < n && status == TT_OK) {
        const int64_t same = count_inert(u, form, text + i, n - i);
        tt_str_add_bytes(out, text + i, same);
        i += same;
        p.n = 0;
        while (i < n && !p.has_failed) {
            uint32_t code = 0;
            const int k = tt_utf8_read(text + i, n - i, &code);
            if (k == 0 || (p.n > 0 && is_boundary(u, code)))
                break;
            decompose(u, compatible, code, &p);
            i += k;
        }
        if (i < n && p.n == 0 && same == 0) {
            status =
                tt_fail(TT_ERR_ARG, "byte %lld is not UTF-8", (long long)i);
            break;
        }
        status = p.has_failed ? TT_ERR_NOMEM : order(&p);
        if (composes && status == TT_OK)
            compose(u, &p);
        for (int64_t k = 0; k < p.n && status == TT_OK; k++)
            tt_unicode_add(out, code_of(p.v[k]));
    }
    tt_free(p.v);
    if (status == TT_ERR_NOMEM || tt_str_status(out) != TT_OK)
        return tt_fail(TT_ERR_NOMEM, "out of memory to normalize a text");
    return status;
}
