// file - bytes as a file, for readers that want a path.

#include "fuzz/fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];
static char path[128];

static void clean_up(void)
{
    (void)unlink(path);
    (void)rmdir(folder);
}

const char *tt_fuzz_file(const uint8_t *data, size_t n, const char *suffix)
{
    if (folder[0] == '\0') {
        snprintf(folder, sizeof folder, "/tmp/tutti-fuzz-XXXXXX");
        if (mkdtemp(folder) == NULL)
            abort();
        (void)atexit(clean_up);
    } else {
        (void)unlink(path);
    }
    snprintf(path, sizeof path, "%s/input%s", folder, suffix);
    const int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    if (fd < 0)
        abort();
    for (size_t done = 0; done < n;) {
        const ssize_t k = write(fd, data + done, n - done);
        if (k <= 0)
            abort();
        done += (size_t)k;
    }
    if (close(fd) != 0)
        abort();
    return path;
}
