// registry - the only file that names every schedule.

#include "pipe/pipe.h"

#include <string.h>

#define TT_PIPE(name) extern const tt_pipe_def tt_pipe_##name;
#include "pipe/list.h"
#undef TT_PIPE

static const tt_pipe_def *const all[] = {
#define TT_PIPE(name) &tt_pipe_##name,
#include "pipe/list.h"
#undef TT_PIPE
};

enum { N_ALL = sizeof(all) / sizeof(all[0]) };

const tt_pipe_def *const *tt_pipe_all(int *n)
{
    *n = N_ALL;
    return all;
}

const tt_pipe_def *tt_pipe_find(const char *name)
{
    for (int i = 0; i < N_ALL; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}
