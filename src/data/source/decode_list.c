// decode_list - folders, walked.

#include "data/source/decode_list.h"

#include "base/alloc.h"
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_DEPTH = 32 }; // links may form circles

void tt_file_list_fini(tt_file_list *list)
{
    tt_str_fini(&list->text);
    tt_free(list->at);
    *list = (tt_file_list){0};
}

const char *tt_file_list_at(const tt_file_list *list, int64_t i)
{
    return list->text.text + list->at[i];
}

tt_status tt_file_list_add(tt_file_list *list, const char *name)
{
    if (list->n == list->capacity) {
        const int64_t more = list->capacity == 0 ? 64 : list->capacity * 2;
        int64_t *at = tt_realloc(list->at, list->capacity * (int64_t)sizeof *at,
                                 more * (int64_t)sizeof *at);
        if (at == NULL)
            return tt_fail(TT_ERR_NOMEM,
                           "there is no memory for a list of files");
        list->at = at;
        list->capacity = more;
    }
    list->at[list->n] = list->text.n;
    tt_str_add_bytes(&list->text, name, (int64_t)strlen(name) + 1);
    TT_TRY(tt_str_status(&list->text));
    list->n++;
    return TT_OK;
}

static int compare(const void *a, const void *b, void *text)
{
    const char *base = text;
    return strcmp(base + *(const int64_t *)a, base + *(const int64_t *)b);
}

void tt_file_list_sort(tt_file_list *list, int64_t first)
{
    if (list->n > first)
        qsort_r(list->at + first, (size_t)(list->n - first), sizeof *list->at,
                compare, list->text.text);
}

// DT_DIR, DT_REG, or anything else; links count as what they point to.
static int kind_of(const struct dirent *entry, const char *path)
{
    struct stat st;
    if (entry->d_type == DT_DIR || entry->d_type == DT_REG)
        return entry->d_type;
    if (stat(path, &st) != 0)
        return DT_UNKNOWN; // a link to nothing
    return S_ISDIR(st.st_mode) ? DT_DIR : S_ISREG(st.st_mode) ? DT_REG : 0;
}

typedef struct walk {
    tt_str path;
    int64_t root; // bytes of the path that are not part of the names
    bool wants_folders;
    bool (*wants)(const char *name);
    tt_file_list *list;
} walk;

static tt_status walk_folder(walk *w, int depth);

static tt_status visit(walk *w, const struct dirent *entry, int depth)
{
    const int64_t before = w->path.n;
    tt_status status = TT_OK;
    tt_str_addf(&w->path, "/%s", entry->d_name);
    TT_TRY(tt_str_status(&w->path));
    const int kind = kind_of(entry, w->path.text);
    const char *name = w->path.text + w->root;
    if (w->wants_folders)
        status = kind == DT_DIR ? tt_file_list_add(w->list, name) : TT_OK;
    else if (kind == DT_DIR)
        status = walk_folder(w, depth + 1);
    else if (kind == DT_REG && w->wants(name))
        status = tt_file_list_add(w->list, name);
    w->path.n = before;
    w->path.text[before] = '\0';
    return status;
}

static tt_status walk_folder(walk *w, int depth)
{
    if (depth > MAX_DEPTH)
        return tt_fail(TT_ERR_ARG,
                       "%s is %d folders deep; is it a circle of links?",
                       w->path.text, depth);
    DIR *dir = opendir(w->path.text);
    if (dir == NULL)
        return tt_fail(TT_ERR_IO, "%s: %s", w->path.text,
                       tt_file_reason(errno));
    tt_status status = TT_OK;
    while (status == TT_OK) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (entry == NULL && errno != 0)
            status = tt_fail(TT_ERR_IO, "%s: %s", w->path.text,
                             tt_file_reason(errno));
        if (entry == NULL)
            break;
        if (entry->d_name[0] != '.')
            status = visit(w, entry, depth);
    }
    (void)closedir(dir);
    return status;
}

static tt_status run(walk *w, const char *root, const char *below)
{
    const int64_t first = w->list->n;
    tt_str_add(&w->path, root);
    w->root = w->path.n + 1;
    if (below != NULL)
        tt_str_addf(&w->path, "/%s", below);
    tt_status status = tt_str_status(&w->path);
    if (status == TT_OK)
        status = walk_folder(w, 0);
    if (status == TT_OK)
        tt_file_list_sort(w->list, first);
    tt_str_fini(&w->path);
    return status;
}

tt_status tt_file_list_folders(const char *root, tt_file_list *list)
{
    walk w = {.list = list, .wants_folders = true};
    return run(&w, root, NULL);
}

tt_status tt_file_list_tree(const char *root, const char *below,
                            bool (*wants)(const char *name), tt_file_list *list)
{
    walk w = {.list = list, .wants = wants};
    return run(&w, root, below);
}

void tt_file_list_keep(tt_file_list *list, int64_t first, int64_t from,
                       int64_t count)
{
    memmove(list->at + first, list->at + first + from,
            (size_t)count * sizeof *list->at);
    list->n = first + count;
}
