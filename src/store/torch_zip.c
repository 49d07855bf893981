// torch_zip - the directory of a zip archive whose files are not compressed, as
// torch.save writes it. The directory is at the end of the file. Sizes and offsets
// of more than 32 bits are in extra fields (zip64). All of them are checked against
// the file's length before they are used.

#include "store/torch_parts.h"

#include <stdlib.h>
#include <string.h>

enum {
    END = 0x06054b50,
    END64 = 0x06064b50,
    LOCATOR64 = 0x07064b50,
    CENTRAL = 0x02014b50,
    LOCAL = 0x04034b50,
    END_BYTES = 22,
    LOCATOR_BYTES = 20,
    END64_BYTES = 56,
    CENTRAL_BYTES = 46,
    LOCAL_BYTES = 30,
    MAX_COMMENT = 65535,
};

typedef struct archive {
    const unsigned char *at;
    int64_t n;
    const char *name;
    tt_arena *arena;
} archive;

static uint64_t load(const unsigned char *p, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes; i-- > 0;)
        value = value << 8 | p[i];
    return value;
}

static tt_status damaged(const archive *a, const char *what)
{
    return tt_fail(TT_ERR_ARG, "%s: damaged archive: %s", a->name, what);
}

// Whether [from, from + bytes) is inside.
static bool is_inside(const archive *a, uint64_t from, uint64_t bytes)
{
    return from <= (uint64_t)a->n && bytes <= (uint64_t)a->n - from;
}

typedef struct directory {
    uint64_t n, bytes, at;
} directory;

static tt_status read_end64(const archive *a, int64_t end, directory *d)
{
    const int64_t locator = end - LOCATOR_BYTES;
    if (locator < 0 || load(a->at + locator, 4) != LOCATOR64)
        return damaged(a, "its directory has no sizes");
    const uint64_t at = load(a->at + locator + 8, 8);
    if (!is_inside(a, at, END64_BYTES) || load(a->at + at, 4) != END64)
        return damaged(a, "its directory has no sizes");
    d->n = load(a->at + at + 32, 8);
    d->bytes = load(a->at + at + 40, 8);
    d->at = load(a->at + at + 48, 8);
    return TT_OK;
}

static tt_status find_directory(const archive *a, directory *d)
{
    int64_t end = a->n - END_BYTES;
    const int64_t least = end > MAX_COMMENT ? end - MAX_COMMENT : 0;
    while (end >= least && load(a->at + end, 4) != END)
        end--;
    if (end < least)
        return damaged(a, "it has no directory");
    d->n = load(a->at + end + 10, 2);
    d->bytes = load(a->at + end + 12, 4);
    d->at = load(a->at + end + 16, 4);
    if (d->n == UINT16_MAX || d->bytes == UINT32_MAX || d->at == UINT32_MAX)
        TT_TRY(read_end64(a, end, d));
    if (!is_inside(a, d->at, d->bytes) || d->n > d->bytes / CENTRAL_BYTES)
        return damaged(a, "its directory is not in it");
    return TT_OK;
}

// Replaces numbers that were too large for 32 bits. The extra field has only these,
// in the order of the header.
static void read_extra(const unsigned char *extra, int64_t n,
                       uint64_t *const value[3])
{
    while (n >= 4) {
        const int64_t bytes = (int64_t)load(extra + 2, 2);
        if (bytes > n - 4)
            return;
        if (load(extra, 2) == 1) {
            int64_t at = 0;
            for (int i = 0; i < 3; i++)
                if (*value[i] == UINT32_MAX && at + 8 <= bytes) {
                    *value[i] = load(extra + 4 + at, 8);
                    at += 8;
                }
        }
        extra += 4 + bytes;
        n -= 4 + bytes;
    }
}

// Reads one entry of the directory; `left` bytes remain. Returns its length.
static tt_status read_entry(const archive *a, const unsigned char *p,
                            uint64_t left, tt__zip_entry *out,
                            uint64_t *bytes_out)
{
    if (left < CENTRAL_BYTES || load(p, 4) != CENTRAL)
        return damaged(a, "an entry of its directory is none");
    const uint64_t name = load(p + 28, 2), extra = load(p + 30, 2);
    *bytes_out = CENTRAL_BYTES + name + extra + load(p + 32, 2);
    if (*bytes_out > left)
        return damaged(a, "an entry of its directory is cut off");
    uint64_t packed = load(p + 20, 4), bytes = load(p + 24, 4);
    uint64_t local = load(p + 42, 4);
    read_extra(p + CENTRAL_BYTES + name, (int64_t)extra,
               (uint64_t *const[3]){&bytes, &packed, &local});
    if (load(p + 10, 2) != 0 || packed != bytes)
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "%s: the archive is compressed, which torch.save does "
                       "not do",
                       a->name);
    if (!is_inside(a, local, LOCAL_BYTES) || load(a->at + local, 4) != LOCAL)
        return damaged(a, "a file of it is not where it should be");
    const uint64_t data = local + LOCAL_BYTES + load(a->at + local + 26, 2) +
                          load(a->at + local + 28, 2);
    if (!is_inside(a, data, bytes))
        return damaged(a, "a file of it is cut off");
    *out = (tt__zip_entry){.name =
                               tt_arena_printf(a->arena, "%.*s", (int)name,
                                               (const char *)p + CENTRAL_BYTES),
                           .data = (const char *)a->at + data,
                           .bytes = (int64_t)bytes};
    return out->name != NULL ? TT_OK : TT_ERR_NOMEM;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const tt__zip_entry *)a)->name,
                  ((const tt__zip_entry *)b)->name);
}

tt_status tt__torch_zip_read(const char *bytes, int64_t n, const char *name,
                             tt_arena *arena, tt__torch_zip *out)
{
    const archive a = {(const unsigned char *)bytes, n, name, arena};
    directory d = {0};
    if (n < END_BYTES)
        return damaged(&a, "it has no directory");
    TT_TRY(find_directory(&a, &d));
    out->entry =
        tt_arena_alloc(arena, ((int64_t)d.n + 1) * (int64_t)sizeof *out->entry);
    if (out->entry == NULL)
        return TT_ERR_NOMEM;
    uint64_t at = 0;
    for (out->n = 0; out->n < (int64_t)d.n; out->n++) {
        uint64_t length = 0;
        TT_TRY(read_entry(&a, a.at + d.at + at, d.bytes - at,
                          &out->entry[out->n], &length));
        at += length;
    }
    qsort(out->entry, (size_t)out->n, sizeof *out->entry, by_name);
    return TT_OK;
}

const tt__zip_entry *tt__torch_zip_find(const tt__torch_zip *zip,
                                        const char *name)
{
    const tt__zip_entry key = {.name = name};
    return bsearch(&key, zip->entry, (size_t)zip->n, sizeof key, by_name);
}
