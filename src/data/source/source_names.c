// source_names - finding files by the names of others.

#include "data/source/source_names.h"

#include "base/file.h"
#include "base/str.h"
#include "data/files.h"

#include <ctype.h>
#include <string.h>

static const char *last_place(const char *base, const char *word)
{
    const size_t n = strlen(word);
    const char *found = NULL;
    for (const char *p = strstr(base, word); p != NULL; p = strstr(p + 1, word))
        if (n > 1 || ((p == base || !isalnum((unsigned char)p[-1])) &&
                      !isalnum((unsigned char)p[1])))
            found = p;
    return found;
}

bool tt__name_has(const char *path, const char *word)
{
    return last_place(tt_path_base(path), word) != NULL;
}

const char *tt__name_swap(tt_arena *arena, const char *path, const char *from,
                          const char *to)
{
    const char *at = last_place(tt_path_base(path), from);
    if (at == NULL)
        return NULL;
    return tt_arena_printf(arena, "%.*s%s%s", (int)(at - path), path, to,
                           at + strlen(from));
}

static bool is_file(const char *path)
{
    return tt_file_exists(path) && !tt_file_is_folder(path);
}

const char *tt__name_existing(tt_arena *arena, const char *path)
{
    if (path == NULL || is_file(path))
        return path;
    const int n = (int)strlen(path);
    const char *other = tt_path_ends(path, ".gz")
                            ? tt_arena_printf(arena, "%.*s", n - 3, path)
                            : tt_arena_printf(arena, "%s.gz", path);
    return other != NULL && is_file(other) ? other : NULL;
}

const char *tt__name_of_val(tt_arena *arena, const char *path)
{
    static const char *const words[] = {"t10k", "test", "val", "valid",
                                        "validation"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *found = tt__name_existing(
            arena, tt__name_swap(arena, path, "train", words[i]));
        if (found != NULL)
            return found;
    }
    return NULL;
}

// Whether `a` is `b` with ".gz".
static bool is_packed(const char *a, const char *b)
{
    const size_t n = strlen(b);
    return strncmp(a, b, n) == 0 && strcmp(a + n, ".gz") == 0;
}

// Keeps the candidates; with `wants_train` only those with that in their name. As
// the list is sorted NAME.gz comes right after NAME.
static void keep(tt_paths *paths, bool is_candidate(const char *base),
                 bool wants_train)
{
    int64_t n = 0;
    for (int64_t i = 0; i < paths->n; i++) {
        const char *path = paths->v[i];
        const char *base = tt_path_base(path);
        if (!is_candidate(base) || (n > 0 && is_packed(path, paths->v[n - 1])))
            continue;
        if (!wants_train || strstr(base, "train") != NULL)
            paths->v[n++] = path;
    }
    paths->n = n;
}

static tt_status several(const char *setting, const char *folder,
                         const tt_paths *paths)
{
    enum { SHOWN = 4 };
    tt_str list = {0};
    for (int64_t i = 0; i < paths->n && i < SHOWN; i++)
        tt_str_addf(&list, "%s%s", i > 0 ? ", " : "",
                    tt_path_base(paths->v[i]));
    (void)tt_fail(TT_ERR_ARG,
                  "%s: it is not clear which file to train on (%s%s); name one "
                  "with %s",
                  folder, tt_str_text(&list), paths->n > SHOWN ? ", ..." : "",
                  setting);
    tt_str_fini(&list);
    return TT_ERR_ARG;
}

tt_status tt__name_main(const char *setting, const char *path,
                        bool is_candidate(const char *base), tt_arena *arena,
                        const char **path_out)
{
    tt_paths all = {0};
    TT_TRY(tt_paths_find(setting, path, arena, &all));
    if (!tt_file_is_folder(path)) {
        if (all.n > 1)
            return several(setting, path, &all);
        *path_out = all.v[0];
        return TT_OK;
    }
    keep(&all, is_candidate, false);
    if (all.n == 0)
        return tt_fail(TT_ERR_ARG, "%s: no file in it has a name that fits",
                       path);
    const int64_t n = all.n;
    if (n > 1)
        keep(&all, is_candidate, true);
    if (all.n == 0)
        all.n = n; // which are still there
    if (all.n > 1)
        return several(setting, path, &all);
    *path_out = all.v[0];
    return TT_OK;
}
