// doctor_machine - processor, memory, disk, limits.

#include "backend/cpu/isa.h"
#include "backend/machine.h"
#include "cli/doctor/doctor.h"
#include "cli/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

static const int64_t megabyte = 1000000;

static void look_at_processor(tt_doctor *d)
{
    char name[256];
    struct utsname system = {0};
    tt_finding *f = tt__doctor_add(d, "processor");
    tt_machine_cpu(name, sizeof name);
    if (uname(&system) != 0)
        snprintf(system.machine, sizeof system.machine, "?");
    tt_str_addf(&f->value, "%s (%s)", name[0] != '\0' ? name : "unknown",
                system.machine);
    f = tt__doctor_add(d, "cores");
    tt_str_addf(&f->value, "%d usable of %ld", tt_machine_cores(),
                sysconf(_SC_NPROCESSORS_ONLN));
}

// The interesting words of the line "flags" in /proc/cpuinfo.
static void add_flags(tt_str *out)
{
    static const char *const wanted[] = {
        "sse4_2",   "avx",         "avx2",        "fma",
        "f16c",     "avx512f",     "avx512_vnni", "avx512_bf16",
        "avx_vnni", "avx512_fp16", "amx_tile",    "amx_bf16"};
    char line[8192] = "";
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (file == NULL)
        return;
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "flags", 5) == 0)
            break;
    (void)fclose(file);
    line[strcspn(line, "\n")] = '\0';
    for (char *save = NULL, *word = strtok_r(line, " \t:", &save); word != NULL;
         word = strtok_r(NULL, " \t:", &save))
        for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
            if (strcmp(word, wanted[i]) == 0)
                tt_str_addf(out, "%s%s", out->n > 0 ? " " : "", word);
}

static void look_at_kernels(tt_doctor *d)
{
    tt_finding *f = tt__doctor_add(d, "instructions");
    add_flags(&f->value);
    if (f->value.n == 0)
        tt_str_add(&f->value, "unknown");
    const tt_isa used = tt_isa_used(), here = tt_isa_here();
    f = tt__doctor_add(d, "kernels");
    tt_str_addf(&f->value, "%s: %s", tt_isa_name[used], tt_isa_doc[used]);
    if (used < here) {
        f->level = TT_FINDING_NOTE;
        tt_str_addf(&f->value, "; limited, the processor has %s: %s",
                    tt_isa_name[here], tt_isa_doc[here]);
        tt_str_add(&f->fix, "leave out isa= and unset TUTTI_ISA");
    } else if (used == TT_ISA_BASE) {
        f->level = TT_FINDING_NOTE;
        tt_str_add(&f->fix, "an x86-64 processor with AVX2 is several times "
                            "faster");
    }
}

static void look_at_memory(tt_doctor *d)
{
    const int64_t bytes = tt_machine_memory();
    tt_finding *f = tt__doctor_add(d, "memory");
    if (bytes <= 0) {
        f->level = TT_FINDING_NOTE;
        tt_str_add(&f->value, "unknown: /proc/meminfo cannot be read");
        return;
    }
    tt_add_bytes(&f->value, bytes);
    tt_str_add(&f->value, " free");
    if (bytes < 200 * megabyte) {
        f->level = bytes < 32 * megabyte ? TT_FINDING_MISSING : TT_FINDING_NOTE;
        tt_str_add(&f->fix,
                   "end other programs; small models need some 100 MB");
    }
}

static void look_at_space(tt_doctor *d, const char *name, const char *path,
                          int64_t few, const char *fix)
{
    struct statvfs s = {0};
    tt_finding *f = tt__doctor_add(d, name);
    if (statvfs(path, &s) != 0) {
        f->level = TT_FINDING_NOTE;
        tt_str_addf(&f->value, "%s: %s", path, strerror(errno));
        tt_str_add(&f->fix, fix);
        return;
    }
    const int64_t free_bytes = (int64_t)(s.f_bavail * s.f_frsize);
    tt_add_bytes(&f->value, free_bytes);
    tt_str_add(&f->value, " free of ");
    tt_add_bytes(&f->value, (int64_t)(s.f_blocks * s.f_frsize));
    if (free_bytes < few) {
        f->level = TT_FINDING_NOTE;
        tt_str_add(&f->fix, fix);
    }
}

// Runs go to the current folder: does it exist, and can it be written?
static void look_at_writing(tt_doctor *d)
{
    char name[] = "./tutti-doctor-XXXXXX";
    char folder[4096];
    tt_finding *f = tt__doctor_add(d, "writing");
    if (getcwd(folder, sizeof folder) == NULL)
        snprintf(folder, sizeof folder, "the current folder");
    const int fd = mkstemp(name);
    const bool is_written = fd >= 0 && write(fd, "x", 1) == 1;
    const int why = errno;
    if (fd >= 0) {
        (void)close(fd);
        (void)unlink(name);
    }
    if (is_written) {
        tt_term_add_foreign(folder, false, &f->value);
        return;
    }
    f->level = TT_FINDING_MISSING;
    tt_str_add(&f->value, "cannot write to ");
    tt_term_add_foreign(folder, false, &f->value);
    tt_str_addf(&f->value, ": %s", strerror(why));
    tt_str_add(&f->fix, "cd to a folder of yours, or say run=FOLDER");
}

static void add_limit(tt_str *out, const char *name, int which, bool is_bytes)
{
    struct rlimit limit = {0};
    if (getrlimit((__rlimit_resource_t)which, &limit) != 0)
        return;
    tt_str_addf(out, "%s%s ", out->n > 0 ? ", " : "", name);
    if (limit.rlim_cur == RLIM_INFINITY)
        tt_str_add(out, "unlimited");
    else if (is_bytes)
        tt_add_bytes(out, (int64_t)limit.rlim_cur);
    else
        tt_str_addf(out, "%llu", (unsigned long long)limit.rlim_cur);
}

static void look_at_limits(tt_doctor *d)
{
    struct rlimit files = {0}, space = {0};
    tt_finding *f = tt__doctor_add(d, "limits");
    add_limit(&f->value, "open files", RLIMIT_NOFILE, false);
    add_limit(&f->value, "processes", RLIMIT_NPROC, false);
    add_limit(&f->value, "address space", RLIMIT_AS, true);
    add_limit(&f->value, "file size", RLIMIT_FSIZE, true);
    add_limit(&f->value, "locked memory", RLIMIT_MEMLOCK, true);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < 256) {
        f->level = TT_FINDING_NOTE;
        tt_str_add(&f->fix, "data in many shards needs more: ulimit -n 1024");
    } else if (getrlimit(RLIMIT_AS, &space) == 0 &&
               space.rlim_cur != RLIM_INFINITY) {
        f->level = TT_FINDING_NOTE;
        tt_str_add(&f->fix, "models may need more: ulimit -v unlimited");
    }
}

void tt__doctor_machine(tt_doctor *d)
{
    look_at_processor(d);
    look_at_kernels(d);
    look_at_memory(d);
    look_at_space(d, "disk", ".", 1000 * megabyte,
                  "checkpoints need space: remove some, or say run=FOLDER on "
                  "another disk");
    look_at_space(d, "/dev/shm", "/dev/shm", 64 * megabyte,
                  "in a container: start it with --shm-size=1g");
    look_at_writing(d);
    look_at_limits(d);
}
