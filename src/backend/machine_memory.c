// machine_memory - how much memory this process may take, from /proc and /sys.
//
// The answer is the smallest of several numbers:
//
//   MemAvailable          what the machine has left
//   limit - used          of the process's control group (cgroup)
//   limit - used          of every group around it, up to the mount point
//
// Each group counts the memory of all its processes. The file cache counts as used
// there, but the kernel gives it up when memory is needed, so it is subtracted.
// Versions 1 and 2 of control groups have the same numbers under different names. A
// machine may have both mounted, so both are read.

#include "backend/machine.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 4096 };

typedef struct words {
    const char *limit, *used, *cache[2]; // cache: lines of memory.stat
} words;

static const words version_1 = {"memory.limit_in_bytes",
                                "memory.usage_in_bytes",
                                {"total_inactive_file ", "total_active_file "}};
static const words version_2 = {
    "memory.max", "memory.current", {"inactive_file ", "active_file "}};

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

static int64_t number_in(const char *folder, const char *file, const char *key)
{
    char path[2 * LINE];
    const int n = snprintf(path, sizeof path, "%s/%s", folder, file);
    return n < (int)sizeof path ? read_number(path, key) : -1;
}

// ---- where the group is --------------------------------------------------

// Whether a list of words with ',' between them has this word.
static bool has_word(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = list; p != NULL; p = strchr(p, ',')) {
        p += *p == ',';
        if (strncmp(p, word, n) == 0 && (p[n] == ',' || p[n] == '\0'))
            return true;
    }
    return false;
}

// This process's group below the root of all groups: "/slurm/job_7".
static bool find_group(const char *root, bool is_first, char path[LINE])
{
    char file[LINE], line[LINE];
    bool is_there = false;
    snprintf(file, sizeof file, "%.3000s/proc/self/cgroup", root);
    FILE *f = fopen(file, "re");
    while (f != NULL && !is_there && fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *at = controllers == NULL ? NULL : strchr(controllers + 1, ':');
        if (at == NULL)
            continue;
        *at++ = '\0';
        is_there = is_first ? has_word(controllers + 1, "memory")
                            : controllers[1] == '\0';
        if (is_there)
            snprintf(path, LINE, "%s", at);
    }
    if (f != NULL)
        (void)fclose(f);
    return is_there;
}

typedef struct mount {
    char top[LINE]; // the group that is seen at the mount point
    char at[LINE];
} mount;

// 36 35 98:0 /top /at options optional-fields - type source options
static bool parse_mount(char *line, bool is_first, mount *m)
{
    char type[32] = "", options[LINE] = "";
    char *tail = strstr(line, " - ");
    if (tail == NULL || sscanf(tail, " - %31s %*s %4095s", type, options) != 2)
        return false;
    *tail = '\0';
    if (strcmp(type, is_first ? "cgroup" : "cgroup2") != 0 ||
        (is_first && !has_word(options, "memory")))
        return false;
    return sscanf(line, "%*s %*s %*s %4095s %4095s", m->top, m->at) == 2;
}

static bool find_mount(const char *root, bool is_first, mount *m)
{
    char file[LINE], line[2 * LINE];
    bool is_there = false;
    snprintf(file, sizeof file, "%.3000s/proc/self/mountinfo", root);
    FILE *f = fopen(file, "re");
    while (f != NULL && !is_there && fgets(line, sizeof line, f) != NULL)
        is_there = parse_mount(line, is_first, m);
    if (f != NULL)
        (void)fclose(f);
    return is_there;
}

// The group's path below the mount point. A container may see its own group there
// under a name that belongs to the machine outside.
static const char *below(const mount *m, const char *group)
{
    const size_t n = strcmp(m->top, "/") == 0 ? 0 : strlen(m->top);
    if (strncmp(group, m->top, n) != 0 ||
        (group[n] != '/' && group[n] != '\0') || strstr(group, "..") != NULL)
        return "";
    return group + n;
}

// ---- limits --------------------------------------------------------------

// What one group allows; -1: it has no limit.
static int64_t left_in(const char *folder, const words *w)
{
    const int64_t limit = number_in(folder, w->limit, "");
    const int64_t used = number_in(folder, w->used, "");
    int64_t held = used;
    if (limit < 0 || used < 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        const int64_t cache = number_in(folder, "memory.stat", w->cache[i]);
        held -= cache > 0 ? cache : 0;
    }
    held = held > 0 ? held : 0;
    return limit > held ? limit - held : 0;
}

static int64_t lesser(int64_t a, int64_t b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

// The least that the process's group and all groups around it allow; -1: no limit.
static int64_t group_memory(const char *root, bool is_first)
{
    char group[LINE], folder[4 * LINE];
    mount m = {0};
    if (!find_group(root, is_first, group) || !find_mount(root, is_first, &m))
        return -1;
    snprintf(folder, sizeof folder, "%s%s%s", root, m.at, below(&m, group));
    const size_t top = strlen(root) + strlen(m.at);
    const words *w = is_first ? &version_1 : &version_2;
    int64_t least = -1;
    for (size_t n = strlen(folder); n >= top;) {
        folder[n] = '\0';
        least = lesser(least, left_in(folder, w));
        const char *slash = strrchr(folder, '/');
        if (n == top || slash == NULL)
            break;
        n = (size_t)(slash - folder);
    }
    return least;
}

int64_t tt_machine_memory_at(const char *root)
{
    char path[LINE];
    snprintf(path, sizeof path, "%.3000s/proc/meminfo", root);
    const int64_t kib = read_number(path, "MemAvailable:");
    int64_t least = kib > 0 ? kib * 1024 : -1;
    least = lesser(least, group_memory(root, true));
    least = lesser(least, group_memory(root, false));
    // 0 means unknown to callers, so a group that is full reports one byte.
    return least == 0 ? 1 : least < 0 ? 0 : least;
}

int64_t tt_machine_space_at(const char *root)
{
    char path[LINE];
    snprintf(path, sizeof path, "%.3000s/proc/self/limits", root);
    const int64_t limit = read_number(path, "Max address space ");
    snprintf(path, sizeof path, "%.3000s/proc/self/statm", root);
    const int64_t pages = read_number(path, "");
    if (limit < 0)
        return INT64_MAX;
    const int64_t used = pages > 0 ? pages * sysconf(_SC_PAGESIZE) : 0;
    return limit > used ? limit - used : 1;
}

int64_t tt_machine_memory(void)
{
    return tt_machine_memory_at("");
}

int64_t tt_machine_space(void)
{
    return tt_machine_space_at("");
}
