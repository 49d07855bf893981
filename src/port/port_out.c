// port_out - see the header.
//
// An export must never destroy somebody's files, and never leave half a model. So
// the target is checked first: it may be new, empty, or an earlier export, which is
// known by the first line of its config.yaml. Files are then written into a staging
// folder beside it, which is renamed at the end.
//
// Sometimes the target itself cannot be renamed: it is the current directory, or a
// mount point. Then the staging folder is inside the target, and files are moved
// one by one, which is not atomic; config.yaml comes first, so that what a crash
// leaves is still known as an export.

#include "port/port_out.h"

#include "base/file.h"
#include "store/llmc.h"
#include "weights/model_folder.h"
#include "weights/origin.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOK = 256 }; // first bytes, which say who wrote a file

// ---- what is there -------------------------------------------------------

static bool is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

// Whether the first bytes of a file contain `text`.
static bool says(const char *path, const char *text)
{
    char have[LOOK];
    const int fd = tt_file_open_read(path);
    if (fd < 0)
        return false;
    const int64_t n = tt_file_read_some(fd, have, LOOK, 0);
    (void)close(fd);
    return n > 0 && memmem(have, (size_t)n, text, strlen(text)) != NULL;
}

static bool is_of_export(const char *name)
{
    static const char *const own[] = {"config.yaml", "model.safetensors",
                                      "tokenizer.json"};
    for (int i = 0; i < 3; i++)
        if (strcmp(name, own[i]) == 0)
            return true;
    return tt_origin_is_name(name) || strncmp(name, ".tmp-", 5) == 0;
}

typedef struct survey {
    int n;
    char foreign[NAME_MAX + 1]; // a name that no export wrote
} survey;

static tt_status look_at(void *user, const char *name)
{
    survey *s = user;
    s->n++;
    if (s->foreign[0] == '\0' && !is_of_export(name))
        snprintf(s->foreign, sizeof s->foreign, "%s", name);
    return TT_OK;
}

static tt_status check_folder(const char *out, tt_arena *arena)
{
    survey s = {0};
    if (!tt_file_exists(out))
        return TT_OK;
    if (!tt_file_is_folder(out))
        return tt_fail(TT_ERR_ARG,
                       "out=%s is a file, and an export is a folder; name a "
                       "new one, such as out=%s-export",
                       out, out);
    TT_TRY(tt_file_each(out, look_at, &s));
    if (s.foreign[0] != '\0')
        return tt_fail(TT_ERR_ARG,
                       "out=%s holds %s, which is not of an export and would "
                       "be lost; name a new folder, such as out=%s/export",
                       out, s.foreign, out);
    const char *yaml = tt_arena_printf(arena, "%s/config.yaml", out);
    if (yaml == NULL)
        return TT_ERR_NOMEM;
    if (s.n > 0 && !says(yaml, TT_PORT_MARK))
        return tt_fail(TT_ERR_ARG,
                       "out=%s holds a model that `tutti export` did not "
                       "write; name a new folder, or remove this one first",
                       out);
    return TT_OK;
}

static tt_status check_file(const char *out, tt_port_format format)
{
    const bool is_llmc = format == TT_PORT_LLMC;
    const char *name = is_llmc ? "llmc" : "onnx";
    struct stat info;
    if (stat(out, &info) != 0)
        return TT_OK;
    if (S_ISDIR(info.st_mode))
        return tt_fail(TT_ERR_ARG,
                       "out=%s is a folder, and format=%s writes one file; "
                       "name it, as in out=%s/model.%s",
                       out, name, out, is_llmc ? "bin" : "onnx");
    if (!S_ISREG(info.st_mode) ||
        !(is_llmc ? tt_llmc_is(out) : says(out, "tutti")))
        return tt_fail(TT_ERR_ARG,
                       "out=%s is there already and is no earlier export with "
                       "format=%s; name a new file, or remove this one first",
                       out, name);
    return TT_OK;
}

tt_status tt_port_check_out(const char *out, const char *from,
                            tt_port_format format, tt_arena *arena)
{
    if (is_same_file(out, from))
        return tt_fail(TT_ERR_ARG,
                       "out=%s is where the model comes from; name another "
                       "place, such as out=%s-export",
                       out, out);
    if (format != TT_PORT_FOLDER)
        return check_file(out, format);
    if (tt_model_folder_was_run(out, arena))
        return tt_fail(TT_ERR_ARG,
                       "out=%s is the folder of a run, whose config.yaml would "
                       "be lost; name a new folder, such as out=%s-export",
                       out, out);
    return check_folder(out, arena);
}

// ---- placing -------------------------------------------------------------

static const char *last_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static const char *parent_of(const char *path, tt_arena *arena)
{
    const char *last = last_of(path);
    if (last == path)
        return ".";
    return tt_arena_printf(arena, "%.*s",
                           (int)(last - path) - (last - path > 1), path);
}

// The absolute path of a folder that exists; else the name without slashes at the
// end.
static const char *plain_name(const char *folder, tt_arena *arena)
{
    char full[PATH_MAX];
    size_t n = strlen(folder);
    if (realpath(folder, full) != NULL)
        return tt_arena_strdup(arena, full);
    while (n > 1 && folder[n - 1] == '/')
        n--;
    return tt_arena_printf(arena, "%.*s", (int)n, folder);
}

typedef struct leftovers {
    tt_arena *arena;
    const char *folder, *name; // ".tmp-NAME-"
} leftovers;

// Removes the staging folder of an earlier export whose process no longer exists.
static tt_status remove_leftover(void *user, const char *name)
{
    const leftovers *l = user;
    const size_t n = strlen(l->name);
    char *end = NULL;
    if (strncmp(name, l->name, n) != 0)
        return TT_OK;
    const long pid = strtol(name + n, &end, 10);
    const size_t digits = *end == '-' ? strspn(end + 1, "0123456789") : 0;
    if (pid <= 0 || digits == 0 || end[1 + digits] != '\0' ||
        kill((pid_t)pid, 0) == 0 || errno != ESRCH)
        return TT_OK;
    const char *path = tt_arena_printf(l->arena, "%s/%s", l->folder, name);
    return path != NULL ? tt_file_remove(path) : TT_ERR_NOMEM;
}

static tt_status make_staging(tt_port_out *out, const char *folder)
{
    char staging[PATH_MAX];
    const char *last = last_of(out->target);
    leftovers l = {out->arena, folder,
                   tt_arena_printf(out->arena, ".tmp-%s-", last)};
    const char *path = tt_arena_printf(out->arena, "%s/%s", folder, last);
    if (l.name == NULL || path == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt_file_each(folder, remove_leftover, &l));
    TT_TRY(tt_file_temporary(path, staging));
    TT_TRY(tt_file_make_folder(staging));
    out->staging = tt_arena_strdup(out->arena, staging);
    return out->staging != NULL ? TT_OK : TT_ERR_NOMEM;
}

// Whether the target must not be replaced by a rename: it is the current directory,
// or a file system of its own.
static bool must_stay(const char *target, const char *parent)
{
    struct stat a, b;
    return is_same_file(target, ".") || stat(target, &a) != 0 ||
           stat(parent, &b) != 0 || a.st_dev != b.st_dev;
}

tt_status tt_port_out_begin(const char *folder, tt_arena *arena,
                            tt_port_out *out)
{
    *out = (tt_port_out){.arena = arena,
                         .target = plain_name(folder, arena),
                         .is_there = tt_file_is_folder(folder)};
    if (out->target == NULL)
        return TT_ERR_NOMEM;
    // The nearest folder above that exists; the staging folder is made there.
    const char *parent = parent_of(out->target, arena);
    while (parent != NULL && !tt_file_exists(parent))
        parent = parent_of(parent, arena);
    if (parent == NULL)
        return TT_ERR_NOMEM;
    tt_status status = TT_ERR_STATE;
    out->is_inside = out->is_there && must_stay(out->target, parent);
    if (!out->is_inside)
        status = make_staging(out, parent);
    if (status != TT_OK && out->is_there) { // we may write into the folder only
        out->is_inside = true;
        status = make_staging(out, out->target);
    }
    return status == TT_OK ? status : tt_fail_context(status, "out=%s", folder);
}

static tt_status move_one(void *user, const char *name)
{
    const tt_port_out *out = user;
    const char *from = tt_arena_printf(out->arena, "%s/%s", out->staging, name);
    const char *to = tt_arena_printf(out->arena, "%s/%s", out->target, name);
    return from != NULL && to != NULL ? tt_file_rename(from, to) : TT_ERR_NOMEM;
}

static tt_status remove_old(void *user, const char *name)
{
    const tt_port_out *out = user;
    if (strncmp(name, ".tmp-", 5) == 0)
        return TT_OK;
    const char *path = tt_arena_printf(out->arena, "%s/%s", out->target, name);
    return path != NULL ? tt_file_remove(path) : TT_ERR_NOMEM;
}

// Moves the files one by one, config.yaml first; see above.
static tt_status move_in(tt_port_out *out)
{
    TT_TRY(tt_file_each(out->target, remove_old, out));
    tt_status status = move_one(out, "config.yaml");
    if (status == TT_OK)
        status = tt_file_each(out->staging, move_one, out);
    if (status == TT_OK)
        return tt_file_sync_folder(out->target);
    (void)tt_file_each(out->target, remove_old, out);
    return status;
}

// Replaces the old export. With an atomic exchange it is there until the new one
// is.
static tt_status put_over(tt_port_out *out)
{
    const tt_status status = tt_file_exchange(out->staging, out->target);
    if (status != TT_ERR_UNSUPPORTED)
        return status;
    char aside[PATH_MAX];
    TT_TRY(tt_file_temporary(out->target, aside));
    TT_TRY(tt_file_rename(out->target, aside));
    const tt_status placed = tt_file_rename(out->staging, out->target);
    // The old export gets its name back, or goes where the new one was.
    TT_TRY(tt_file_rename(aside, placed == TT_OK ? out->staging : out->target));
    return placed;
}

static tt_status place(tt_port_out *out)
{
    if (out->is_inside)
        return move_in(out);
    const char *parent = parent_of(out->target, out->arena);
    if (parent == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt_file_make_folder(parent));
    TT_TRY(out->is_there ? put_over(out)
                         : tt_file_rename(out->staging, out->target));
    return tt_file_sync_folder(parent);
}

tt_status tt_port_out_end(tt_port_out *out, tt_status status)
{
    if (status == TT_OK)
        status = place(out);
    // The staging folder now holds the old export, or nothing.
    if (status == TT_OK)
        return tt_file_remove(out->staging);
    char message[1024];
    snprintf(message, sizeof message, "%s", tt_error_message());
    tt_port_out_drop(out);
    return tt_fail(status, "%s", message);
}

void tt_port_out_drop(tt_port_out *out)
{
    if (out->staging != NULL)
        (void)tt_file_remove(out->staging);
}
