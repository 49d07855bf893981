// checkpoint_folder - names and steps in a folder of checkpoints.

#include "store/checkpoint_folder.h"

#include "base/alloc.h"
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 32 };

bool tt__steps_has(const tt__steps *steps, int64_t step)
{
    for (int64_t i = 0; i < steps->n; i++)
        if (steps->v[i] == step)
            return true;
    return false;
}

tt_status tt__steps_add(tt__steps *steps, int64_t step)
{
    if (steps->n == steps->capacity) {
        const int64_t item = sizeof(*steps->v);
        const int64_t more = 2 * steps->capacity + 16;
        int64_t *v = tt_realloc(steps->v, steps->capacity * item, more * item);
        if (v == NULL)
            return tt_fail(TT_ERR_NOMEM, "out of memory for checkpoints");
        steps->v = v;
        steps->capacity = more;
    }
    steps->v[steps->n++] = step;
    return TT_OK;
}

tt_status tt__checkpoint_path(const char *folder, const char *name,
                              char path[PATH_MAX])
{
    const int n = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    if (n < 0 || n >= PATH_MAX)
        return tt_fail(TT_ERR_ARG, "%.200s...: the name is too long", folder);
    return TT_OK;
}

static void print_step(int64_t step, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "step-%08lld", (long long)step);
}

tt_status tt__checkpoint_step_path(const char *folder, int64_t step,
                                   char path[PATH_MAX])
{
    char name[NAME_BYTES];
    print_step(step, name);
    return tt__checkpoint_path(folder, name, path);
}

// The step of "step-00000200", spelt exactly so; -1 for other names.
static int64_t parse_step(const char *name)
{
    char again[NAME_BYTES];
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9')
        return -1;
    errno = 0;
    const long long step = strtoll(name + 5, NULL, 10);
    print_step(step, again);
    return errno == 0 && strcmp(name, again) == 0 ? step : -1;
}

static int ascending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

tt_status tt__checkpoint_steps(const char *folder, tt__steps *steps)
{
    tt_status status = TT_OK;
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return tt_fail(TT_ERR_IO, "%s: cannot be read: %s", folder,
                       strerror(errno));
    for (const struct dirent *e = readdir(dir); e != NULL && status == TT_OK;
         e = readdir(dir)) {
        const int64_t step = parse_step(e->d_name);
        if (step >= 0)
            status = tt__steps_add(steps, step);
    }
    closedir(dir);
    if (steps->n > 1)
        qsort(steps->v, (size_t)steps->n, sizeof(*steps->v), ascending);
    return status;
}

int64_t tt__checkpoint_named(const char *folder, const char *name)
{
    char path[PATH_MAX];
    tt_str text = {0};
    int64_t step = -1;
    if (tt__checkpoint_path(folder, name, path) == TT_OK &&
        tt_file_read(path, NAME_BYTES, &text) == TT_OK && text.n > 0) {
        text.text[strcspn(text.text, "\n")] = '\0';
        step = parse_step(text.text);
    }
    tt_str_fini(&text);
    return step;
}

tt_status tt__checkpoint_name(const char *folder, const char *name,
                              int64_t step)
{
    char path[PATH_MAX], text[NAME_BYTES + 1];
    TT_TRY(tt__checkpoint_path(folder, name, path));
    if (step < 0)
        return tt_file_remove(path);
    print_step(step, text);
    const size_t n = strlen(text);
    text[n] = '\n';
    return tt_file_replace(path, text, (int64_t)n + 1);
}

tt_status tt__checkpoint_remove(const char *folder, int64_t step)
{
    char path[PATH_MAX], away[PATH_MAX];
    TT_TRY(tt__checkpoint_step_path(folder, step, path));
    TT_TRY(tt_file_temporary(path, away));
    TT_TRY(tt_file_rename(path, away));
    return tt_file_remove(away);
}

bool tt__checkpoint_is_name(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL &&
           strlen(name) < NAME_MAX && strcmp(name, "state.json") != 0;
}
