// json_read - see json_read.h.
//
// One pass without recursion: open arrays and objects lie on a stack of fixed size, so
// a hostile file cannot overflow the C stack. Memory is limited too, by the size of
// the file and a constant. Values and text are taken from the arena in blocks, since
// files such as a tokenizer.json have a hundred thousand of them. Keys of small
// objects are compared one by one to find duplicates; larger objects get a hash table.

#include "base/json_read.h"

#include "base/alloc.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    VALUES = 64,      // taken from the arena at a time
    CHARS = 16 << 10, // the same for text
    SCAN_MAX = 8,     // keys compared one by one; more are hashed
    SLACK = 2 << 20,  // what the arena may hold beyond what it handed out
};

typedef struct frame { // an open array or object
    tt_json_value *value, *last;
    const tt_json_value **slot; // its members by key; NULL: few
    int64_t n_slots;            // a power of two
} frame;

typedef struct reader {
    const char *name, *text, *p, *end;
    tt_arena *arena;
    int64_t limit, before, scratch; // bytes
    tt_json_value *values;
    int64_t n_values;
    char *chars;
    int64_t n_chars;
    frame open[TT_JSON_DEPTH_MAX];
    int depth;
} reader;

__attribute__((format(printf, 3, 4))) static tt_status
fail_at(const reader *r, const char *at, const char *fmt, ...)
{
    char what[200];
    long long line = 1, column = 1;
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    for (const char *p = r->text; p < at; p++) {
        if (*p == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)*p & 0xc0) != 0x80) {
            column++;
        }
    }
    return tt_fail(TT_ERR_ARG, "%s:%lld:%lld: %s", r->name, line, column, what);
}

static tt_status fail_expected(const reader *r, const char *what)
{
    if (r->p == r->end)
        return fail_at(r, r->p, "the text ends where %s should be", what);
    const unsigned char c = (unsigned char)*r->p;
    if (c > 0x20 && c < 0x7f)
        return fail_at(r, r->p, "'%c' where %s should be", c, what);
    return fail_at(r, r->p, "byte 0x%02x where %s should be", c, what);
}

static tt_status check_memory(const reader *r, int64_t more)
{
    const int64_t held = tt_arena_bytes(r->arena) - r->before + r->scratch;
    if (held + more > r->limit)
        return tt_fail(TT_ERR_ARG,
                       "%s: would need more memory than its own size and %d "
                       "MiB",
                       r->name, TT_JSON_EXTRA >> 20);
    return TT_OK;
}

static tt_status take(reader *r, int64_t bytes, void **block_out)
{
    TT_TRY(check_memory(r, bytes));
    *block_out = tt_arena_alloc(r->arena, bytes);
    return *block_out != NULL ? TT_OK : TT_ERR_NOMEM;
}

static tt_status take_value(reader *r, tt_json_value **value_out)
{
    if (r->n_values == 0) {
        void *block = NULL;
        const int64_t most = (r->end - r->p) / 2 + 1;
        const int64_t n = most < VALUES ? most : VALUES;
        TT_TRY(take(r, n * (int64_t)sizeof(tt_json_value), &block));
        r->values = block;
        r->n_values = n;
    }
    *value_out = r->values++;
    r->n_values--;
    return TT_OK;
}

static tt_status take_chars(reader *r, int64_t bytes, char **chars_out)
{
    if (r->chars == NULL || bytes > r->n_chars) {
        void *block = NULL;
        const int64_t most = bytes + (r->end - r->p);
        const int64_t n = bytes > CHARS / 4 ? bytes
                          : most < CHARS    ? most
                                            : CHARS;
        TT_TRY(take(r, n, &block));
        if (bytes > CHARS / 4) {
            *chars_out = block;
            return TT_OK;
        }
        r->chars = block;
        r->n_chars = n;
    }
    *chars_out = r->chars;
    r->chars += bytes;
    r->n_chars -= bytes;
    return TT_OK;
}

static void skip_blanks(reader *r)
{
    while (r->p < r->end &&
           (*r->p == ' ' || *r->p == '\n' || *r->p == '\t' || *r->p == '\r'))
        r->p++;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

// The four digits after \u at `p`.
static bool read_hex(const char *p, const char *end, uint32_t *code_out)
{
    uint32_t code = 0;
    if (end - p < 6 || p[0] != '\\' || p[1] != 'u')
        return false;
    for (int i = 2; i < 6; i++) {
        const int digit = hex_digit(p[i]);
        if (digit < 0)
            return false;
        code = code << 4 | (uint32_t)digit;
    }
    *code_out = code;
    return true;
}

static tt_status read_unicode(reader *r, char **to)
{
    uint32_t code = 0, low = 0;
    if (!read_hex(r->p, r->end, &code))
        return fail_at(r, r->p, "\\u needs four hexadecimal digits");
    const char *at = r->p;
    r->p += 6;
    if (code >= 0xd800 && code < 0xe000) {
        if (code >= 0xdc00 || !read_hex(r->p, r->end, &low) || low < 0xdc00 ||
            low >= 0xe000)
            return fail_at(r, at, "half of a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        r->p += 6;
    }
    *to += tt_utf8_write(code, *to);
    return TT_OK;
}

static tt_status read_escape(reader *r, char **to)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    const char c = r->p + 1 < r->end ? r->p[1] : '\0';
    if (c == 'u')
        return read_unicode(r, to);
    const char *found = c != '\0' ? strchr(from, c) : NULL;
    if (found == NULL)
        return fail_at(r, r->p, "unknown escape in a string");
    *(*to)++ = into[found - from];
    r->p += 2;
    return TT_OK;
}

// The quote that ends the string at r->p, or NULL.
static const char *closing_quote(const reader *r)
{
    const char *p = r->p;
    while (p < r->end && *p != '"')
        p += *p == '\\' && p + 1 < r->end ? 2 : 1;
    return p < r->end ? p : NULL;
}

// r->p is after the opening quote.
static tt_status read_string(reader *r, const char **text_out, int64_t *n_out)
{
    char *text = NULL;
    const char *end = closing_quote(r);
    if (end == NULL)
        return fail_at(r, r->p - 1, "this string does not end");
    TT_TRY(take_chars(r, end - r->p + 1, &text));
    char *to = text;
    while (r->p < end) {
        const unsigned char c = (unsigned char)*r->p;
        if (c == '\\') {
            TT_TRY(read_escape(r, &to));
            continue;
        }
        if (c < 0x20)
            return fail_at(r, r->p, "control character 0x%02x in a string", c);
        const int k = tt_utf8_read(r->p, end - r->p, NULL);
        if (k == 0)
            return fail_at(r, r->p, "byte 0x%02x is not UTF-8", c);
        for (int i = 0; i < k; i++)
            *to++ = *r->p++;
    }
    r->p++;
    *text_out = text;
    *n_out = to - text;
    return TT_OK;
}

static bool skip_digits(reader *r)
{
    const char *from = r->p;
    while (r->p < r->end && *r->p >= '0' && *r->p <= '9')
        r->p++;
    return r->p > from;
}

static bool skip_char(reader *r, char c)
{
    if (r->p == r->end || *r->p != c)
        return false;
    r->p++;
    return true;
}

static tt_status read_number(reader *r, tt_json_value *v)
{
    const char *from = r->p;
    char *text = NULL;
    (void)skip_char(r, '-');
    if (!skip_char(r, '0') && !skip_digits(r))
        return fail_expected(r, "a digit");
    if (skip_char(r, '.') && !skip_digits(r))
        return fail_expected(r, "a digit");
    if (skip_char(r, 'e') || skip_char(r, 'E')) {
        if (!skip_char(r, '+'))
            (void)skip_char(r, '-');
        if (!skip_digits(r))
            return fail_expected(r, "a digit");
    }
    TT_TRY(take_chars(r, r->p - from + 1, &text));
    memcpy(text, from, (size_t)(r->p - from));
    v->type = TT_JSON_NUMBER;
    v->text = text;
    v->n = r->p - from;
    return TT_OK;
}

static tt_status read_word(reader *r, tt_json_value *v)
{
    static const struct {
        const char *word;
        tt_json_type type;
    } words[] = {{"true", TT_JSON_BOOL},
                 {"false", TT_JSON_BOOL},
                 {"null", TT_JSON_NULL}};
    for (int i = 0; i < 3; i++) {
        const size_t n = strlen(words[i].word);
        if ((size_t)(r->end - r->p) >= n &&
            memcmp(r->p, words[i].word, n) == 0) {
            v->type = words[i].type;
            v->is_true = i == 0;
            r->p += n;
            return TT_OK;
        }
    }
    return fail_expected(r, "a value");
}

static uint64_t hash(const frame *f, const char *key, int64_t n)
{
    // The address differs from run to run, so nobody can write a file whose keys
    // all meet in one place.
    uint64_t h = (uint64_t)(uintptr_t)f->value ^ (uint64_t)n;
    while (n > 0) {
        uint64_t part = 0;
        const int64_t k = n < 8 ? n : 8;
        memcpy(&part, key, (size_t)k);
        h = (h ^ part) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
        key += k;
        n -= k;
    }
    return h ^ h >> 32;
}

static bool has_key(const tt_json_value *v, const char *key, int64_t n)
{
    return v->key_n == n && memcmp(v->key, key, (size_t)n) == 0;
}

// Where this key is or belongs.
static const tt_json_value **slot_of(const frame *f, const char *key, int64_t n)
{
    const uint64_t mask = (uint64_t)f->n_slots - 1;
    uint64_t i = hash(f, key, n) & mask;
    while (f->slot[i] != NULL && !has_key(f->slot[i], key, n))
        i = (i + 1) & mask;
    return &f->slot[i];
}

static void free_slots(reader *r, frame *f)
{
    tt_free(f->slot);
    r->scratch -= f->n_slots * (int64_t)sizeof(*f->slot);
    f->slot = NULL;
    f->n_slots = 0;
}

static tt_status grow_slots(reader *r, frame *f)
{
    frame grown = *f;
    grown.n_slots = f->n_slots == 0 ? (int64_t)4 * SCAN_MAX : f->n_slots * 2;
    const int64_t bytes = grown.n_slots * (int64_t)sizeof(*f->slot);
    TT_TRY(check_memory(r, bytes));
    grown.slot = tt_alloc(bytes);
    if (grown.slot == NULL)
        return tt_fail(TT_ERR_NOMEM, "%s: out of memory", r->name);
    for (const tt_json_value *v = f->value->first; v != NULL; v = v->next)
        *slot_of(&grown, v->key, v->key_n) = v;
    free_slots(r, f);
    r->scratch += bytes;
    *f = grown;
    return TT_OK;
}

// Refuses a key that the object has already, and remembers it.
static tt_status check_key(reader *r, const char *at, tt_json_value *member)
{
    frame *f = &r->open[r->depth - 1];
    const tt_json_value *same = NULL;
    if (f->value->n >= SCAN_MAX) {
        if (f->slot == NULL || f->value->n * 2 >= f->n_slots)
            TT_TRY(grow_slots(r, f));
        const tt_json_value **slot = slot_of(f, member->key, member->key_n);
        same = *slot;
        *slot = member;
    } else {
        same = f->value->first;
        while (same != NULL && !has_key(same, member->key, member->key_n))
            same = same->next;
    }
    if (same != NULL)
        return fail_at(r, at, "duplicate key \"%.100s\"", member->key);
    return TT_OK;
}

static tt_status read_key(reader *r, tt_json_value *member)
{
    const char *at = r->p;
    if (!skip_char(r, '"'))
        return fail_expected(r, "a key in quotes");
    int64_t n = 0;
    TT_TRY(read_string(r, &member->key, &n));
    if (n > INT32_MAX)
        return fail_at(r, at, "a key of more than 2 GiB");
    member->key_n = (int32_t)n;
    TT_TRY(check_key(r, at, member));
    skip_blanks(r);
    if (!skip_char(r, ':'))
        return fail_expected(r, "':'");
    skip_blanks(r);
    return TT_OK;
}

// `is_open` says that a child of `v` comes next.
static tt_status read_container(reader *r, tt_json_value *v, bool *is_open)
{
    const bool is_object = *r->p == '{';
    const char *at = r->p++;
    v->type = is_object ? TT_JSON_OBJECT : TT_JSON_ARRAY;
    skip_blanks(r);
    if (skip_char(r, is_object ? '}' : ']'))
        return TT_OK;
    if (r->depth == TT_JSON_DEPTH_MAX)
        return fail_at(r, at, "nested deeper than %d", TT_JSON_DEPTH_MAX);
    r->open[r->depth++] = (frame){.value = v};
    *is_open = true;
    return TT_OK;
}

static tt_status read_value(reader *r, tt_json_value *v, bool *is_open)
{
    const char c = r->p < r->end ? *r->p : '\0';
    if (c == '{' || c == '[')
        return read_container(r, v, is_open);
    if (c == '-' || (c >= '0' && c <= '9'))
        return read_number(r, v);
    if (c != '"')
        return read_word(r, v);
    r->p++;
    v->type = TT_JSON_STRING;
    return read_string(r, &v->text, &v->n);
}

static void attach(frame *parent, tt_json_value *v)
{
    if (parent->last == NULL)
        parent->value->first = v;
    else
        parent->last->next = v;
    parent->last = v;
    parent->value->n++;
}

// Behind a value: closes what ends here, up to the next child.
static tt_status close_ended(reader *r)
{
    while (r->depth > 0) {
        frame *f = &r->open[r->depth - 1];
        const bool is_object = f->value->type == TT_JSON_OBJECT;
        skip_blanks(r);
        if (skip_char(r, ',')) {
            skip_blanks(r);
            return TT_OK;
        }
        if (!skip_char(r, is_object ? '}' : ']'))
            return fail_expected(r, is_object ? "',' or '}'" : "',' or ']'");
        free_slots(r, f);
        r->depth--;
    }
    return TT_OK;
}

static tt_status read_all(reader *r, const tt_json_value **root_out)
{
    const tt_json_value *root = NULL;
    skip_blanks(r);
    do {
        tt_json_value *v = NULL;
        frame *parent = r->depth > 0 ? &r->open[r->depth - 1] : NULL;
        bool is_open = false;
        TT_TRY(take_value(r, &v));
        if (parent != NULL && parent->value->type == TT_JSON_OBJECT)
            TT_TRY(read_key(r, v));
        TT_TRY(read_value(r, v, &is_open));
        if (parent != NULL)
            attach(parent, v);
        else
            root = v;
        if (!is_open)
            TT_TRY(close_ended(r));
    } while (r->depth > 0);
    skip_blanks(r);
    if (r->p < r->end)
        return fail_expected(r, "the end");
    *root_out = root;
    return TT_OK;
}

tt_status tt_json_read(const char *text, int64_t n, const char *name,
                       tt_arena *arena, const tt_json_value **root_out)
{
    reader r = {
        .name = name,
        .text = text,
        .p = text,
        .end = text + n,
        .arena = arena,
        .limit = n + TT_JSON_EXTRA - SLACK,
        .before = tt_arena_bytes(arena),
    };
    const tt_status status = read_all(&r, root_out);
    while (r.depth > 0)
        free_slots(&r, &r.open[--r.depth]);
    return status;
}
