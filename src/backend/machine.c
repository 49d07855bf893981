// machine - cores and the processor's name, from /proc and the affinity mask.

#include "backend/machine.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

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
