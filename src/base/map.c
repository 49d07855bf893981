// map - see map.h. A pipe or a device is refused and not waited for (O_NONBLOCK).

#include "base/map.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

tt_status tt_map_open(const char *path, tt_map *map_out)
{
    tt_status status = TT_OK;
    struct stat info;
    tt_map map = {.data = ""};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return tt_fail(TT_ERR_IO, "%s: cannot be opened: %s", path,
                       tt_file_reason(errno));
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        status = tt_fail(TT_ERR_IO, "%s: not a regular file", path);
        goto out;
    }
    map.bytes = info.st_size;
    if (map.bytes > 0) {
        void *data =
            mmap(NULL, (size_t)map.bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED)
            status = tt_fail(TT_ERR_IO, "%s: cannot be mapped: %s", path,
                             tt_file_reason(errno));
        map.data = data;
    }
    if (status == TT_OK)
        *map_out = map;
out:
    close(fd);
    return status;
}

void tt_map_close(tt_map *map)
{
    if (map->bytes > 0)
        munmap((void *)(uintptr_t)map->data, (size_t)map->bytes);
    *map = (tt_map){0};
}
