// registry - the only file that names every backend.

#include "backend/backend.h"

#include <string.h>

extern const tt_backend_def tt_backend_cpu;
extern const tt_backend_def tt_backend_cuda;
extern const tt_backend_def tt_backend_ref;

static const tt_backend_def *const all[] = {
    &tt_backend_cpu,
    &tt_backend_cuda,
    &tt_backend_ref,
};

enum { N_BACKENDS = sizeof(all) / sizeof(all[0]) };

const tt_backend_def *const *tt_backend_all(int *n)
{
    *n = N_BACKENDS;
    return all;
}

const tt_backend_def *tt_backend_find(const char *name)
{
    for (int i = 0; i < N_BACKENDS; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}
