#include "cli/paths.h"

#include "base/file.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

// paths - relative paths in the settings of a run, seen from another folder.
//
// A run's config.yaml says data.path=my.txt, relative to the folder where training was
// started. `tutti eval` may be called elsewhere. The run's own name gives that folder
// away: if run=runs/my lies in /home/me/runs/my, training was started in /home/me.

static void drop_last(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash != NULL)
        *slash = '\0';
}

static const char *last_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

// The folder where a run was started. Only the last part of the name may differ: a run
// that was set aside is called my.1.
static bool find_start(const char *folder, const char *run, char *start)
{
    char name[PATH_MAX];
    if (run[0] == '/' || run[0] == '\0' || strlen(run) >= sizeof name ||
        realpath(folder, start) == NULL)
        return false;
    if (strncmp(last_of(start), "step-", 5) == 0)
        drop_last(start);
    if (strcmp(last_of(start), "checkpoints") == 0)
        drop_last(start);
    memcpy(name, run, strlen(run) + 1);
    for (size_t n = strlen(name); n > 1 && name[n - 1] == '/'; n--)
        name[n - 1] = '\0';
    for (bool is_first = true; name[0] != '\0'; is_first = false) {
        const char *last = last_of(name);
        if (strcmp(last, "..") == 0)
            return false;
        if (strcmp(last, ".") != 0) {
            if (!is_first && strcmp(last, last_of(start)) != 0)
                return false;
            drop_last(start);
        }
        if (last == name)
            break;
        name[last - name - 1] = '\0';
    }
    return start[0] == '/';
}

tt_status tt_paths_from(tt_settings *settings, const char *folder,
                        tt_arena *arena, const char **start_out)
{
    // The last two may also be names that are no files ("bytes", a model's name).
    static const char *const keys[] = {"data.path",      "data.val",
                                       "data.labels",    "data.val_labels",
                                       "data.tokenizer", "init.from"};
    enum { MUST_BE_FILES = 4 };
    const tt_setting *run = tt_settings_find(settings, "run");
    char start[PATH_MAX];
    *start_out = "";
    if (run == NULL || !find_start(folder, run->value, start))
        return TT_OK;
    *start_out = tt_arena_strdup(arena, start);
    if (*start_out == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < (int)(sizeof keys / sizeof keys[0]); i++) {
        tt_setting *s = tt_settings_find(settings, keys[i]);
        if (s == NULL || s->value[0] == '\0' || s->value[0] == '/')
            continue;
        const char *path = tt_arena_printf(arena, "%s/%s", start, s->value);
        if (path == NULL)
            return TT_ERR_NOMEM;
        if (tt_file_exists(path) ||
            (i < MUST_BE_FILES && !tt_file_exists(s->value)))
            s->value = path;
    }
    return TT_OK;
}
