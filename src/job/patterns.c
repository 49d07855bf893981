// patterns - checks that every pattern in the settings (train.freeze,
// optim.no_decay, ...) matches a weight. A pattern that matches nothing is nearly
// always a typing error, and it would be silent: training would run with the weight
// not frozen. So it is an error, with the name that was probably meant.

#include "base/alloc.h"
#include "job/internal.h"

#include <string.h>

enum { MAX_SHOWN = 3 };

static int count_dots(const char *text, int64_t n)
{
    int dots = 0;
    for (int64_t i = 0; i < n; i++)
        dots += text[i] == '.';
    return dots;
}

// Where the literal beginning of a pattern ends: "h.0." of "h.0.*".
static int64_t literal_bytes(const char *pattern)
{
    return (int64_t)strcspn(pattern, "*?[");
}

// The first components of a name: as many dots as the literal part has.
static const char *beginning(const char *name, int dots, tt_arena *arena)
{
    const char *p = name;
    for (int i = 0; i < dots && p != NULL; i++) {
        p = strchr(p, '.');
        p = p == NULL ? NULL : p + 1;
    }
    if (p == NULL)
        return NULL;
    return tt_arena_printf(arena, "%.*s", (int)(p - name), name);
}

// What a pattern may have meant. Without wildcards it is the nearest name. With
// them, the literal beginning is compared with the beginnings of names, and the
// best of these gets the rest of the pattern. NULL: nothing is near.
static const char *suggest(const char *pattern, const char **names, int n,
                           tt_arena *arena)
{
    const int64_t bytes = literal_bytes(pattern);
    if (pattern[bytes] == '\0')
        return tt_nearest(pattern, names, n);
    const int dots = count_dots(pattern, bytes);
    const char *literal = tt_arena_printf(arena, "%.*s", (int)bytes, pattern);
    if (literal == NULL || dots == 0)
        return NULL;
    tt_near near = {.word = literal};
    for (int i = 0; i < n; i++) {
        const char *start = beginning(names[i], dots, arena);
        if (start != NULL)
            tt_near_try(&near, start);
    }
    return near.best == NULL
               ? NULL
               : tt_arena_printf(arena, "%s%s", near.best, pattern + bytes);
}

static tt_status fail_unmatched(const char *key, const char *pattern,
                                const char **names, int n, tt_arena *arena)
{
    const char *meant = suggest(pattern, names, n, arena);
    if (meant != NULL)
        return tt_fail(TT_ERR_ARG,
                       "%s: no weight is called \"%s\"; did you mean \"%s\"?",
                       key, pattern, meant);
    tt_str some = {0};
    for (int i = 0; i < n && i < MAX_SHOWN; i++)
        tt_str_addf(&some, "%s%s", i > 0 ? ", " : "", names[i]);
    (void)tt_fail(TT_ERR_ARG, "%s: no weight is called \"%s\"; there are %s%s",
                  key, pattern, tt_str_text(&some),
                  n > MAX_SHOWN ? ", ..." : "");
    tt_str_fini(&some);
    return TT_ERR_ARG;
}

static bool matches_any(const char *pattern, const char **names, int n)
{
    for (int i = 0; i < n; i++)
        if (tt_glob_match(pattern, names[i]))
            return true;
    return false;
}

static tt_status check(const char *key, const tt_globs *globs,
                       const char **names, int n, tt_arena *arena)
{
    for (int64_t i = 0; i < globs->n; i++)
        if (!matches_any(globs->v[i].pattern, names, n))
            return fail_unmatched(key, globs->v[i].pattern, names, n, arena);
    return TT_OK;
}

tt_status tt__job_check_globs(const tt_job *job, const tt_graph *graph)
{
    int n = 0;
    if (job->freeze.n + job->no_decay.n + job->lr_groups.n + job->skip.n == 0)
        return TT_OK;
    const char **names = tt_arena_alloc(job->arena, (graph->n_values + 1) *
                                                        (int64_t)sizeof *names);
    if (names == NULL)
        return TT_ERR_NOMEM;
    for (int32_t v = 0; v < graph->n_values; v++)
        if (graph->value[v].role == TT_ROLE_PARAM)
            names[n++] = graph->value[v].name;
    TT_TRY(check("train.freeze", &job->freeze, names, n, job->arena));
    TT_TRY(check("init.skip", &job->skip, names, n, job->arena));
    TT_TRY(check("optim.no_decay", &job->no_decay, names, n, job->arena));
    return check("optim.lr_groups", &job->lr_groups, names, n, job->arena);
}
