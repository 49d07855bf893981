// checkpoint_folder - names and steps in a folder of checkpoints.
//
// The names are the only index: a checkpoint exists if a folder with its exact name
// exists. Everything else in the folder (temporary folders, damaged ones, notes of
// users) has another name and is never taken for one. Removing renames first,
// because removing files one by one would leave half a checkpoint under a valid
// name after a crash.

#include "store/checkpoint_folder.h"

#include "base/alloc.h"
#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 32 };

bool tt__saved_steps_has(const tt__steps *steps, int64_t step)
{
    for (int64_t i = 0; i < steps->n; i++)
        if (steps->v[i] == step)
            return true;
    return false;
}

tt_status tt__saved_steps_add(tt__steps *steps, int64_t step)
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

static tt_status add_step(void *user, const char *name)
{
    const int64_t step = parse_step(name);
    return step >= 0 ? tt__saved_steps_add(user, step) : TT_OK;
}

tt_status tt__checkpoint_steps(const char *folder, tt__steps *steps)
{
    TT_TRY(tt_file_each(folder, add_step, steps));
    if (steps->n > 1)
        qsort(steps->v, (size_t)steps->n, sizeof(*steps->v), ascending);
    return TT_OK;
}

tt_status tt__checkpoint_named(const char *folder, const char *name,
                               int64_t *step_out)
{
    char path[PATH_MAX];
    tt_str text = {0};
    bool found = false;
    *step_out = -1;
    TT_TRY(tt__checkpoint_path(folder, name, path));
    const tt_status status = tt_file_read_if(path, NAME_BYTES, &text, &found);
    if (status == TT_OK && text.n > 0) {
        text.text[strcspn(text.text, "\n")] = '\0';
        *step_out = parse_step(text.text);
    }
    tt_str_fini(&text);
    // A file that is too long names no step.
    return status == TT_ERR_ARG ? TT_OK : status;
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

tt_status tt__checkpoint_set_aside(const char *folder, int64_t step)
{
    enum { MAX_NAMES = 1000 };
    char path[PATH_MAX], away[PATH_MAX], name[2 * NAME_BYTES];
    TT_TRY(tt__checkpoint_step_path(folder, step, path));
    for (int i = 1; i <= MAX_NAMES; i++) {
        print_step(step, name);
        const size_t n = strlen(name);
        if (i == 1)
            snprintf(name + n, sizeof name - n, "%s", TT__DAMAGED);
        else
            snprintf(name + n, sizeof name - n, "%s.%d", TT__DAMAGED, i);
        TT_TRY(tt__checkpoint_path(folder, name, away));
        if (!tt_file_exists(away))
            return tt_file_rename(path, away);
    }
    return tt_fail(TT_ERR_IO, "%s: %d damaged ones are beside it; remove them",
                   path, MAX_NAMES);
}

// Puts back a checkpoint that was renamed to be replaced, if the new one did not
// get its place before a crash. Otherwise removes it.
static tt_status mend_one(void *user, const char *name)
{
    const char *folder = user;
    char old[PATH_MAX], path[PATH_MAX], step[NAME_BYTES];
    const size_t n = strlen(name), m = sizeof(TT__REPLACED) - 1;
    if (n <= m || n - m >= NAME_BYTES ||
        strcmp(name + n - m, TT__REPLACED) != 0)
        return TT_OK;
    snprintf(step, sizeof step, "%.*s", (int)(n - m), name);
    if (parse_step(step) < 0)
        return TT_OK;
    TT_TRY(tt__checkpoint_path(folder, name, old));
    TT_TRY(tt__checkpoint_path(folder, step, path));
    return tt_file_exists(path) ? tt_file_remove(old)
                                : tt_file_rename(old, path);
}

tt_status tt__checkpoint_mend(const char *folder)
{
    char copy[PATH_MAX];
    snprintf(copy, sizeof(copy), "%s", folder);
    return tt_file_each(folder, mend_one, copy);
}

// Whether a name shows that checkpoints were saved here once.
static tt_status find_trace(void *user, const char *name)
{
    bool *found = user;
    const char *damaged = strstr(name, TT__DAMAGED);
    *found = *found || parse_step(name) >= 0 || strcmp(name, "latest") == 0 ||
             strcmp(name, "best") == 0 || strcmp(name, TT__SAVED) == 0 ||
             (strncmp(name, "step-", 5) == 0 && damaged != NULL);
    return TT_OK;
}

tt_status tt_checkpoints_trace(const char *folder, bool *found_out)
{
    *found_out = false;
    return tt_file_exists(folder) ? tt_file_each(folder, find_trace, found_out)
                                  : TT_OK;
}

// Names of small files in a checkpoint. state.json is not allowed, since it is
// written last by this code; a leading dot or a slash could leave the folder.
bool tt__checkpoint_is_name(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL &&
           strlen(name) < NAME_MAX && strcmp(name, "state.json") != 0;
}
