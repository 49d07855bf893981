// opt - option tables: defaults, setting by name, "a=1 b=2" lines and back.
//
// Text is parsed twice: once without a place to store, then for real. So a mistake in
// the third option leaves the first two as they were.

#include "base/settings/opt.h"

#include "base/settings/opt_value.h"

#include <ctype.h>
#include <string.h>

enum { NAMES_MAX = 256, WORD_MAX = 512 };

static int64_t count(const tt_opt *table)
{
    int64_t n = 0;
    while (table != NULL && table[n].name != NULL)
        n++;
    return n;
}

tt_status tt_opt_join(const tt_opt_part *part, int n_parts, tt_arena *arena,
                      tt_opt **table_out)
{
    int64_t n = 0;
    for (int i = 0; i < n_parts; i++)
        n += count(part[i].table);
    tt_opt *to = tt_arena_alloc(arena, (n + 1) * (int64_t)sizeof *to);
    if (to == NULL)
        return TT_ERR_NOMEM;
    *table_out = to;
    for (int i = 0; i < n_parts; i++)
        for (int64_t k = 0; k < count(part[i].table); k++) {
            *to = part[i].table[k];
            to++->offset += part[i].offset;
        }
    return TT_OK;
}

const tt_opt *tt_opt_find(const tt_opt *table, const char *name)
{
    for (const tt_opt *o = table; o != NULL && o->name != NULL; o++)
        if (strcmp(o->name, name) == 0)
            return o;
    return NULL;
}

static tt_status fail_unknown(const tt_opt *table, const char *name)
{
    const char *names[NAMES_MAX] = {NULL};
    int n = 0;
    for (const tt_opt *o = table; o != NULL && o->name != NULL; o++)
        if (n < NAMES_MAX)
            names[n++] = o->name;
    const char *near = tt_nearest(name, names, n);
    if (near != NULL)
        return tt_fail(TT_ERR_ARG, "%s: unknown option; did you mean \"%s\"?",
                       name, near);
    if (n == 0)
        return tt_fail(TT_ERR_ARG, "%s: unknown option; there are none here",
                       name);
    tt_str list = {0};
    for (int i = 0; i < n; i++)
        tt_str_addf(&list, "%s%s", i > 0 ? ", " : "", names[i]);
    tt_fail(TT_ERR_ARG, "%s: unknown option; there are: %s", name,
            tt_str_text(&list));
    tt_str_fini(&list);
    return TT_ERR_ARG;
}

// Without `params` the text is only checked.
static tt_status set_one(const tt_opt *table, void *params, const char *name,
                         const char *value, tt_arena *arena)
{
    const tt_opt *opt = tt_opt_find(table, name);
    if (opt == NULL)
        return fail_unknown(table, name);
    tt_opt_value read = {0};
    TT_TRY(tt_opt_value_read(opt, value, arena, &read));
    if (params != NULL)
        tt_opt_value_store(opt, &read, params);
    return TT_OK;
}

tt_status tt_opt_set(const tt_opt *table, void *params, const char *name,
                     const char *value, tt_arena *arena)
{
    return set_one(table, params, name, value, arena);
}

static tt_status read_default(const tt_opt *opt, tt_arena *arena,
                              tt_opt_value *value)
{
    if (opt->fallback != NULL)
        return tt_opt_value_read(opt, opt->fallback, arena, value);
    if (opt->type == TT_OPT_STR)
        value->str = "";
    return TT_OK;
}

tt_status tt_opt_defaults(const tt_opt *table, void *params, tt_arena *arena)
{
    for (const tt_opt *o = table; o != NULL && o->name != NULL; o++) {
        tt_opt_value value = {0};
        TT_TRY(read_default(o, arena, &value));
        tt_opt_value_store(o, &value, params);
    }
    return TT_OK;
}

static char unescape(char c)
{
    return c == 'n' ? '\n' : c == 't' ? '\t' : c;
}

// Appends the value at `p` to `out`, without its quotes; returns what follows
// it, or NULL when the closing quote is missing.
static const char *scan_value(const char *p, tt_str *out)
{
    if (*p != '"') {
        const size_t n = strcspn(p, " \t\r\n");
        tt_str_add_bytes(out, p, (int64_t)n);
        return p + n;
    }
    for (p++; *p != '"'; p++) {
        const bool is_escape = *p == '\\';
        p += is_escape;
        if (*p == '\0')
            return NULL;
        const char c = is_escape ? unescape(*p) : *p;
        tt_str_add_bytes(out, &c, 1);
    }
    p++;
    return *p == '\0' || isspace((unsigned char)*p) ? p : NULL;
}

static tt_status parse_pair(const tt_opt *table, void *params,
                            const char **text, tt_arena *arena)
{
    char name[WORD_MAX];
    const char *p = *text;
    const size_t n = strcspn(p, "= \t\r\n");
    if (p[n] != '=' || n == 0 || n >= sizeof(name))
        return tt_fail(TT_ERR_ARG, "\"%.*s\": options are written name=value",
                       n < WORD_MAX ? (int)n : WORD_MAX, p);
    memcpy(name, p, n);
    name[n] = '\0';
    tt_str value = {0};
    p = scan_value(p + n + 1, &value);
    tt_status status = tt_str_status(&value);
    if (status == TT_OK && p == NULL)
        status = tt_fail(TT_ERR_ARG,
                         "%s: the closing \" is missing or not "
                         "followed by a blank",
                         name);
    if (status == TT_OK)
        status = set_one(table, params, name, tt_str_text(&value), arena);
    if (status == TT_OK)
        *text = p;
    tt_str_fini(&value);
    return status;
}

static tt_status parse_all(const tt_opt *table, void *params, const char *text,
                           tt_arena *arena)
{
    for (;;) {
        while (isspace((unsigned char)*text))
            text++;
        if (*text == '\0')
            return TT_OK;
        TT_TRY(parse_pair(table, params, &text, arena));
    }
}

// Checks everything before it sets anything.
tt_status tt_opt_parse(const tt_opt *table, void *params, const char *text,
                       tt_arena *arena)
{
    TT_TRY(parse_all(table, NULL, text, arena));
    return parse_all(table, params, text, arena);
}

void tt_opt_print_value(const tt_opt *opt, const void *params, tt_str *out)
{
    tt_opt_value value = {0};
    tt_opt_value_load(opt, params, &value);
    tt_opt_value_print(opt, &value, out);
}

static void print_default(const tt_opt *opt, tt_str *out)
{
    tt_opt_value value = {0};
    if (opt->type == TT_OPT_STR)
        tt_str_add(out, opt->fallback != NULL ? opt->fallback : "");
    else if (read_default(opt, NULL, &value) == TT_OK)
        tt_opt_value_print(opt, &value, out);
}

static void print_quoted(const char *text, tt_str *out)
{
    if (text[0] != '\0' && strpbrk(text, " \t\r\n\"\\") == NULL) {
        tt_str_add(out, text);
        return;
    }
    tt_str_add(out, "\"");
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\n')
            tt_str_add(out, "\\n");
        else if (*p == '\t')
            tt_str_add(out, "\\t");
        else
            tt_str_addf(out, "%s%c", *p == '"' || *p == '\\' ? "\\" : "", *p);
    }
    tt_str_add(out, "\"");
}

void tt_opt_print(const tt_opt *table, const void *params, bool all,
                  tt_str *out)
{
    tt_str text = {0}, fallback = {0};
    bool is_first = true;
    for (const tt_opt *o = table; o != NULL && o->name != NULL; o++) {
        tt_str_clear(&text);
        tt_str_clear(&fallback);
        tt_opt_print_value(o, params, &text);
        print_default(o, &fallback);
        if (tt_str_status(&text) != TT_OK || tt_str_status(&fallback) != TT_OK)
            out->status = TT_ERR_NOMEM;
        if (!all && strcmp(tt_str_text(&text), tt_str_text(&fallback)) == 0)
            continue;
        tt_str_addf(out, "%s%s=", is_first ? "" : " ", o->name);
        print_quoted(tt_str_text(&text), out);
        is_first = false;
    }
    tt_str_fini(&text);
    tt_str_fini(&fallback);
}
