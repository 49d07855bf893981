// Ranges of a file that somebody else has described: read exactly, and only from
// that very file.

#include "base/file.h"
#include "store/span.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/tutti-span-XXXXXX";
static char path[64];
static const float values[6] = {1, 2, 3, 4, 5, 6};

static tt_span_file make_file(void)
{
    const int64_t shape[] = {6};
    const tt_safetensor t = {
        .name = "w", .dtype = "F32", .ndim = 1, .shape = shape, .data = values};
    tt_safetensors *file = NULL;
    tt_span_file described;
    if (path[0] == '\0') {
        CHECK(mkdtemp(folder) != NULL);
        snprintf(path, sizeof path, "%s/w.safetensors", folder);
    }
    CHECK_OK(tt_safetensors_write(path, &t, 1, NULL, 0));
    CHECK_OK(tt_safetensors_open(path, &file));
    CHECK(strcmp(tt_safetensors_path(file), path) == 0);
    CHECK_OK(tt_span_describe(file, &described));
    tt_safetensors_close(file);
    return described;
}

static void refuses(const tt_span_file *file, const char *why)
{
    tt_span span;
    CHECK(tt_span_open(&span, file) != TT_OK);
    CHECK_MSG(strstr(tt_error_message(), why) != NULL, "%s",
              tt_error_message());
    CHECK(span.fd == -1);
}

TEST(span_reads_what_it_is_asked_for)
{
    const tt_span_file file = make_file();
    tt_span span;
    float got[2] = {0};
    CHECK_OK(tt_span_open(&span, &file));
    CHECK(span.bytes_read == file.header); // which tells that it is the same
    CHECK_OK(tt_span_read(&span, file.header + 8, sizeof got, got));
    CHECK(got[0] == 3 && got[1] == 4);
    CHECK(span.bytes_read == file.header + (int64_t)sizeof got);
    CHECK_OK(tt_span_read(&span, file.header, 0, got));
    CHECK(tt_span_read(&span, file.bytes - 4, sizeof got, got) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "ends at byte") != NULL);
    tt_span_close(&span);
    tt_span_close(&span);
    CHECK(tt_span_read(&span, 0, 4, got) == TT_ERR_IO);
    CHECK_OK(tt_file_remove(folder));
}

TEST(span_refuses_another_file)
{
    const tt_span_file file = make_file();
    tt_span_file other = file;
    other.hash[3] ^= 1;
    refuses(&other, "is another file there");
    other = file;
    other.bytes++;
    refuses(&other, "is another file there");
    other = file;
    other.nanoseconds++;
    refuses(&other, "is another file there");
    other = file;
    other.seconds++;
    refuses(&other, "is another file there");
    other = file;
    other.inode++;
    refuses(&other, "is another file there");
    other = file;
    other.header = file.bytes + 1;
    refuses(&other, "ends at byte");
    other = file;
    snprintf(other.path, sizeof other.path, "%s", folder);
    refuses(&other, "not a regular file");
    CHECK(unlink(path) == 0);
    refuses(&file, "cannot be opened");
    CHECK_OK(tt_file_remove(folder));
}
