// scripts.c - shell scripts as tests.

#include "runner.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_CHARS = 512, HEAD_LINES = 10 };

// Scripts stay registered until exit, so their memory is never given back.
typedef struct script {
    tt_test test;
    char path[PATH_CHARS];
    struct script *next;
} script;

static script *scripts;

static void read_head(script *s)
{
    FILE *f = fopen(s->path, "r");
    if (f == NULL)
        return;
    char line[256];
    for (int i = 0; i < HEAD_LINES && fgets(line, sizeof(line), f); i++) {
        int seconds = 0;
        if (sscanf(line, "# deadline: %d", &seconds) == 1)
            s->test.seconds = seconds;
        if (strncmp(line, "# only: all", 11) == 0)
            s->test.all_only = true;
    }
    fclose(f);
}

static void add_script(const char *folder, const char *file)
{
    script *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return;
    snprintf(s->path, sizeof(s->path), "%s/%s", folder, file);
    s->test.name = s->path + strlen(folder) + 1;
    s->test.file = s->path;
    s->test.seconds = 60;
    read_head(s);
    s->next = scripts;
    scripts = s;
    tt_test_register(&s->test);
}

// Adds the scripts of a folder and of the folders in it.
void tt_test_add_scripts(const char *folder)
{
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return;
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        const char *dot = strrchr(e->d_name, '.');
        if (dot == NULL) {
            char inner[PATH_CHARS];
            snprintf(inner, sizeof(inner), "%s/%s", folder, e->d_name);
            tt_test_add_scripts(inner);
        } else if (strcmp(dot, ".sh") == 0) {
            add_script(folder, e->d_name);
        }
    }
    closedir(dir);
}
