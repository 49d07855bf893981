// doctor_software - which libraries are loaded, and what else is installed.

#include "cli/doctor/doctor.h"
#include "cli/launch/team.h"
#include "cli/term.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void look_at_threads(tt_doctor *d)
{
    static const char *const names[] = {"OMP_NUM_THREADS", "OMP_WAIT_POLICY",
                                        "OMP_PROC_BIND",   "OMP_PLACES",
                                        "GOMP_SPINCOUNT",  "GOMP_CPU_AFFINITY"};
    tt_finding *f = tt__doctor_add(d, "OpenMP");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value == NULL)
            continue;
        tt_str_addf(&f->value, "%s%s=", f->value.n > 0 ? " " : "", names[i]);
        tt_term_add_foreign(value, false, &f->value);
    }
}

// ---- libraries -----------------------------------------------------------

// The file name of a loaded library, as the system mapped it: with its version.
static bool find_loaded(const char *library, char *out, size_t n)
{
    char line[4096];
    bool found = false;
    FILE *file = fopen("/proc/self/maps", "re");
    if (file == NULL)
        return false;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        const char *slash = strrchr(line, '/');
        const size_t length = strlen(library);
        if (slash == NULL || strncmp(slash + 1, library, length) != 0 ||
            (slash[1 + length] != '.' && slash[1 + length] != '-'))
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(out, n, "%s", slash + 1);
        found = true;
    }
    (void)fclose(file);
    return found;
}

static void look_at_libraries(tt_doctor *d)
{
    static const char *const libraries[] = {
        "libdnnl",  "libgomp", "libyaml",   "libpcre2-8", "libjpeg",
        "libpng16", "libz",    "libxxhash", "libsqlite3"};
    char name[256];
    tt_finding *f = tt__doctor_add(d, "libraries");
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++)
        if (find_loaded(libraries[i], name, sizeof name)) {
            tt_str_add(&f->value, f->value.n > 0 ? " " : "");
            tt_term_add_foreign(name, false, &f->value);
        }
    if (f->value.n == 0)
        tt_str_add(&f->value, "none are loaded from files");
}

// ---- programs and data ---------------------------------------------------

// Where a program is on the PATH; false: nowhere.
static bool find_program(const char *program, char *out, size_t n)
{
    const char *path = getenv("PATH");
    while (path != NULL && *path != '\0') {
        const size_t length = strcspn(path, ":");
        const int used =
            snprintf(out, n, "%.*s/%s", (int)length, path, program);
        if (used > 0 && (size_t)used < n && length > 0 &&
            access(out, X_OK) == 0)
            return true;
        path += length + (path[length] == ':');
    }
    return false;
}

typedef struct optional {
    const char *name;
    const char *programs[4]; // any of them; names with a slash are files
    const char *absent, *fix;
} optional;

static const optional optionals[] = {
    {"MPI",
     {"mpirun", "mpiexec", "srun"},
     "no launcher; one machine needs none",
     "apt-get install -y openmpi-bin"},
    {"demo text",
     {"bible"},
     "not installed; `make demo` does it",
     "apt-get install -y bible-kjv bible-kjv-text"},
    {"demo images",
     {"/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz"},
     "not installed; `make demo` does it",
     "apt-get install -y dataset-fashion-mnist"},
};

static void look_for(tt_doctor *d, const optional *o)
{
    char path[4096];
    tt_finding *f = tt__doctor_add(d, o->name);
    for (int i = 0; i < 4 && o->programs[i] != NULL; i++) {
        const char *program = o->programs[i];
        const bool is_file = program[0] == '/';
        if (is_file)
            snprintf(path, sizeof path, "%s", program);
        if (is_file ? access(path, R_OK) == 0
                    : find_program(program, path, sizeof path)) {
            tt_term_add_foreign(path, false, &f->value);
            return;
        }
    }
    f->level = TT_FINDING_NOTE;
    tt_str_add(&f->value, o->absent);
    tt_str_add(&f->fix, o->fix);
}

static void look_at_plugins(tt_doctor *d)
{
    static const char *const flavours[] = {"openmpi", "mpich"};
    tt_finding *f = tt__doctor_add(d, "plug-ins");
    for (int i = 0; i < 2; i++) {
        tt_str path = {0};
        if (tt_cli_find_plugin(flavours[i], &path)) {
            tt_str_add(&f->value, f->value.n > 0 ? " " : "");
            tt_term_add_foreign(tt_str_text(&path), false, &f->value);
        }
        tt_str_fini(&path);
    }
    if (f->value.n > 0)
        return;
    f->level = TT_FINDING_NOTE;
    tt_str_add(&f->value, "none for MPI; one machine needs none");
    tt_str_add(&f->fix, "apt-get install -y libopenmpi-dev openmpi-bin, then "
                        "make again");
}

void tt__doctor_software(tt_doctor *d)
{
    look_at_threads(d);
    look_at_libraries(d);
    for (size_t i = 0; i < sizeof optionals / sizeof optionals[0]; i++)
        look_for(d, &optionals[i]);
    look_at_plugins(d);
}
