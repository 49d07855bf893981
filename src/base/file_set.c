// file_set - see file_set.h.

#include "base/file_set.h"

#include "base/alloc.h"

#include <string.h>
#include <unistd.h>

struct tt_file_set_one {
    char temporary[PATH_MAX], path[PATH_MAX];
    bool was_there; // before it was placed
};

static tt_status too_long(const char *path)
{
    return tt_fail(TT_ERR_ARG, "%.200s...: the name is too long", path);
}

tt_status tt_file_set_add(tt_file_set *set, const char *temporary,
                          const char *path)
{
    const size_t n = strlen(path), n_temporary = strlen(temporary);
    if (n >= PATH_MAX || n_temporary >= PATH_MAX)
        return too_long(path);
    struct tt_file_set_one *grown =
        tt_realloc(set->v, set->n * (int64_t)sizeof *grown,
                   (set->n + 1) * (int64_t)sizeof *grown);
    if (grown == NULL)
        return tt_fail(TT_ERR_NOMEM, "out of memory for names of files");
    set->v = grown;
    struct tt_file_set_one *one = &set->v[set->n++];
    memcpy(one->temporary, temporary, n_temporary + 1);
    memcpy(one->path, path, n + 1);
    one->was_there = false;
    return TT_OK;
}

tt_status tt_file_set_write(tt_file_set *set, const char *path,
                            const void *bytes, int64_t n)
{
    char temporary[PATH_MAX];
    tt_file file = TT_FILE_CLOSED;
    TT_TRY(tt_file_begin(&file, path, temporary));
    tt_status status = tt_file_finish(&file, tt_file_write(&file, bytes, n));
    if (status == TT_OK)
        status = tt_file_set_add(set, temporary, path);
    if (status != TT_OK)
        (void)unlink(temporary);
    return status;
}

static tt_status rename_all(tt_file_set *set, int64_t *n_placed)
{
    for (int64_t i = 0; i < set->n; i++) {
        struct tt_file_set_one *one = &set->v[i];
        one->was_there = tt_file_exists(one->path);
        TT_TRY(tt_file_rename(one->temporary, one->path));
        one->temporary[0] = '\0';
        (*n_placed)++;
    }
    for (int64_t i = 0; i < set->n; i++)
        TT_TRY(tt_file_sync_folder_of(set->v[i].path));
    return TT_OK;
}

tt_status tt_file_set_place(tt_file_set *set)
{
    int64_t n_placed = 0;
    const tt_status status = rename_all(set, &n_placed);
    for (int64_t i = 0; i < n_placed && status != TT_OK; i++)
        if (!set->v[i].was_there)
            (void)unlink(set->v[i].path);
    return status;
}

void tt_file_set_fini(tt_file_set *set)
{
    for (int64_t i = 0; i < set->n; i++)
        if (set->v[i].temporary[0] != '\0')
            (void)unlink(set->v[i].temporary);
    tt_free(set->v);
    *set = (tt_file_set){0};
}
