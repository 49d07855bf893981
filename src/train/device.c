// device - see the header.

#include "train/device.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

// "cuda:1": the backend's name and a number; -1 without.
static tt_status parse(const tt_job *job, const tt_backend_def **def_out,
                       int32_t *number_out)
{
    const char *text = job->options.device;
    const char *colon = strchr(text, ':');
    char *end = NULL;
    const char *name =
        colon == NULL
            ? text
            : tt_arena_printf(job->arena, "%.*s", (int)(colon - text), text);
    if (name == NULL)
        return TT_ERR_NOMEM;
    *def_out = tt_backend_find(name);
    *number_out = -1;
    if (*def_out == NULL)
        return tt_fail(TT_ERR_ARG,
                       "unknown device \"%s\"; use cpu, cuda or ref", text);
    if (colon == NULL)
        return TT_OK;
    const long number = strtol(colon + 1, &end, 10);
    if (colon[1] < '0' || colon[1] > '9' || *end != '\0' || number > 9999)
        return tt_fail(TT_ERR_ARG,
                       "device=%s: behind the colon stands a number", text);
    if ((*def_out)->memory == NULL)
        return tt_fail(TT_ERR_ARG, "device=%s: there is only one; use %s", text,
                       name);
    *number_out = (int32_t)number;
    return TT_OK;
}

// What a rank says of its device.
typedef struct card {
    unsigned char id[TT_DEVICE_ID];
    int64_t free_bytes;
} card;

static int64_t free_of(tt_backend *backend)
{
    const tt_backend_def *def = backend->def;
    return def->free_bytes != NULL ? def->free_bytes(backend)
                                   : backend->target.memory_bytes;
}

// Looks when all have opened theirs, for that takes memory too.
static tt_status share(tt_job *job)
{
    const tt_peers *peers = &job->peers;
    card mine = {.free_bytes = free_of(job->backend)};
    card *all = tt_alloc(peers->size * (int64_t)sizeof *all);
    if (all == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to look at devices");
    memcpy(mine.id, job->backend->id, sizeof mine.id);
    const tt_status status =
        tt_peers_collect(peers, "devices", &mine, sizeof mine, all);
    int64_t least = mine.free_bytes;
    job->on_device = 0;
    for (int32_t r = 0; r < peers->size && status == TT_OK; r++) {
        if (memcmp(all[r].id, mine.id, sizeof mine.id) != 0)
            continue;
        job->on_device++;
        least = all[r].free_bytes < least ? all[r].free_bytes : least;
    }
    tt_free(all);
    if (status == TT_OK)
        job->backend->target.memory_bytes = least / job->on_device;
    return status;
}

tt_status tt__job_open_device(tt_job *job, const char *cache)
{
    const tt_peers *peers = &job->peers;
    const tt_backend_def *def = NULL;
    const int threads = (int)job->options.threads;
    tt_backend_options options = {.n_threads =
                                      threads > 0 ? threads : peers->cores,
                                  .exact = job->options.exact,
                                  .launch = !job->options.graphs,
                                  .cache = cache,
                                  .local = peers->local};
    TT_TRY(parse(job, &def, &options.number));
    tt_status status = tt_backend_open(def, &options, &job->backend);
    job->on_device = 1;
    if (def->memory == NULL || peers->size == 1 || peers->wire == NULL)
        return status;
    TT_TRY(tt_peers_agree(peers, "opening the device", status));
    return share(job);
}
