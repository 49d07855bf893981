// tar - walks headers, reads no contents but those of headers about headers.
//
// A tar file is a list of (header of 512 bytes, contents padded to 512). There is no
// directory, so all headers are visited, each found from the size in the one before.
// Names of more than 100 bytes and sizes beyond 8 GiB do not fit into a header; pax
// and GNU put them into extra members before it. Headers are read through a window of
// 16 KiB, since a shard has many small members.

#include "data/source/tar.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 512, MAX_TEXT = 1 << 20, WINDOW = 16 << 10 };

typedef struct header { // as it is in the file
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8];
    char type, link[100], magic[6], version[2], user[32], group[32];
    char major[8], minor[8], prefix[155], rest[12];
} header;
_Static_assert(sizeof(header) == BLOCK, "a header is a block");

struct tt_tar {
    tt_str path;
    int fd;
    const char *memory; // instead of the file; NULL: none
    int64_t bytes, at;  // of the file; of the next header
    tt_str name;        // of the current member
    bool has_name;      // it came from a header before
    int64_t size;       // so did this, unless it is -1
    int64_t first, end; // of the bytes of the file that are in `window`
    char window[WINDOW];
};

static tt_status damaged(const tt_tar *tar, const char *what)
{
    return tt_fail(TT_ERR_ARG, "%s: the tar header at byte %lld %s",
                   tar->path.text, (long long)tar->at, what);
}

static tt_status read_file(const tt_tar *tar, int64_t offset, int64_t n,
                           void *to)
{
    if (tar->memory != NULL) {
        memcpy(to, tar->memory + offset, (size_t)n);
        return TT_OK;
    }
    for (int64_t done = 0; done < n;) {
        const ssize_t k = pread(tar->fd, (char *)to + done, (size_t)(n - done),
                                offset + done);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return tt_fail(TT_ERR_IO, "%s: byte %lld cannot be read: %s",
                           tar->path.text, (long long)(offset + done),
                           k < 0 ? tt_file_reason(errno)
                                 : "the file became shorter");
        done += k;
    }
    return TT_OK;
}

// Many small members fit into one window, and system calls are expensive.
static tt_status read_at(tt_tar *tar, int64_t offset, int64_t n, void *to)
{
    if (n > WINDOW)
        return read_file(tar, offset, n, to);
    if (offset < tar->first || offset + n > tar->end) {
        const int64_t left = tar->bytes - offset;
        const int64_t more = left < WINDOW ? left : WINDOW;
        tar->first = tar->end = 0;
        TT_TRY(read_file(tar, offset, more, tar->window));
        tar->first = offset;
        tar->end = offset + more;
    }
    memcpy(to, tar->window + (offset - tar->first), (size_t)n);
    return TT_OK;
}

static bool is_zero(const header *h)
{
    const char *p = (const char *)h;
    return p[0] == '\0' && memcmp(p, p + 1, BLOCK - 1) == 0;
}

// Octal digits among blanks and zeros, or big-endian bytes after a set bit.
static bool read_number(const char *field, int n, int64_t *value)
{
    const uint8_t *p = (const uint8_t *)field;
    uint64_t x = 0;
    int i = 0;
    if (p[0] == 0x80) {
        for (i = 1; i < n; i++) {
            if (x >> 55 != 0)
                return false;
            x = x << 8 | p[i];
        }
        *value = (int64_t)x;
        return true;
    }
    while (i < n && p[i] == ' ')
        i++;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
        x = x << 3 | (uint64_t)(p[i] - '0'); // at most 12 digits
    for (; i < n; i++)
        if (p[i] != ' ' && p[i] != '\0')
            return false;
    *value = (int64_t)x;
    return true;
}

// The sum of all bytes, its own field taken for blanks. Some old programs add
// signed bytes.
static bool has_good_sum(const header *h)
{
    const uint8_t *p = (const uint8_t *)h;
    int64_t stored = 0, sum = 0, sum_signed = 0;
    for (int i = 0; i < BLOCK; i++) {
        const bool is_own = i >= (int)offsetof(header, checksum) &&
                            i < (int)offsetof(header, type);
        sum += is_own ? ' ' : p[i];
        sum_signed += is_own ? ' ' : (int8_t)p[i];
    }
    return read_number(h->checksum, sizeof h->checksum, &stored) &&
           (stored == sum || stored == sum_signed);
}

static void set_name(tt_tar *tar, const header *h)
{
    tt_str_clear(&tar->name);
    if (memcmp(h->magic, "ustar", 6) == 0 && h->prefix[0] != '\0') {
        tt_str_add_bytes(&tar->name, h->prefix,
                         (int64_t)strnlen(h->prefix, sizeof h->prefix));
        tt_str_add(&tar->name, "/");
    }
    tt_str_add_bytes(&tar->name, h->name,
                     (int64_t)strnlen(h->name, sizeof h->name));
}

// One record, "LENGTH KEY=VALUE\n", of `n` bytes at `text`; how many it takes, or
// -1.
static int64_t use_record(tt_tar *tar, const char *text, int64_t n)
{
    int64_t length = 0, i = 0;
    for (; i < n && i < 8 && text[i] >= '0' && text[i] <= '9'; i++)
        length = length * 10 + (text[i] - '0');
    if (i == 0 || i == n || text[i] != ' ' || length <= i + 1 || length > n ||
        text[length - 1] != '\n')
        return -1;
    const char *key = text + i + 1;
    const char *value = memchr(key, '=', (size_t)(text + length - key));
    if (value == NULL)
        return -1;
    value++;
    const int64_t value_bytes = text + length - 1 - value;
    if (value - key == 5 && memcmp(key, "path=", 5) == 0) {
        tt_str_clear(&tar->name);
        tt_str_add_bytes(&tar->name, value, value_bytes);
        tar->has_name = true;
    } else if (value - key == 5 && memcmp(key, "size=", 5) == 0) {
        int64_t size = 0;
        for (int64_t k = 0; k < value_bytes; k++)
            if (value[k] < '0' || value[k] > '9' ||
                __builtin_mul_overflow(size, 10, &size) ||
                __builtin_add_overflow(size, value[k] - '0', &size))
                return -1;
        tar->size = size;
    }
    return length;
}

// A header that describes the next one: its contents are text.
static tt_status use_text(tt_tar *tar, char type, int64_t bytes)
{
    if (bytes > MAX_TEXT)
        return damaged(tar, "describes the next one at too great length");
    char *text = tt_alloc(bytes + 1);
    if (text == NULL)
        return tt_fail(TT_ERR_NOMEM, "there is no memory to read a tar header");
    tt_status status = read_at(tar, tar->at + BLOCK, bytes, text);
    if (status == TT_OK && type == 'L') {
        tt_str_clear(&tar->name);
        tt_str_add(&tar->name, text);
        tar->has_name = true;
    }
    for (int64_t i = 0; status == TT_OK && type == 'x' && i < bytes;) {
        const int64_t n = use_record(tar, text + i, bytes - i);
        if (n < 0)
            status = damaged(tar, "has a pax record that makes no sense");
        i += n;
    }
    tt_free(text);
    return status == TT_OK ? tt_str_status(&tar->name) : status;
}

static bool has_contents(char type)
{
    return !(type >= '1' && type <= '6'); // links, devices, folders
}

static tt_status read_header(tt_tar *tar, header *h, bool *is_end)
{
    *is_end = tar->at >= tar->bytes;
    if (*is_end)
        return TT_OK;
    if (tar->bytes - tar->at < BLOCK)
        return damaged(tar, "is truncated");
    TT_TRY(read_at(tar, tar->at, BLOCK, h));
    *is_end = is_zero(h);
    if (!*is_end && !has_good_sum(h))
        return damaged(tar, tar->at == 0
                                ? "has a wrong checksum; is this a tar file "
                                  "that is not compressed?"
                                : "has a wrong checksum");
    return TT_OK;
}

static tt_status contents_of(tt_tar *tar, const header *h, int64_t *bytes)
{
    *bytes = 0;
    if (!has_contents(h->type))
        return TT_OK;
    if (!read_number(h->size, sizeof h->size, bytes))
        return damaged(tar, "has a size that is not a number");
    const bool is_about_next =
        h->type == 'x' || h->type == 'g' || h->type == 'L' || h->type == 'K';
    if (tar->size >= 0 && !is_about_next)
        *bytes = tar->size;
    if (*bytes > tar->bytes - tar->at - BLOCK)
        return damaged(tar, "is of a file that goes beyond the end; the "
                            "archive is truncated");
    return TT_OK;
}

tt_status tt_tar_next(tt_tar *tar, tt_tar_member *member_out, bool *has_one_out)
{
    tar->has_name = false;
    tar->size = -1;
    for (;;) {
        header h;
        bool is_end = false;
        int64_t bytes = 0;
        TT_TRY(read_header(tar, &h, &is_end));
        if (is_end) {
            *has_one_out = false;
            return TT_OK;
        }
        TT_TRY(contents_of(tar, &h, &bytes));
        const int64_t offset = tar->at + BLOCK;
        const int64_t next = offset + (bytes + BLOCK - 1) / BLOCK * BLOCK;
        const bool is_file = h.type == '0' || h.type == '\0' || h.type == '7';
        if (h.type == 'x' || h.type == 'L') {
            TT_TRY(use_text(tar, h.type, bytes));
        } else if (is_file) {
            if (!tar->has_name)
                set_name(tar, &h);
            TT_TRY(tt_str_status(&tar->name));
            *member_out =
                (tt_tar_member){tt_str_text(&tar->name), offset, bytes};
            *has_one_out = true;
            tar->at = next;
            return TT_OK;
        } else if (h.type != 'g' && h.type != 'K') {
            tar->has_name = false; // that was about something else
            tar->size = -1;
        }
        tar->at = next;
    }
}

tt_status tt_tar_read(tt_tar *tar, const tt_tar_member *member, int64_t n,
                      void *to)
{
    return read_at(tar, member->offset, n, to);
}

static tt_status open_file(tt_tar *tar, const char *path)
{
    struct stat st;
    tar->fd = -1;
    tt_str_add(&tar->path, path);
    TT_TRY(tt_str_status(&tar->path));
    tar->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (tar->fd < 0 || fstat(tar->fd, &st) != 0)
        return tt_fail(TT_ERR_IO, "%s: %s", path, tt_file_reason(errno));
    if (!S_ISREG(st.st_mode))
        return tt_fail(TT_ERR_ARG, "%s is not a file", path);
    tar->bytes = st.st_size;
    return TT_OK;
}

static tt_status open_bytes(tt_tar *tar, const char *path, const void *bytes,
                            int64_t n)
{
    tar->fd = -1;
    tar->memory = bytes;
    tar->bytes = n;
    tt_str_add(&tar->path, path);
    return tt_str_status(&tar->path);
}

static tt_status open_tar(const char *path, const void *bytes, int64_t n,
                          tt_tar **tar_out)
{
    tt_tar *tar = tt_alloc(sizeof *tar);
    if (tar == NULL)
        return tt_fail(TT_ERR_NOMEM, "there is no memory to open %s", path);
    tt_status status =
        bytes != NULL ? open_bytes(tar, path, bytes, n) : open_file(tar, path);
    if (status == TT_OK && tar->bytes == 0)
        status =
            tt_fail(TT_ERR_ARG, "%s is empty; it should be a tar file", path);
    if (status != TT_OK) {
        tt_tar_close(tar);
        return status;
    }
    *tar_out = tar;
    return TT_OK;
}

tt_status tt_tar_open(const char *path, tt_tar **tar_out)
{
    return open_tar(path, NULL, 0, tar_out);
}

tt_status tt_tar_open_bytes(const char *path, const void *bytes, int64_t n,
                            tt_tar **tar_out)
{
    return open_tar(path, bytes, n, tar_out);
}

void tt_tar_close(tt_tar *tar)
{
    if (tar == NULL)
        return;
    if (tar->fd >= 0)
        (void)close(tar->fd);
    tt_str_fini(&tar->name);
    tt_str_fini(&tar->path);
    tt_free(tar);
}
