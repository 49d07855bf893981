// machine - memory and cores, from /proc, /sys and the affinity mask.

#include "backend/machine.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

// The number after `key` in a file of "key number" lines, or the first number
// of the file when the key is empty; -1 without.
static int64_t read_number(const char *path, const char *key)
{
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return -1;
    char line[256];
    const size_t n = strlen(key);
    long long value = -1;
    while (fgets(line, sizeof(line), f) != NULL)
        if (strncmp(line, key, n) == 0 && sscanf(line + n, "%lld", &value) == 1)
            break;
    (void)fclose(f);
    return value;
}

// What the control group still allows; its page cache can be reclaimed. -1: no
// limit.
static int64_t group_memory(void)
{
    static const char *const files[][4] = {
        {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current",
         "/sys/fs/cgroup/memory.stat", "file "},
        {"/sys/fs/cgroup/memory/memory.limit_in_bytes",
         "/sys/fs/cgroup/memory/memory.usage_in_bytes",
         "/sys/fs/cgroup/memory/memory.stat", "total_cache "},
    };
    for (int i = 0; i < 2; i++) {
        const int64_t limit = read_number(files[i][0], "");
        const int64_t used = read_number(files[i][1], "");
        const int64_t cache = read_number(files[i][2], files[i][3]);
        if (limit <= 0 || used < 0)
            continue;
        const int64_t held = cache > 0 && cache < used ? used - cache : used;
        return limit > held ? limit - held : 0;
    }
    return -1;
}

int64_t tt_machine_memory(void)
{
    const int64_t kib = read_number("/proc/meminfo", "MemAvailable:");
    const int64_t group = group_memory();
    const int64_t host = kib > 0 ? kib * 1024 : 0;
    if (group < 0)
        return host;
    return host == 0 || group < host ? group : host;
}

int tt_machine_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return 1;
    const int n = CPU_COUNT(&set);
    return n > 0 ? n : 1;
}

void tt_machine_cpu(char *name_out, int64_t n)
{
    static const char key[] = "model name";
    char line[512];
    name_out[0] = '\0';
    FILE *f = fopen("/proc/cpuinfo", "re");
    if (f == NULL)
        return;
    while (fgets(line, sizeof(line), f) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, key, sizeof(key) - 1) != 0 || colon == NULL)
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(name_out, (size_t)n, "%s", colon + 1 + (colon[1] == ' '));
        break;
    }
    (void)fclose(f);
}
