// files - finding files by name, folder or pattern, and mapping them.
//
// Files are mapped and not read: data larger than memory works, the page cache is
// shared by the ranks of a host, and opening takes no time. One danger comes with it.
// If a mapped file becomes shorter, reading beyond its end kills the process (SIGBUS).
// So the length is checked before a sample is read (tt_blob_check). A file that was
// replaced by renaming is safe, because the old one stays mapped.

#include "data/files.h"

#include "base/alloc.h"
#include "base/file.h"
#include "data/source/gzip.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- bytes -------------------------------------------------------------------

static tt_status map_fd(int fd, tt_blob *blob)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return tt_fail(TT_ERR_IO, "%s", tt_file_reason(errno));
    if (!S_ISREG(info.st_mode))
        return tt_fail(TT_ERR_ARG, "not a regular file");
    if (info.st_size == 0)
        return TT_OK; // which cannot be mapped
    void *map = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return tt_fail(TT_ERR_IO, "cannot be mapped: %s",
                       tt_file_reason(errno));
    blob->p = blob->map = map;
    blob->n = blob->map_bytes = info.st_size;
    blob->device = (uint64_t)info.st_dev;
    blob->inode = (uint64_t)info.st_ino;
    return TT_OK;
}

// For tt_blob_check.
static tt_status keep_path(const char *path, tt_blob *blob)
{
    const int64_t n = (int64_t)strlen(path) + 1;
    blob->path = tt_alloc(n);
    if (blob->path == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a name");
    memcpy(blob->path, path, (size_t)n);
    return TT_OK;
}

tt_status tt_blob_check(const tt_blob *blob)
{
    struct stat info;
    // A file that was replaced or removed is still mapped whole.
    if (blob->map == NULL || blob->path == NULL ||
        stat(blob->path, &info) != 0 || (uint64_t)info.st_dev != blob->device ||
        (uint64_t)info.st_ino != blob->inode || info.st_size >= blob->map_bytes)
        return TT_OK;
    return tt_fail(TT_ERR_IO,
                   "%s became shorter while it was in use, from %lld to %lld "
                   "bytes; put it back and start again",
                   blob->path, (long long)blob->map_bytes,
                   (long long)info.st_size);
}

// The unpacked bytes take the place of the mapped ones.
static tt_status unpack(tt_blob *blob)
{
    uint8_t *memory = NULL;
    int64_t n = 0;
    TT_TRY(tt_gzip_unpack(blob->p, blob->n, &memory, &n));
    tt_blob_close(blob);
    blob->p = blob->memory = memory;
    blob->n = n;
    return TT_OK;
}

tt_status tt_blob_unpack(tt_blob *blob)
{
    const bool is_packed =
        blob->n >= 3 && memcmp(blob->p, "\x1f\x8b\x08", 3) == 0;
    return is_packed ? unpack(blob) : TT_OK;
}

tt_status tt_blob_open(const char *path, tt_blob *blob_out)
{
    tt_blob blob = {0};
    // A pipe is refused below and must not be waited for.
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return tt_fail(TT_ERR_IO, "%s: %s", path, tt_file_reason(errno));
    tt_status status = map_fd(fd, &blob);
    (void)close(fd);
    if (status == TT_OK)
        status = keep_path(path, &blob);
    if (status == TT_OK && tt_path_ends(path, ".gz"))
        status = unpack(&blob);
    if (status != TT_OK) {
        tt_blob_close(&blob);
        return tt_fail_context(status, "%s", path);
    }
    *blob_out = blob;
    return TT_OK;
}

void tt_blob_close(tt_blob *blob)
{
    if (blob->map != NULL)
        (void)munmap(blob->map, (size_t)blob->map_bytes);
    tt_free(blob->memory);
    tt_free(blob->path);
    *blob = (tt_blob){0};
}

// ---- names -------------------------------------------------------------------

const char *tt_path_join(tt_arena *arena, const char *folder, const char *name)
{
    const size_t n = strlen(folder);
    const bool has_slash = n > 0 && folder[n - 1] == '/';
    return tt_arena_printf(arena, "%s%s%s", folder, has_slash ? "" : "/", name);
}

const char *tt_path_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

bool tt_path_ends(const char *path, const char *suffix)
{
    const size_t n = strlen(path), k = strlen(suffix);
    return n >= k && strcmp(path + n - k, suffix) == 0;
}

static int compare(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

// Appends a path of the arena; the array doubles, and the old one stays in the arena.
static tt_status add(tt_paths *paths, const char *path, tt_arena *arena)
{
    const int64_t n = paths->n;
    if (path == NULL)
        return TT_ERR_NOMEM;
    if ((n & (n - 1)) == 0) { // a power of two, or none: full
        const char **v =
            tt_arena_alloc(arena, (n == 0 ? 1 : 2 * n) * (int64_t)sizeof *v);
        if (v == NULL)
            return TT_ERR_NOMEM;
        if (n > 0)
            memcpy(v, paths->v, (size_t)n * sizeof *v);
        paths->v = v;
    }
    paths->v[paths->n++] = path;
    return TT_OK;
}

static bool is_regular(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static tt_status list_folder(const char *folder, tt_arena *arena,
                             tt_paths *paths)
{
    tt_status status = TT_OK;
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return tt_fail(TT_ERR_IO, "%s: %s", folder, tt_file_reason(errno));
    for (const struct dirent *e = readdir(dir); e != NULL && status == TT_OK;
         e = readdir(dir)) {
        if (e->d_name[0] == '.')
            continue;
        const char *path = tt_path_join(arena, folder, e->d_name);
        if (path == NULL || is_regular(path))
            status = add(paths, path, arena);
    }
    (void)closedir(dir);
    return status;
}

// A folder that may not be read is not one without files. tt_fail has its own
// message for each thread, and glob calls this in the thread that called it.
static int fail_glob(const char *folder, int error)
{
    (void)tt_fail(TT_ERR_IO, "%s: %s", folder, tt_file_reason(error));
    return 1; // which ends the search
}

static tt_status list_pattern(const char *pattern, tt_arena *arena,
                              tt_paths *paths)
{
    glob_t found;
    tt_status status = TT_OK;
    const int result = glob(pattern, GLOB_BRACE, fail_glob, &found);
    if (result == GLOB_NOMATCH)
        return TT_OK;
    if (result == GLOB_ABORTED)
        return tt_fail_context(TT_ERR_IO, "%s", pattern);
    if (result != 0)
        return tt_fail(TT_ERR_NOMEM, "%s: no memory to search for it", pattern);
    for (size_t i = 0; i < found.gl_pathc && status == TT_OK; i++)
        if (is_regular(found.gl_pathv[i]))
            status =
                add(paths, tt_arena_strdup(arena, found.gl_pathv[i]), arena);
    globfree(&found);
    return status;
}

tt_status tt_paths_find(const char *setting, const char *path, tt_arena *arena,
                        tt_paths *paths_out)
{
    tt_paths paths = {0};
    if (path[0] == '\0')
        return tt_fail(TT_ERR_ARG, "%s is not set: the file or folder to read",
                       setting);
    const bool is_pattern = strpbrk(path, "*?[{") != NULL;
    if (tt_file_is_folder(path))
        TT_TRY(list_folder(path, arena, &paths));
    else if (tt_file_exists(path) || !is_pattern)
        TT_TRY(add(&paths, tt_arena_strdup(arena, path), arena));
    else
        TT_TRY(list_pattern(path, arena, &paths));
    if (paths.n == 0)
        return tt_fail(TT_ERR_ARG, "%s: %s", path,
                       is_pattern ? "no file has a name like that"
                                  : "there are no files in this folder");
    qsort(paths.v, (size_t)paths.n, sizeof *paths.v, compare);
    *paths_out = paths;
    return TT_OK;
}
