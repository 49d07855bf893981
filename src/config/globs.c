// globs - reading lists of patterns.

#include "config/globs.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const tt_glob *tt_globs_find(const tt_globs *globs, const char *name)
{
    for (int64_t i = 0; i < globs->n; i++)
        if (tt_glob_match(globs->v[i].pattern, name))
            return &globs->v[i];
    return NULL;
}

// ---- reading -------------------------------------------------------------

// The end of the item at p: the next comma outside of brackets, since "[a,b]" is a
// set of characters in a pattern.
static const char *item_end(const char *p, const char *end)
{
    for (int depth = 0; p < end; p++) {
        depth += *p == '[' ? 1 : *p == ']' && depth > 0 ? -1 : 0;
        if (*p == ',' && depth == 0)
            break;
    }
    return p;
}

// Whether the first bracket is closed at the very end. Then the brackets enclose a
// list and are no set of characters.
static bool is_bracketed(const char *p, const char *end)
{
    int depth = 0;
    if (p == end || *p != '[' || end[-1] != ']')
        return false;
    for (; p < end; p++) {
        depth += *p == '[' ? 1 : *p == ']' ? -1 : 0;
        if (depth == 0)
            return p == end - 1;
    }
    return false;
}

static void trim(const char **first, const char **end)
{
    while (*first < *end && isspace((unsigned char)**first))
        (*first)++;
    while (*first < *end && isspace((unsigned char)(*end)[-1]))
        (*end)--;
}

// Splits "PATTERN:FACTOR" at the last colon.
static tt_status read_factor(const char *key, char *pattern, double *factor_out)
{
    char *colon = strrchr(pattern, ':'), *end = NULL;
    errno = 0;
    const double factor = colon != NULL ? strtod(colon + 1, &end) : 0;
    if (errno == ERANGE)
        return tt_fail(TT_ERR_ARG, "%s: \"%s\": the factor is too %s", key,
                       pattern, isinf(factor) ? "large" : "near to 0");
    if (colon == NULL || colon == pattern || end == colon + 1 || *end != '\0' ||
        !isfinite(factor) || factor < 0)
        return tt_fail(TT_ERR_ARG,
                       "%s: \"%s\" is not of the form PATTERN:FACTOR, as in "
                       "\"*.bias:0.1\"",
                       key, pattern);
    *colon = '\0';
    *factor_out = factor;
    return TT_OK;
}

static tt_status add(const char *key, const char *first, const char *end,
                     bool has_factor, tt_arena *arena, tt_glob *glob)
{
    trim(&first, &end);
    if (first == end)
        return tt_fail(TT_ERR_ARG, "%s: an empty pattern matches nothing", key);
    char *text = tt_arena_alloc(arena, end - first + 1);
    if (text == NULL)
        return TT_ERR_NOMEM;
    memcpy(text, first, (size_t)(end - first));
    *glob = (tt_glob){.pattern = text, .factor = 1};
    return has_factor ? read_factor(key, text, &glob->factor) : TT_OK;
}

tt_status tt_globs_read(const char *key, const char *text, bool has_factor,
                        tt_arena *arena, tt_globs *out)
{
    const char *p = text, *end = text + strlen(text);
    int64_t most = 1;
    trim(&p, &end);
    if (is_bracketed(p, end)) {
        p++, end--;
        trim(&p, &end);
    }
    *out = (tt_globs){0};
    if (p == end)
        return TT_OK;
    for (const char *c = p; c < end; c++)
        most += *c == ',';
    out->v = tt_arena_alloc(arena, most * (int64_t)sizeof *out->v);
    if (out->v == NULL)
        return TT_ERR_NOMEM;
    for (;; p++) {
        const char *stop = item_end(p, end);
        TT_TRY(add(key, p, stop, has_factor, arena, &out->v[out->n]));
        out->n++;
        p = stop;
        if (p == end)
            return TT_OK;
    }
}
