// split - regular expressions through PCRE2. See split.h.
//
// Patterns in a tokenizer.json were written for Oniguruma or for Rust, and PCRE2
// differs in details: which characters \s and \w mean, what \b is a border of, what
// (?m) switches. Each difference changes the ids of some text. So a pattern is
// rewritten first, with the classes written out, and then compiled to machine code.
// The compiled pattern is shared by threads; what a match needs (`tt_split_scan`)
// belongs to one.

#define PCRE2_CODE_UNIT_WIDTH 8

#include "data/tokenizer/split.h"

#include "base/alloc.h"
#include "base/utf8.h"

#include <pcre2.h>
#include <string.h>

enum { STACK_FIRST = 32 << 10, STACK_LAST = 8 << 20 };

struct tt_splitter {
    char *pattern;
    pcre2_general_context *memory;
    pcre2_code *code;
    bool has_jit;
};

struct tt_split_scan {
    const tt_splitter *splitter;
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

static void *take(size_t bytes, void *unused)
{
    (void)unused;
    return tt_alloc((int64_t)bytes);
}

static void give(void *block, void *unused)
{
    (void)unused;
    tt_free(block);
}

static tt_status no_memory(void)
{
    return tt_fail(TT_ERR_NOMEM, "out of memory for a split pattern");
}

// What classes mean elsewhere (Oniguruma, Rust). PCRE2 counts U+180E as a blank,
// as Unicode once did, and has fewer characters in words.
static const char *class_of(char c)
{
    switch (c) {
    case 's':
    case 'S':
        return "\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}"
               "\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
    case 'w':
    case 'W':
        return "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
    default:
        return NULL;
    }
}

// Oniguruma has these in words, but not in \w inside of a class.
static const char more_words[] = "\\xb2\\xb3\\xb9\\xbc-\\xbe";

// \b and \B: between a character of a word and another.
static void add_border(bool is_border, tt_str *out)
{
    tt_str word = {0};
    tt_str_addf(&word, "[%s%s]", class_of('w'), more_words);
    const char *w = tt_str_text(&word);
    if (is_border)
        tt_str_addf(out, "(?:(?<=%s)(?!%s)|(?<!%s)(?=%s))", w, w, w, w);
    else
        tt_str_addf(out, "(?:(?<=%s)(?=%s)|(?<!%s)(?!%s))", w, w, w, w);
    tt_str_inherit(out, &word);
    tt_str_fini(&word);
}

// Appends the escape at `p`, two bytes, written out where it is a class. Inside of
// a class the ones that mean "all others" cannot be.
static void add_escape(const char *p, bool in_class, tt_str *out)
{
    const char *class = class_of(p[1]);
    const bool is_others = p[1] == 'S' || p[1] == 'W';
    const bool is_word = p[1] == 'w' || p[1] == 'W';
    const char *more = is_word && !in_class ? more_words : "";
    if (!in_class && (p[1] == 'b' || p[1] == 'B'))
        add_border(p[1] == 'b', out);
    else if (class == NULL || (in_class && is_others))
        tt_str_add_bytes(out, p, 2);
    else
        tt_str_addf(out,
                    in_class    ? "%s%s"
                    : is_others ? "[^%s%s]"
                                : "[%s%s]",
                    class, more);
}

// Ruby's (?m) is (?s) here; its ^ and $ are at every line anyway.
static int64_t add_flags(const char *p, tt_str *out)
{
    int64_t n = 2;
    tt_str_add(out, "(?");
    while (p[n] == 'i' || p[n] == 'm' || p[n] == 'x' || p[n] == '-') {
        tt_str_add_bytes(out, p[n] == 'm' ? "s" : p + n, 1);
        n++;
    }
    return n;
}

static void add_modern(const char *pattern, tt_str *out)
{
    bool in_class = false;
    for (const char *p = pattern; *p != '\0'; p++) {
        const bool is_escape = *p == '\\' && p[1] != '\0';
        if (is_escape) {
            add_escape(p++, in_class, out);
            continue;
        }
        if (!in_class && p[0] == '(' && p[1] == '?') {
            p += add_flags(p, out) - 1;
            continue;
        }
        const char *named =
            in_class && p[0] == '[' && p[1] == ':' ? strstr(p, ":]") : NULL;
        if (named != NULL) { // the others mean the same
            const bool is_punct = strncmp(p, "[:punct:]", 9) == 0;
            if (is_punct)
                tt_str_add(out, "\\p{P}\\p{S}");
            else
                tt_str_add_bytes(out, p, named + 2 - p);
            p = named + 1;
            continue;
        }
        tt_str_add_bytes(out, p, 1);
        if (*p == '[' && !in_class) {
            in_class = true;
            if (p[1] == '^') // a bracket that comes first is a member
                tt_str_add_bytes(out, ++p, 1);
            if (p[1] == ']')
                tt_str_add_bytes(out, ++p, 1);
        } else if (*p == ']') {
            in_class = false;
        }
    }
}

static tt_status compile(tt_splitter *s)
{
    int error = 0;
    PCRE2_SIZE where = 0;
    PCRE2_UCHAR what[128];
    tt_str modern = {0};
    tt_status status = TT_OK;
    pcre2_compile_context *context = pcre2_compile_context_create(s->memory);
    add_modern(s->pattern, &modern);
    if (context == NULL || tt_str_status(&modern) != TT_OK) {
        status = no_memory();
        goto out;
    }
    s->code = pcre2_compile(
        (PCRE2_SPTR)tt_str_text(&modern), (PCRE2_SIZE)modern.n,
        PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
        &error, &where, context);
    if (s->code == NULL && error == PCRE2_ERROR_HEAP_FAILED) {
        status = no_memory();
    } else if (s->code == NULL) {
        pcre2_get_error_message(error, what, sizeof what);
        status = tt_fail(TT_ERR_ARG, "the split pattern \"%.200s\": %s",
                         s->pattern, (const char *)what);
    } else {
        s->has_jit = pcre2_jit_compile(s->code, PCRE2_JIT_COMPLETE) == 0;
    }
out:
    pcre2_compile_context_free(context);
    tt_str_fini(&modern);
    return status;
}

tt_status tt_splitter_open(const char *pattern, tt_splitter **splitter_out)
{
    tt_splitter *s = tt_alloc(sizeof(*s));
    if (s == NULL)
        return no_memory();
    tt_status status = TT_OK;
    const int64_t n = (int64_t)strlen(pattern);
    s->pattern = tt_alloc(n + 1);
    s->memory = pcre2_general_context_create(take, give, NULL);
    if (s->pattern == NULL || s->memory == NULL) {
        status = no_memory();
    } else {
        memcpy(s->pattern, pattern, (size_t)n);
        status = compile(s);
    }
    if (status != TT_OK) {
        tt_splitter_close(s);
        return status;
    }
    *splitter_out = s;
    return TT_OK;
}

void tt_splitter_close(tt_splitter *s)
{
    if (s == NULL)
        return;
    pcre2_code_free(s->code);
    pcre2_general_context_free(s->memory);
    tt_free(s->pattern);
    tt_free(s);
}

const char *tt_splitter_pattern(const tt_splitter *s)
{
    return s->pattern;
}

tt_status tt_split_scan_open(const tt_splitter *splitter,
                             tt_split_scan **scan_out)
{
    tt_split_scan *scan = tt_alloc(sizeof(*scan));
    if (scan == NULL)
        return no_memory();
    scan->splitter = splitter;
    scan->match = pcre2_match_data_create(1, splitter->memory);
    scan->context = pcre2_match_context_create(splitter->memory);
    scan->stack =
        pcre2_jit_stack_create(STACK_FIRST, STACK_LAST, splitter->memory);
    if (scan->match == NULL || scan->context == NULL || scan->stack == NULL) {
        tt_split_scan_close(scan);
        return no_memory();
    }
    pcre2_jit_stack_assign(scan->context, NULL, scan->stack);
    *scan_out = scan;
    return TT_OK;
}

void tt_split_scan_close(tt_split_scan *scan)
{
    if (scan == NULL)
        return;
    pcre2_match_data_free(scan->match);
    pcre2_match_context_free(scan->context);
    pcre2_jit_stack_free(scan->stack);
    tt_free(scan);
}

tt_status tt_split_find(tt_split_scan *scan, const char *text, int64_t n,
                        int64_t at, tt_piece *piece_out)
{
    const tt_splitter *s = scan->splitter;
    const PCRE2_SPTR subject = (PCRE2_SPTR)text;
    const int rc =
        s->has_jit
            ? pcre2_jit_match(s->code, subject, (PCRE2_SIZE)n, (PCRE2_SIZE)at,
                              0, scan->match, scan->context)
            : pcre2_match(s->code, subject, (PCRE2_SIZE)n, (PCRE2_SIZE)at,
                          PCRE2_NO_UTF_CHECK, scan->match, scan->context);
    if (rc == PCRE2_ERROR_NOMATCH) {
        *piece_out = (tt_piece){-1, -1};
        return TT_OK;
    }
    if (rc < 0) {
        PCRE2_UCHAR what[128];
        pcre2_get_error_message(rc, what, sizeof what);
        return tt_fail(TT_ERR_ARG,
                       "the split pattern \"%.200s\" costs too much here: %s",
                       s->pattern, (const char *)what);
    }
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(scan->match);
    // \K may put the start after the end.
    const int64_t from = (int64_t)range[0], to = (int64_t)range[1];
    if (from < at || to < from)
        return tt_fail(TT_ERR_ARG,
                       "the split pattern \"%.200s\" matches backwards; \\K "
                       "has no place in it",
                       s->pattern);
    *piece_out = (tt_piece){from, to};
    return TT_OK;
}

// Where to look after an empty match at `at`: Oniguruma goes on after the next
// character.
static int64_t after(const char *text, int64_t n, int64_t at)
{
    const int k = at < n ? tt_utf8_read(text + at, n - at, NULL) : 0;
    return at + (k > 0 ? k : 1);
}

tt_status tt_split_next(tt_split_scan *scan, const char *text, int64_t n,
                        int64_t at, tt_piece *piece_out)
{
    tt_piece found = {at, at};
    for (int64_t i = at; i < n && found.from == at && found.to == at;
         i = after(text, n, i))
        TT_TRY(tt_split_find(scan, text, n, i, &found));
    const bool is_cut = found.from >= 0 && found.to > at && found.from < n;
    *piece_out = is_cut ? found : (tt_piece){n, n};
    return TT_OK;
}

tt_status tt_split_replace(tt_split_scan *scan, tt_bytes text, tt_bytes by,
                           tt_str *out, bool *lost_front)
{
    int64_t copied = 0, last = -1;
    for (int64_t i = 0; i <= text.n;) {
        tt_piece found = {-1, -1};
        TT_TRY(tt_split_find(scan, text.p, text.n, i, &found));
        if (found.from < 0)
            break;
        const bool is_empty = found.to == found.from;
        i = is_empty ? after(text.p, text.n, found.to) : found.to;
        if (is_empty && found.to == last)
            continue; // it belongs to the match before it
        tt_str_add_bytes(out, text.p + copied, found.from - copied);
        tt_str_add_bytes(out, by.p, by.n);
        if (lost_front != NULL)
            *lost_front |= by.n == 0 && found.from == 0 && !is_empty;
        copied = last = found.to;
    }
    tt_str_add_bytes(out, text.p + copied, text.n - copied);
    return TT_OK;
}
