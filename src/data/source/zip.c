// zip - reads the directory at the end of an archive.
//
// A zip archive is read from its end: the last record says where the directory is, and
// the directory says where each member is. Sizes beyond 4 GiB stand in extra fields
// and in a second, 64-bit record. The fields, with their offsets in bytes:
//
//   end        "PK\5\6" ... u16 entries at 10, u32 bytes of the directory at 12, u32
//              its place at 16, u16 length of a comment at 20
//   with 64 bits: "PK\6\7" in the 20 bytes before, u64 place at 8 of "PK\6\6": u64
//              entries at 32, bytes at 40, place at 48
//   entry      "PK\1\2", u16 flags at 8, method at 10, u32 crc at 16, packed at 20,
//              bytes at 24, u16 lengths of name, extra, comment at 28, u32 place of
//              the member at 42, then these
//   member     "PK\3\4", u16 lengths of name and extra at 26, then these, contents

#include "data/source/zip.h"

#include "base/alloc.h"
#include "data/number.h"
#include "data/source/gzip.h"

#include <string.h>

enum { END = 22, END_64 = 56, LOCATOR_64 = 20, ENTRY = 46, LOCAL = 30 };

static int64_t u16_at(const uint8_t *p)
{
    return p[0] | p[1] << 8;
}

static tt_status damaged(const char *what)
{
    return tt_fail(TT_ERR_ARG, "the zip archive is damaged: %s", what);
}

// Whether `n` bytes are there from `at` on.
static bool has(const tt_zip *z, int64_t at, int64_t n)
{
    return at >= 0 && n >= 0 && n <= z->blob.n && at <= z->blob.n - n;
}

static tt_status read_end_64(tt_zip *z, int64_t end)
{
    const uint8_t *p = z->blob.p;
    const int64_t at = end - LOCATOR_64;
    if (!has(z, at, LOCATOR_64) || memcmp(p + at, "PK\6\7", 4) != 0)
        return TT_OK;
    const int64_t place = (int64_t)tt_u64_at(p + at + 8);
    if (!has(z, place, END_64) || memcmp(p + place, "PK\6\6", 4) != 0)
        return damaged("its 64-bit end is not where it should be");
    z->n = (int64_t)tt_u64_at(p + place + 32);
    z->at = (int64_t)tt_u64_at(p + place + 48);
    return TT_OK;
}

// A comment may follow the end, so it is looked for from the last place on.
static tt_status read_end(tt_zip *z)
{
    const uint8_t *p = z->blob.p;
    for (int64_t at = z->blob.n - END;
         at >= 0 && at >= z->blob.n - END - 0xffff; at--) {
        if (memcmp(p + at, "PK\5\6", 4) != 0 ||
            u16_at(p + at + 20) > z->blob.n - END - at)
            continue;
        z->n = u16_at(p + at + 10);
        z->at = tt_u32_at(p + at + 16);
        TT_TRY(read_end_64(z, at));
        return has(z, z->at, 0) && z->n >= 0
                   ? TT_OK
                   : damaged("its directory is not where it should be");
    }
    return tt_fail(TT_ERR_ARG, "no zip archive, or one that is cut short");
}

tt_status tt_zip_open(const char *path, tt_zip *zip_out)
{
    tt_zip zip = {0};
    TT_TRY(tt_blob_open(path, &zip.blob));
    const tt_status status = read_end(&zip);
    if (status != TT_OK) {
        tt_zip_close(&zip);
        return tt_fail_context(status, "%s", path);
    }
    zip.next = zip.at;
    *zip_out = zip;
    return TT_OK;
}

void tt_zip_close(tt_zip *zip)
{
    tt_blob_close(&zip->blob);
    *zip = (tt_zip){0};
}

// Sizes and places of 0xffffffff stand in an extra field, in this order.
static void read_extra(const uint8_t *p, int64_t n, int64_t *value[3])
{
    for (int64_t at = 0; at + 4 <= n;) {
        const int64_t length = u16_at(p + at + 2);
        if (length > n - at - 4)
            return;
        int64_t from = at + 4;
        for (int i = 0; u16_at(p + at) == 1 && i < 3; i++)
            if (*value[i] == UINT32_MAX && from + 8 <= at + 4 + length) {
                *value[i] = (int64_t)tt_u64_at(p + from);
                from += 8;
            }
        at += 4 + length;
    }
}

// The header before the contents has lengths of its own.
static tt_status find_contents(const tt_zip *z, tt_zip_member *m)
{
    if (!has(z, m->offset, LOCAL) ||
        memcmp(z->blob.p + m->offset, "PK\3\4", 4) != 0)
        return damaged("a member is not where it should be");
    const uint8_t *p = z->blob.p + m->offset;
    m->offset += LOCAL + u16_at(p + 26) + u16_at(p + 28);
    if (!has(z, m->offset, m->packed) || m->bytes < 0)
        return damaged("a member goes beyond its end");
    return TT_OK;
}

tt_status tt_zip_next(tt_zip *z, tt_zip_member *member_out, bool *has_one_out)
{
    *has_one_out = z->done < z->n;
    if (!*has_one_out)
        return TT_OK;
    const uint8_t *p = z->blob.p + z->next;
    if (!has(z, z->next, ENTRY) || memcmp(p, "PK\1\2", 4) != 0)
        return damaged("an entry of its directory is missing");
    const int64_t name_n = u16_at(p + 28), extra_n = u16_at(p + 30);
    const int64_t bytes = ENTRY + name_n + extra_n + u16_at(p + 32);
    if (!has(z, z->next, bytes))
        return damaged("its directory is cut short");
    tt_zip_member m = {.name = (const char *)p + ENTRY,
                       .name_n = name_n,
                       .packed = tt_u32_at(p + 20),
                       .bytes = tt_u32_at(p + 24),
                       .offset = tt_u32_at(p + 42),
                       .crc = tt_u32_at(p + 16),
                       .is_deflated = u16_at(p + 10) == 8};
    read_extra(p + ENTRY + name_n, extra_n,
               (int64_t *[]){&m.bytes, &m.packed, &m.offset});
    if ((u16_at(p + 8) & 1) != 0 || (!m.is_deflated && u16_at(p + 10) != 0))
        return tt_fail(TT_ERR_ARG, "a member is packed in a way that is not "
                                   "read, or encrypted");
    TT_TRY(find_contents(z, &m));
    if (!m.is_deflated && m.bytes != m.packed)
        return damaged("a member has two sizes");
    z->next += bytes;
    z->done++;
    *member_out = m;
    return TT_OK;
}

static tt_status unpack(const tt_zip *zip, const tt_zip_member *m,
                        uint8_t **memory_out)
{
    if (m->bytes > tt_inflate_most(m->packed))
        return damaged("a member says it is larger than it can be");
    uint8_t *memory = tt_alloc(m->bytes + 1);
    if (memory == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to unpack %lld bytes",
                       (long long)m->bytes);
    const tt_status status = tt_inflate(zip->blob.p + m->offset, m->packed,
                                        m->crc, memory, m->bytes);
    if (status == TT_OK)
        *memory_out = memory;
    else
        tt_free(memory);
    return status;
}

tt_status tt_zip_take(tt_zip *zip, const tt_zip_member *m, tt_blob *blob_out)
{
    tt_blob blob = {0};
    if (m->is_deflated) {
        uint8_t *memory = NULL;
        TT_TRY(unpack(zip, m, &memory));
        tt_blob_close(&zip->blob);
        blob.memory = memory;
        blob.p = memory;
    } else {
        blob = zip->blob;
        blob.p += m->offset;
    }
    blob.n = m->bytes;
    *blob_out = blob;
    zip->blob = (tt_blob){0};
    return TT_OK;
}
