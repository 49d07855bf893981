// folders - names of run folders, and what --fresh and --fork do with them.
//
// Nothing here deletes. --fresh renames the old run to FOLDER.1, --fork makes a new
// folder. A folder is taken for a run only if it has the marks of one; a folder of
// something else is never moved or written into.

#include "train/folders.h"

#include "base/file.h"
#include "store/checkpoint.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TRIES = 10000 };

tt_status tt_run_default_folder(const char *file, const char *model,
                                tt_arena *arena, const char **folder_out)
{
    const char *name = file != NULL ? file : model;
    const char *slash = strrchr(name, '/');
    if (slash != NULL && slash[1] != '\0')
        name = slash + 1;
    const char *dot = file != NULL ? strrchr(name, '.') : NULL;
    const int n =
        (int)(dot != NULL && dot > name ? (size_t)(dot - name) : strlen(name));
    *folder_out = tt_arena_printf(arena, "runs/%.*s", n, name);
    return *folder_out != NULL ? TT_OK : TT_ERR_NOMEM;
}

bool tt_run_has_checkpoint(const char *folder)
{
    tt_checkpoint *checkpoint = NULL;
    const tt_checkpoint_search search = {.leaves_data = true,
                                         .limit = INT64_MAX};
    tt_str notes = {0};
    const bool is_there =
        tt_checkpoint_read(folder, &search, &notes, &checkpoint) == TT_OK &&
        checkpoint != NULL;
    tt_checkpoint_close(checkpoint);
    tt_str_fini(&notes);
    return is_there;
}

// Without the slashes at the end, so that another ending can be put there.
static char *trimmed(const char *folder, tt_arena *arena)
{
    char *name = tt_arena_strdup(arena, folder);
    size_t n = name != NULL ? strlen(name) : 0;
    while (n > 1 && name[n - 1] == '/')
        name[--n] = '\0';
    return name;
}

static tt_status no_free_name(const char *folder)
{
    return tt_fail(TT_ERR_IO,
                   "%s: %d names beside it are taken; set run=FOLDER", folder,
                   MAX_TRIES);
}

static tt_status count_name(void *user, const char *name)
{
    int64_t *n = user;
    (void)name;
    (*n)++;
    return TT_OK;
}

// Whether training has been here. It makes the checkpoints folder first, then
// these.
static bool is_run(const char *folder, tt_arena *arena)
{
    static const char *const marks[] = {"checkpoints/.lock", "metrics.jsonl",
                                        "checkpoints/latest"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const char *path = tt_arena_printf(arena, "%s/%s", folder, marks[i]);
        if (path != NULL && tt_file_exists(path))
            return true;
    }
    return false;
}

typedef struct inside {
    const char *folder;
    tt_arena *arena;
    const char *found; // NULL: no run yet
} inside;

static tt_status look_inside(void *user, const char *name)
{
    inside *in = user;
    const char *path = tt_arena_printf(in->arena, "%s/%s", in->folder, name);
    if (path == NULL)
        return TT_ERR_NOMEM;
    if (in->found == NULL && tt_file_is_folder(path) && is_run(path, in->arena))
        in->found = path;
    return TT_OK;
}

// Refuses a folder that contains other runs: it would be moved with all of them.
static tt_status check_holds_no_run(const char *folder, tt_arena *arena)
{
    inside in = {.folder = folder, .arena = arena};
    TT_TRY(tt_file_each(folder, look_inside, &in));
    return in.found == NULL
               ? TT_OK
               : tt_fail(TT_ERR_ARG,
                         "run=%s: this folder holds other runs, as %s; name a "
                         "folder for this one alone",
                         folder, in.found);
}

// Refuses a folder with files that training would overwrite.
static tt_status check_is_free(const char *folder, tt_arena *arena)
{
    static const char *const names[] = {"config.yaml", "log.txt", "report.html",
                                        "facts.json", "ranks.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = tt_arena_printf(arena, "%s/%s", folder, names[i]);
        if (path == NULL)
            return TT_ERR_NOMEM;
        if (tt_file_exists(path))
            return tt_fail(TT_ERR_ARG,
                           "run=%s: this folder is not a run's, and training "
                           "would write over its %s; name another folder",
                           folder, names[i]);
    }
    return TT_OK;
}

// Refuses the folder one is in, and those above it: "." or "/".
static tt_status check_is_elsewhere(const char *folder)
{
    char here[PATH_MAX], there[PATH_MAX];
    if (realpath(".", here) == NULL || realpath(folder, there) == NULL)
        return TT_OK;
    const size_t n = strcmp(there, "/") == 0 ? 0 : strlen(there);
    if (strncmp(here, there, n) != 0 || (here[n] != '/' && here[n] != '\0'))
        return TT_OK;
    return tt_fail(TT_ERR_ARG,
                   "run=%s: this is the folder you are in%s; name a new folder "
                   "for the run, as run=runs/NAME",
                   folder, here[n] == '\0' ? "" : ", or one above it");
}

static tt_status find_folder(void *user, const char *name)
{
    inside *in = user;
    if (in->found != NULL || strcmp(name, "checkpoints") == 0 ||
        strcmp(name, "lost+found") == 0)
        return TT_OK;
    const char *path = tt_arena_printf(in->arena, "%s/%s", in->folder, name);
    if (path == NULL)
        return TT_ERR_NOMEM;
    if (tt_file_is_folder(path))
        in->found = path;
    return TT_OK;
}

// Refuses a folder with folders in it: it is a home, a project or a part of the system,
// and not a place that was made for a run.
static tt_status check_is_no_home(const char *folder, tt_arena *arena)
{
    inside in = {.folder = folder, .arena = arena};
    TT_TRY(tt_file_each(folder, find_folder, &in));
    return in.found == NULL
               ? TT_OK
               : tt_fail(TT_ERR_ARG,
                         "run=%s: this folder is not a run's and has others in "
                         "it, as %s; name a new folder for the run",
                         folder, in.found);
}

tt_status tt_run_check_folder(const char *folder, tt_arena *arena)
{
    if (!tt_file_is_folder(folder) || is_run(folder, arena))
        return TT_OK;
    TT_TRY(check_holds_no_run(folder, arena));
    TT_TRY(check_is_elsewhere(folder));
    TT_TRY(check_is_no_home(folder, arena));
    return check_is_free(folder, arena);
}

// Whether there is a run to set aside. Anything else in its place is an error.
static tt_status look_at(const char *folder, tt_arena *arena, bool *is_run_out)
{
    int64_t n = 0;
    *is_run_out = is_run(folder, arena);
    if (*is_run_out)
        return check_holds_no_run(folder, arena);
    if (!tt_file_is_folder(folder))
        return tt_fail(TT_ERR_ARG,
                       "%s is no folder, so it is not moved away; name another "
                       "with run=FOLDER",
                       folder);
    TT_TRY(tt_file_each(folder, count_name, &n));
    if (n == 0)
        return TT_OK;
    return tt_fail(TT_ERR_ARG,
                   "%s is not the folder of a run, so --fresh does not move it "
                   "away; name another with run=FOLDER",
                   folder);
}

tt_status tt_run_check_aside(const char *folder, tt_arena *arena)
{
    bool has_run = false;
    return tt_file_exists(folder) ? look_at(folder, arena, &has_run) : TT_OK;
}

tt_status tt_run_set_aside(const char *folder, tt_arena *arena,
                           const char **aside_out)
{
    const tt_checkpoint_rules rules = {.keep = 1 << 30};
    tt_checkpoints *store = NULL;
    *aside_out = NULL;
    bool has_run = false;
    if (!tt_file_exists(folder))
        return TT_OK;
    TT_TRY(look_at(folder, arena, &has_run));
    if (!has_run)
        return TT_OK;
    const char *name = trimmed(folder, arena);
    const char *checkpoints = tt_arena_printf(arena, "%s/checkpoints", folder);
    if (name == NULL || checkpoints == NULL)
        return TT_ERR_NOMEM;
    if (tt_file_is_folder(checkpoints)) { // nobody may train there
        TT_TRY(tt_checkpoints_open(checkpoints, &rules, &store));
        tt_checkpoints_close(store);
    }
    for (int i = 1; i <= MAX_TRIES; i++) {
        const char *aside = tt_arena_printf(arena, "%s.%d", name, i);
        if (aside == NULL)
            return TT_ERR_NOMEM;
        if (tt_file_exists(aside))
            continue;
        TT_TRY(tt_file_rename(name, aside));
        *aside_out = aside;
        return TT_OK;
    }
    return no_free_name(folder);
}

static tt_status free_fork_name(const char *folder, tt_arena *arena,
                                const char **to_out)
{
    const char *name = trimmed(folder, arena);
    if (name == NULL)
        return TT_ERR_NOMEM;
    for (int i = 1; i <= MAX_TRIES; i++) {
        const char *to = i == 1 ? tt_arena_printf(arena, "%s-fork", name)
                                : tt_arena_printf(arena, "%s-fork%d", name, i);
        if (to == NULL)
            return TT_ERR_NOMEM;
        if (!tt_file_exists(to)) {
            *to_out = to;
            return TT_OK;
        }
    }
    return no_free_name(folder);
}

tt_status tt_run_fork(const char *folder, const char *fallback, tt_arena *arena,
                      tt_fork *fork_out)
{
    fork_out->from = folder;
    if (tt_run_has_checkpoint(folder))
        return free_fork_name(folder, arena, &fork_out->to);
    fork_out->to = folder;
    fork_out->from = fallback;
    if (strcmp(folder, fallback) != 0 && tt_run_has_checkpoint(fallback))
        return TT_OK;
    return tt_fail(TT_ERR_ARG, "%s has no checkpoint to fork from", folder);
}
