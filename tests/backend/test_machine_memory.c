// How much memory there is: the machine's, the control group's and those around it, on
// machines that are made of files.

#include "backend/machine.h"
#include "test.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MB = 1 << 20 };

static char root[64];

// A file of the machine, with the folders that it needs.
__attribute__((format(printf, 2, 3))) static void put(const char *path,
                                                      const char *format, ...)
{
    char full[512];
    va_list rest;
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = full + strlen(root) + 1;
         (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        (void)mkdir(full, 0777);
        *slash = '/';
    }
    FILE *f = fopen(full, "w");
    CHECK(f != NULL);
    va_start(rest, format);
    CHECK(vfprintf(f, format, rest) >= 0);
    va_end(rest);
    CHECK(fclose(f) == 0);
}

static void begin(void)
{
    snprintf(root, sizeof root, "/tmp/tutti-machine-XXXXXX");
    CHECK(mkdtemp(root) != NULL);
    put("/proc/meminfo",
        "MemTotal: 9000000 kB\nMemAvailable: 4096000 kB\nSwapTotal: 0 kB\n");
}

static void is(int64_t megabytes)
{
    const int64_t found = tt_machine_memory_at(root);
    char command[128];
    CHECK_MSG(found == megabytes * MB, "%.3f MB", (double)found / MB);
    snprintf(command, sizeof command, "rm -r %s", root);
    CHECK(system(command) == 0);
}

static void group_2(const char *path, int64_t limit, int64_t used,
                    int64_t cache)
{
    char name[256];
    snprintf(name, sizeof name, "/sys/fs/cgroup%s/memory.max", path);
    if (limit < 0)
        put(name, "max\n");
    else
        put(name, "%lld\n", (long long)(limit * MB));
    snprintf(name, sizeof name, "/sys/fs/cgroup%s/memory.current", path);
    put(name, "%lld\n", (long long)(used * MB));
    snprintf(name, sizeof name, "/sys/fs/cgroup%s/memory.stat", path);
    put(name,
        "anon 1\nfile %lld\nshmem 5\ninactive_file %lld\nactive_file %lld\n",
        (long long)(used * MB), (long long)(cache * MB - MB), (long long)MB);
}

static void group_1(const char *path, int64_t limit, int64_t used,
                    int64_t cache)
{
    char name[256];
    snprintf(name, sizeof name, "/sys/fs/cgroup/memory%s/memory.limit_in_bytes",
             path);
    put(name, "%lld\n",
        limit < 0 ? 9223372036854771712LL : (long long)(limit * MB));
    snprintf(name, sizeof name, "/sys/fs/cgroup/memory%s/memory.usage_in_bytes",
             path);
    put(name, "%lld\n", (long long)(used * MB));
    snprintf(name, sizeof name, "/sys/fs/cgroup/memory%s/memory.stat", path);
    put(name,
        "cache 0\ninactive_file 0\ntotal_cache %lld\n"
        "total_inactive_file %lld\ntotal_active_file %lld\n",
        (long long)(used * MB), (long long)(cache * MB - MB), (long long)MB);
}

TEST(memory_without_groups_is_the_machines)
{
    begin();
    is(4000);
    begin();
    put("/proc/self/cgroup", "0::/\n");
    put("/proc/self/mountinfo", "1 0 0:1 / / rw - ext4 /dev/sda rw\n");
    is(4000);
}

static void mount_2(const char *group, const char *top)
{
    begin();
    put("/proc/self/cgroup", "0::%s\n", group);
    put("/proc/self/mountinfo",
        "22 1 0:20 / /proc rw - proc proc rw\n"
        "35 22 0:30 %s /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 "
        "rw,nsdelegate\n",
        top);
}

// The root of all groups has no limit, and no such files.
TEST(memory_is_that_of_the_own_group)
{
    mount_2("/user.slice/job", "/");
    group_2("/user.slice", -1, 3000, 100);
    group_2("/user.slice/job", 300, 60, 20);
    is(260);
}

TEST(memory_is_the_least_of_all_groups_around)
{
    mount_2("/a/b/c", "/");
    group_2("/a", 1000, 990, 40);
    group_2("/a/b", -1, 500, 20);
    group_2("/a/b/c", 400, 100, 20);
    is(50);
    mount_2("/a/b", "/");
    group_2("/a", 100, 110, 4);
    group_2("/a/b", 400, 100, 20);
    CHECK(tt_machine_memory_at(root) == 1); // 0 would say that nobody knows
    mount_2("/a/bc", "/");
    group_2("/a/b", 10, 1, 1);
    group_2("/a/bc", 70, 1, 1);
    is(70);
}

// In a container the own group is what the mount point shows, whatever it is called.
TEST(memory_of_a_container)
{
    mount_2("/", "/");
    group_2("", 600, 110, 10);
    is(500);
    mount_2("/docker/abc", "/docker/abc");
    group_2("", 600, 110, 10);
    is(500);
    mount_2("/docker/abc/inner", "/docker/abc");
    group_2("", 600, 110, 10);
    group_2("/inner", 200, 110, 10);
    is(100);
    mount_2("/../other", "/");
    group_2("", 600, 110, 10);
    is(500);
}

static void mount_1(const char *group, const char *top)
{
    begin();
    put("/proc/self/cgroup",
        "9:name=systemd:/x\n5:cpu,cpuacct:/y\n4:hugetlb,memory:%s\n0::/\n",
        group);
    put("/proc/self/mountinfo",
        "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
        "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "35 31 0:32 %s /sys/fs/cgroup/memory rw - cgroup cgroup "
        "rw,hugetlb,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        top);
}

TEST(memory_of_groups_of_version_1)
{
    mount_1("/slurm/uid_1000/job_7", "/");
    group_1("", -1, 3000, 100);
    group_1("/slurm", -1, 3000, 100);
    group_1("/slurm/uid_1000", 2000, 1900, 5);
    group_1("/slurm/uid_1000/job_7", 1000, 30, 10);
    is(105);
    mount_1("/docker/abc", "/docker/abc");
    group_1("", 300, 60, 10);
    is(250);
}

static int64_t space(const char *limit)
{
    begin();
    put("/proc/self/limits",
        "Limit                     Soft Limit           Hard Limit\n"
        "Max address space         %s            unlimited            bytes\n",
        limit);
    put("/proc/self/statm", "%d 5 5 5 0 5 0\n",
        (int)(100 * MB / sysconf(_SC_PAGESIZE)));
    const int64_t found = tt_machine_space_at(root);
    is(4000);
    return found;
}

TEST(addresses_are_limited_for_each_process)
{
    CHECK(space("unlimited") == INT64_MAX);
    CHECK(space("524288000") == 400LL * MB);
    CHECK(space("1000") == 1);
}
