// layout - reading rules, and asking them.

#include "pass/partition/layout.h"

#include "base/glob.h"

#include <string.h>

tt_status tt_layout_add(tt_layout *layout, tt_arena *arena,
                        const tt_layout_rule *rule)
{
    if (layout->n == layout->capacity) {
        const int32_t capacity = 2 * layout->capacity + 16;
        tt_layout_rule *more =
            tt_arena_alloc(arena, capacity * (int64_t)sizeof *more);
        if (more == NULL)
            return TT_ERR_NOMEM;
        if (layout->n > 0)
            memcpy(more, layout->rule, (size_t)layout->n * sizeof *more);
        layout->rule = more;
        layout->capacity = capacity;
    }
    const tt_layout_rule copy = {
        rule->layers == NULL ? NULL : tt_arena_strdup(arena, rule->layers),
        tt_arena_strdup(arena, rule->dim), tt_arena_strdup(arena, rule->axis)};
    if ((rule->layers != NULL && copy.layers == NULL) || copy.dim == NULL ||
        copy.axis == NULL)
        return TT_ERR_NOMEM;
    layout->rule[layout->n++] = copy;
    return TT_OK;
}

static tt_status add_word(char *word, const char *key, tt_arena *arena,
                          tt_layout *layout)
{
    char *slash = strrchr(word, '/');
    char *dim = slash != NULL ? slash + 1 : word;
    char *colon = strchr(dim, ':');
    if (slash == word || colon == NULL || colon == dim || colon[1] == '\0' ||
        strchr(colon + 1, ':') != NULL || colon - dim >= TT_NAME_BYTES)
        return tt_fail(TT_ERR_ARG,
                       "%s: \"%s\" is not like heads:tensor or "
                       "h.3.*/heads:none",
                       key, word);
    *colon = '\0';
    if (slash != NULL)
        *slash = '\0';
    return tt_layout_add(
        layout, arena,
        &(tt_layout_rule){.layers = slash != NULL ? word : NULL,
                          .dim = dim,
                          .axis = colon + 1});
}

tt_status tt_layout_parse(const char *text, const char *key, tt_arena *arena,
                          tt_layout *layout)
{
    for (const char *p = text != NULL ? text : ""; *p != '\0';) {
        p += strspn(p, " ,");
        const size_t n = strcspn(p, " ,");
        char *word = tt_arena_alloc(arena, (int64_t)n + 1);
        if (word == NULL)
            return TT_ERR_NOMEM;
        memcpy(word, p, n);
        p += n;
        if (n > 0)
            TT_TRY(add_word(word, key, arena, layout));
    }
    return TT_OK;
}

void tt_layout_print(const tt_layout *layout, tt_str *out)
{
    for (int32_t i = 0; i < layout->n; i++) {
        const tt_layout_rule *r = &layout->rule[i];
        tt_str_addf(out, "%s%s%s%s:%s", i > 0 ? " " : "",
                    r->layers != NULL ? r->layers : "",
                    r->layers != NULL ? "/" : "", r->dim, r->axis);
    }
}

// Whether the pattern matches the whole name, or the name up to a dot.
static bool matches_start(const char *pattern, const char *name)
{
    char head[256];
    if (tt_glob_match(pattern, name))
        return true;
    for (const char *dot = strchr(name, '.'); dot != NULL;
         dot = strchr(dot + 1, '.')) {
        const size_t n = (size_t)(dot - name);
        if (n >= sizeof head)
            return false;
        memcpy(head, name, n);
        head[n] = '\0';
        if (tt_glob_match(pattern, head))
            return true;
    }
    return false;
}

bool tt_layout_is_for(const char *layers, const char *name)
{
    for (const char *p = name; p != NULL;) {
        if (matches_start(layers, p))
            return true;
        p = strchr(p, '.');
        p = p != NULL ? p + 1 : NULL;
    }
    return false;
}

// The pattern that speaks of the dimension in this layer; NULL: only rules of all.
static const char *heard(const tt_layout *layout, const char *layer,
                         const char *dim)
{
    for (int32_t i = layout->n - 1; i >= 0; i--) {
        const tt_layout_rule *r = &layout->rule[i];
        if (r->layers != NULL && strcmp(r->dim, dim) == 0 &&
            tt_layout_is_for(r->layers, layer))
            return r->layers;
    }
    return NULL;
}

bool tt_layout_cuts(const tt_layout *layout, const char *layer, const char *dim,
                    const char *axis)
{
    const char *layers = heard(layout, layer, dim);
    for (int32_t i = 0; i < layout->n; i++) {
        const tt_layout_rule *r = &layout->rule[i];
        const bool is_heard = layers == NULL || r->layers == NULL
                                  ? layers == r->layers
                                  : strcmp(layers, r->layers) == 0;
        if (is_heard && strcmp(r->dim, dim) == 0 && strcmp(r->axis, axis) == 0)
            return true;
    }
    return false;
}
