// device - opens the device of a rank, and settles with the other ranks how the
// devices are shared.
//
// Three things must be agreed on before anything is planned:
//
// The instruction set. Kernels for other instruction sets keep values in other
// forms, and values travel between ranks in these forms. So all ranks use the best
// set that every rank has.
//
// The memory. Ranks may share a GPU. Each then gets an equal part of what the rank
// with the least free memory sees. Free memory is read after all ranks have opened
// the device, since a CUDA context takes memory too.
//
// The transport of collectives. NCCL needs a GPU per rank and the same version on
// all of them, and it sums in an order of its own. Where one of these fails,
// collectives go through the host's memory, and the reason is shown with the ranks.

#include "job/device.h"

#include "backend/cpu/isa.h"
#include "base/alloc.h"
#include "job/pipeline.h"

#include <stdlib.h>
#include <string.h>

// Splits "cuda:1" into the backend and a number. The number is -1 if there is none.
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
                       "device=%s: there is no such device; use cpu, cuda or "
                       "ref",
                       text);
    if (colon == NULL)
        return TT_OK;
    const long number = strtol(colon + 1, &end, 10);
    if (colon[1] < '0' || colon[1] > '9' || *end != '\0' || number > 9999)
        return tt_fail(
            TT_ERR_ARG,
            "device=%s: after the colon stands a number, as in cuda:0", text);
    if ((*def_out)->memory == NULL)
        return tt_fail(TT_ERR_ARG, "device=%s: there is only one; use %s", text,
                       name);
    *number_out = (int32_t)number;
    return TT_OK;
}

// What a rank tells the others about its device.
typedef struct card {
    unsigned char id[TT_DEVICE_ID];
    int64_t free_bytes;
    int32_t links; // version of NCCL; 0: there is none
} card;

static bool is_same(const card *a, const card *b)
{
    return memcmp(a->id, b->id, sizeof a->id) == 0;
}

static int64_t free_of(tt_backend *backend)
{
    const tt_backend_def *def = backend->def;
    return def->free_bytes != NULL ? def->free_bytes(backend)
                                   : backend->target.memory_bytes;
}

// Why NCCL cannot be used; NULL: it can.
static const char *against(const tt_job *job, const card *all)
{
    tt_arena *arena = job->arena;
    const char *name = job->backend->def->device_comm != NULL
                           ? job->backend->def->device_comm->name
                           : "";
    for (int32_t r = 0; r < job->peers.size; r++) {
        if (all[r].links == 0)
            return tt_arena_printf(arena, "rank %d has no %s", r, name);
        if (all[r].links != all[0].links)
            return tt_arena_printf(arena, "ranks 0 and %d have other %ss", r,
                                   name);
        for (int32_t k = 0; k < r; k++)
            if (is_same(&all[r], &all[k]))
                return tt_arena_printf(arena, "ranks %d and %d share a GPU", k,
                                       r);
    }
    if (tt__pipeline_crosses(job))
        return "stages with two copies send both ways at once";
    return job->options.exact ? "sums of exact=true have an order" : NULL;
}

// Chooses NCCL where it can be used and was not ruled out, else the host's memory.
// transport=nccl makes the second an error.
static tt_status choose_way(tt_job *job, const card *all)
{
    const int transport = job->distribution.transport;
    const char *why = against(job, all);
    const bool is_host = why != NULL || (transport != TT_TRANSPORT_AUTO &&
                                         transport != TT_TRANSPORT_NCCL);
    if (why != NULL && transport == TT_TRANSPORT_NCCL)
        return tt_fail(TT_ERR_ARG,
                       "transport=nccl: %s; leave it out, and collectives go "
                       "through the host's memory",
                       why);
    tt_comm_wire_by_devices(job->peers.wire, !is_host);
    job->is_linked = !is_host;
    if (is_host)
        job->peers.text = tt_arena_printf(
            job->arena, "%s; GPUs by way of the host%s%s", job->peers.text,
            why != NULL ? ": " : "", why != NULL ? why : "");
    else
        job->peers.text = tt_arena_printf(
            job->arena, "%s; GPUs by %s %d.%d.%d", job->peers.text,
            job->backend->def->device_comm->name, all[0].links / 10000,
            all[0].links / 100 % 100, all[0].links % 100);
    return job->peers.text == NULL ? TT_ERR_NOMEM : TT_OK;
}

static card describe(tt_backend *backend)
{
    card mine = {.free_bytes = free_of(backend)};
    memcpy(mine.id, backend->id, sizeof mine.id);
    if (backend->def->device_comm == NULL ||
        backend->def->device_comm->version(backend, &mine.links) != TT_OK)
        mine.links = 0;
    return mine;
}

// All ranks exchange cards. Called after every rank has opened its device, for that
// takes memory too.
static tt_status share(tt_job *job)
{
    const tt_peers *peers = &job->peers;
    const card mine = describe(job->backend);
    card *all = tt_alloc(peers->size * (int64_t)sizeof *all);
    if (all == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to look at devices");
    tt_status status =
        tt_peers_collect(peers, "devices", &mine, sizeof mine, all);
    int64_t least = mine.free_bytes;
    job->on_device = 1;
    for (int32_t r = 0; r < peers->size && status == TT_OK; r++) {
        if (r == peers->rank || !is_same(&all[r], &mine))
            continue;
        job->on_device++;
        least = all[r].free_bytes < least ? all[r].free_bytes : least;
    }
    if (status == TT_OK)
        status = choose_way(job, all);
    if (status == TT_OK)
        job->backend->target.memory_bytes = least / job->on_device;
    tt_free(all);
    return status;
}

// Limits the instruction set to what every rank has. Values travel in the forms
// that kernels like, so the kernels must be the same; and parts are then rounded
// alike.
static tt_status limit_isa(const tt_job *job)
{
    const tt_peers *peers = &job->peers;
    TT_TRY(tt_isa_limit((tt_isa)job->distribution.isa));
    if (peers->size == 1 || peers->wire == NULL)
        return TT_OK;
    const int32_t mine = (int32_t)tt_isa_most();
    int32_t *all = tt_alloc(peers->size * (int64_t)sizeof *all), least = mine;
    if (all == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to look at processors");
    tt_status status =
        tt_peers_collect(peers, "processors", &mine, sizeof mine, all);
    for (int32_t r = 0; r < peers->size && status == TT_OK; r++)
        least = all[r] < least ? all[r] : least;
    tt_free(all);
    return status == TT_OK ? tt_isa_limit((tt_isa)least) : status;
}

tt_status tt__job_open_device(tt_job *job, const tt_settings *settings)
{
    const tt_peers *peers = &job->peers;
    const tt_backend_def *def = NULL;
    const int threads = (int)job->options.threads;
    tt_backend_options options = {.n_threads =
                                      threads > 0 ? threads : peers->cores,
                                  .exact = job->options.exact,
                                  .launch = !job->options.graphs,
                                  .cache = settings->cache,
                                  .may_be_absent = settings->is_plan,
                                  .local = peers->local};
    TT_TRY(parse(job, &def, &options.number));
    TT_TRY(limit_isa(job));
    tt_status status = tt_backend_open(def, &options, &job->backend);
    job->on_device = 1;
    if (status == TT_OK && settings->memory > 0)
        job->backend->target.memory_bytes = settings->memory;
    if (def->memory == NULL &&
        job->distribution.transport == TT_TRANSPORT_NCCL && status == TT_OK)
        return tt_fail(TT_ERR_ARG,
                       "transport=nccl is between GPUs; set device=cuda, or "
                       "leave it out");
    if (def->memory == NULL || peers->size == 1 || peers->wire == NULL)
        return status;
    TT_TRY(tt_peers_agree(peers, "opening the device", status));
    return share(job);
}
