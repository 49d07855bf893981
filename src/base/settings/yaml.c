// yaml - libyaml's events, flattened. See yaml.h.
//
// A file of settings becomes a flat list: "model:" with "layers: 6" below it is the key
// "model.layers" with the text "6". Types come later, from the option tables. What no
// configuration needs (anchors, aliases, tags) is refused. Each value keeps its line
// and column for messages, and the parser's own messages are translated into what
// people did: a tab, a wrong indentation, a quote that is not closed.

#include "base/settings/yaml.h"

#include "base/file.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

enum { KEY_MAX = 250 };

typedef struct reader {
    yaml_parser_t parser;
    yaml_event_t event; // the current one
    const char *name;
    tt_arena *arena;
    tt_settings settings;
} reader;

static tt_status fail_at_mark(const reader *r, yaml_mark_t mark,
                              const char *what)
{
    return tt_fail(TT_ERR_ARG, "%s:%zu:%zu: %s", r->name, mark.line + 1,
                   mark.column + 1, what);
}

static tt_status fail_here(const reader *r, const char *what)
{
    return fail_at_mark(r, r->event.start_mark, what);
}

// The parser's words for what people do, in those of people.
static const char *explain(const char *problem)
{
    static const char *const said[][2] = {
        {"cannot start any token",
         "a tab, or a character that begins no value (% @ `); indent with "
         "blanks, and put such values in quotes"},
        {"tab character", "a tab; indent with blanks"},
        {"expected key",
         "indented unlike the lines before it; give all settings of a section "
         "the same number of blanks"},
        {"block end",
         "indented unlike the lines before it; give all settings of a section "
         "the same number of blanks"},
        {"mapping values are not allowed",
         "a second colon, or more blanks in front than the line above has; "
         "write one \"key: value\" a line, and values with a colon in quotes"},
        {"expected ',' or", "a bracket that is not closed; close it"},
        {"could not find expected ':'",
         "expected settings of the form \"key: value\", one a line"},
    };
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++)
        if (strstr(problem, said[i][0]) != NULL)
            return said[i][1];
    return problem;
}

static tt_status fail_parser(const reader *r)
{
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR)
        return tt_fail(TT_ERR_NOMEM, "%s: out of memory", r->name);
    if (p->error == YAML_READER_ERROR)
        return tt_fail(TT_ERR_ARG, "%s: not a text file: %s at byte %zu",
                       r->name, p->problem, p->problem_offset);
    if (p->context != NULL && strstr(p->context, "quoted") != NULL)
        return tt_fail(TT_ERR_ARG,
                       "%s:%zu:%zu: a quotation mark begins here and none ends "
                       "it; close it, or leave it out",
                       r->name, p->context_mark.line + 1,
                       p->context_mark.column + 1);
    return fail_at_mark(r, p->problem_mark, explain(p->problem));
}

// Refuses what no configuration needs, whatever event carries it.
static tt_status check_event(const reader *r)
{
    const yaml_event_t *e = &r->event;
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (e->type == YAML_ALIAS_EVENT)
        return fail_here(r, "aliases (*name) are not supported; write it out");
    if (e->type == YAML_SCALAR_EVENT) {
        anchor = e->data.scalar.anchor;
        tag = e->data.scalar.tag;
    } else if (e->type == YAML_SEQUENCE_START_EVENT) {
        anchor = e->data.sequence_start.anchor;
        tag = e->data.sequence_start.tag;
    } else if (e->type == YAML_MAPPING_START_EVENT) {
        anchor = e->data.mapping_start.anchor;
        tag = e->data.mapping_start.tag;
    }
    if (anchor != NULL)
        return fail_here(r, "anchors (&name) are not supported; leave it out");
    if (tag != NULL)
        return fail_here(r, "tags (!type) are not supported; leave it out");
    return TT_OK;
}

static tt_status advance(reader *r)
{
    yaml_event_delete(&r->event);
    if (!yaml_parser_parse(&r->parser, &r->event))
        return fail_parser(r);
    return check_event(r);
}

static tt_status check_scalar(const reader *r, const char *what)
{
    const size_t n = r->event.data.scalar.length;
    if (memchr(r->event.data.scalar.value, '\0', n) != NULL)
        return tt_fail(TT_ERR_ARG, "%s:%zu:%zu: %s contains a zero byte",
                       r->name, r->event.start_mark.line + 1,
                       r->event.start_mark.column + 1, what);
    return TT_OK;
}

static bool is_null(const reader *r)
{
    const char *text = (const char *)r->event.data.scalar.value;
    return r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (text[0] == '\0' || strcmp(text, "~") == 0 ||
            strcmp(text, "null") == 0);
}

static bool is_key(const char *text)
{
    static const char *const allowed =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
        "*?[]!"; // patterns
    const size_t n = strlen(text);
    return n > 0 && strspn(text, allowed) == n && text[0] != '.' &&
           text[n - 1] != '.' && strstr(text, "..") == NULL;
}

// The event is a key: `*key` becomes "prefix.key" and `*origin` its place.
static tt_status read_key(reader *r, const char *prefix, const char **key,
                          const char **origin)
{
    if (r->event.type != YAML_SCALAR_EVENT)
        return fail_here(r, "a key must be a plain name");
    TT_TRY(check_scalar(r, "the key"));
    const char *text = (const char *)r->event.data.scalar.value;
    if (strcmp(text, "<<") == 0)
        return fail_here(r, "merges (<<) are not supported; write it out");
    if (!is_key(text))
        return fail_here(
            r, "a key consists of letters, digits, _, -, *, ? and dots "
               "between them");
    if (strlen(prefix) + strlen(text) > KEY_MAX)
        return fail_here(r, "the key is too long");
    *key = tt_arena_printf(r->arena, "%s%s%s", prefix,
                           prefix[0] != '\0' ? "." : "", text);
    *origin = tt_arena_printf(r->arena, "%s:%zu:%zu", r->name,
                              r->event.start_mark.line + 1,
                              r->event.start_mark.column + 1);
    return *key != NULL && *origin != NULL ? TT_OK : TT_ERR_NOMEM;
}

static tt_status add(reader *r, const char *key, const char *value,
                     const char *origin)
{
    const tt_setting *old = tt_settings_find(&r->settings, key);
    if (old != NULL)
        return tt_fail(TT_ERR_ARG, "%s: %s is given twice; the first is at %s",
                       origin, key, old->origin);
    return tt_settings_set(&r->settings, key, value, origin, r->arena);
}

// The event begins a list; its text is "[a, b]".
static tt_status read_list(reader *r, tt_str *text)
{
    tt_str_add(text, "[");
    for (int64_t i = 0;; i++) {
        TT_TRY(advance(r));
        if (r->event.type == YAML_SEQUENCE_END_EVENT)
            break;
        if (r->event.type != YAML_SCALAR_EVENT)
            return fail_here(r, "a list may only hold plain values");
        TT_TRY(check_scalar(r, "the value"));
        const char *item = (const char *)r->event.data.scalar.value;
        if (is_null(r) || strpbrk(item, ",[]") != NULL)
            return fail_here(r, "a list item must not be empty or contain a "
                                "comma or bracket");
        tt_str_addf(text, "%s%s", i > 0 ? ", " : "", item);
    }
    tt_str_add(text, "]");
    return tt_str_status(text);
}

static tt_status add_list(reader *r, const char *key, const char *origin)
{
    tt_str text = {0};
    tt_status status = read_list(r, &text);
    if (status == TT_OK)
        status = add(r, key, tt_str_text(&text), origin);
    tt_str_fini(&text);
    return status;
}

static tt_status add_scalar(reader *r, const char *key, const char *origin)
{
    TT_TRY(check_scalar(r, key));
    if (is_null(r))
        return tt_fail(TT_ERR_ARG, "%s: %s has no value", origin, key);
    return add(r, key, (const char *)r->event.data.scalar.value, origin);
}

// The event begins a mapping; everything in it goes below `prefix`.
static tt_status read_mapping(reader *r, const char *prefix, int depth)
{
    if (depth > TT_YAML_DEPTH_MAX)
        return tt_fail(TT_ERR_ARG, "%s:%zu:%zu: nested deeper than %d levels",
                       r->name, r->event.start_mark.line + 1,
                       r->event.start_mark.column + 1, TT_YAML_DEPTH_MAX);
    for (;;) {
        const char *key = NULL, *origin = NULL;
        TT_TRY(advance(r));
        if (r->event.type == YAML_MAPPING_END_EVENT)
            return TT_OK;
        TT_TRY(read_key(r, prefix, &key, &origin));
        TT_TRY(advance(r));
        if (r->event.type == YAML_MAPPING_START_EVENT)
            TT_TRY(read_mapping(r, key, depth + 1));
        else if (r->event.type == YAML_SEQUENCE_START_EVENT)
            TT_TRY(add_list(r, key, origin));
        else
            TT_TRY(add_scalar(r, key, origin));
    }
}

static tt_status read_stream(reader *r)
{
    TT_TRY(advance(r)); // stream start
    TT_TRY(advance(r));
    if (r->event.type == YAML_STREAM_END_EVENT)
        return tt_fail(TT_ERR_ARG,
                       "%s: has no settings; they are written as \"model: "
                       "gpt\", one a line",
                       r->name);
    TT_TRY(advance(r));
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return fail_here(r,
                         "expected settings of the form \"key: value\", with a "
                         "blank after the colon, one a line");
    TT_TRY(read_mapping(r, "", 1));
    TT_TRY(advance(r)); // document end
    TT_TRY(advance(r));
    if (r->event.type != YAML_STREAM_END_EVENT)
        return fail_here(r, "a second document begins; there may be only one");
    return TT_OK;
}

tt_status tt_yaml_parse(const char *text, int64_t n, const char *name,
                        tt_arena *arena, tt_settings *out)
{
    if (n == 0)
        return tt_fail(TT_ERR_ARG,
                       "%s: the file is empty; settings are written as "
                       "\"model: gpt\", one a line",
                       name);
    if (n > TT_YAML_BYTES_MAX)
        return tt_fail(TT_ERR_ARG,
                       "%s: larger than %d MiB, so not a "
                       "configuration",
                       name, TT_YAML_BYTES_MAX >> 20);
    if (memchr(text, '\0', (size_t)n) != NULL)
        return tt_fail(TT_ERR_ARG,
                       "%s: not a text file: it contains zero "
                       "bytes",
                       name);
    reader r = {.name = name, .arena = arena};
    if (!yaml_parser_initialize(&r.parser))
        return tt_fail(TT_ERR_NOMEM, "%s: out of memory", name);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text,
                                 (size_t)n);
    const tt_status status = read_stream(&r);
    yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    if (status == TT_OK)
        *out = r.settings;
    return status;
}

// Reads to the end, or until it is clear that the file is too large.
static tt_status read_all(int fd, const char *path, tt_str *text)
{
    char buffer[16 << 10];
    while (text->n <= TT_YAML_BYTES_MAX) {
        const ssize_t n = read(fd, buffer, sizeof(buffer));
        if (n == 0)
            break;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tt_fail(TT_ERR_IO, "%s: cannot be read: %s", path,
                           tt_file_reason(errno));
        tt_str_add_bytes(text, buffer, n);
        TT_TRY(tt_str_status(text));
    }
    return TT_OK;
}

tt_status tt_yaml_read(const char *path, tt_arena *arena, tt_settings *out)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return tt_fail(TT_ERR_IO, "%s: cannot be opened: %s", path,
                       tt_file_reason(errno));
    tt_str text = {0};
    tt_status status = read_all(fd, path, &text);
    close(fd);
    if (status == TT_OK)
        status = tt_yaml_parse(tt_str_text(&text), text.n, path, arena, out);
    tt_str_fini(&text);
    return status;
}
