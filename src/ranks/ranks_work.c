// ranks_work - what lies between a transport and the work: trials, measured links, the
// wire.
//
// The order matters. A slow link (a trial) is opened before links are measured, since
// its speed is what `auto` should see. Faults (the other trial) come after the
// measurement, so that a run with faults chooses the same algorithms and buckets as
// one without. Otherwise the trial would test another program.
//
//   transport -> slow -> calibrate -> fault -> wire -> work -> end together

#include "comm/calibrate.h"
#include "comm/transport/transport.h"
#include "ranks/ranks_parts.h"
#include "store/hash.h"
#include "tutti/tutti.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

// The version and a hash of the program's own file. Two builds of one version may
// order their messages differently, so the version alone is not enough.
const char *tt_ranks_build(const tt_peers *peers, tt_arena *arena)
{
    if (peers->size == 1)
        return ""; // nobody asks, and reading it takes time
    tt_hasher *hasher = tt_hasher_create();
    char buffer[1 << 16], text[TT_HASH_CHARS] = "";
    const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    ssize_t n = 0;
    while (hasher != NULL && fd >= 0 &&
           (n = read(fd, buffer, sizeof buffer)) > 0)
        tt_hasher_add(hasher, buffer, n);
    if (hasher != NULL)
        tt_hasher_text(hasher, text);
    if (fd >= 0)
        (void)close(fd);
    tt_hasher_destroy(hasher);
    return tt_arena_printf(arena, "%s %s", TUTTI_VERSION, text);
}

// Wraps the transport in one with a lower rate or a higher latency. The result
// replaces `*comm`.
static tt_status slow_down(const tt_distribution *distribution, tt_comm **comm)
{
    const tt_slow_options slow = {distribution->slow_rate,
                                  distribution->slow_latency};
    return distribution->slow_rate > 0 || distribution->slow_latency > 0
               ? tt_slow_open(*comm, &slow, comm)
               : TT_OK;
}

// Wraps the transport in one that injects faults. The transport's own collectives
// (`native`) would bypass the wrapper, so they are switched off: messages then do the
// work in the same order.
static tt_status spoil(const tt_distribution *distribution, tt_comm **comm,
                       tt_calibration *links)
{
    if (distribution->fault[0] == '\0')
        return TT_OK;
    links->native = (tt_link){0};
    links->is_native_ordered = false;
    const tt_status status = tt_fault_open(*comm, distribution->fault, comm);
    return status == TT_OK ? status : tt_fail_context(status, "comm.fault");
}

const char *tt__ranks_spoilt(const tt_distribution *distribution)
{
    return distribution->fault[0] != '\0' ? " with faults"
           : distribution->slow_rate > 0 || distribution->slow_latency > 0
               ? " slowed down"
               : "";
}

// The file that keeps measured links: one per transport and number of ranks. The file
// itself says for which hosts it is valid. NULL: there is no cache folder.
static const char *calibration_path(const tt__starting *s, const tt_comm *comm)
{
    const char *cache = s->request->settings->cache;
    return cache == NULL
               ? NULL
               : tt_arena_printf(s->request->arena, "%s/links-%s-%d.json",
                                 cache, comm->def->name, comm->size);
}

// Measures the links, or reads an earlier measurement, and derives the size of
// gradient buckets from it. Links that are slowed on purpose are never written to the
// cache.
static tt_status calibrate(const tt__starting *s, const int32_t *host,
                           tt_peers *peers, tt_calibration *out)
{
    const bool is_slowed =
        s->distribution->slow_rate > 0 || s->distribution->slow_latency > 0;
    const tt_calibrate_options options = {
        .path = is_slowed ? NULL : calibration_path(s, peers->comm),
        .host = host};
    const tt_group all = {.n = peers->size, .me = peers->rank, .host = host};
    TT_TRY(tt_calibrate(peers->comm, &options, out));
    peers->bucket = tt_calibration_bucket(out, &all);
    return TT_OK;
}

// Makes rank 0's exit status that of all ranks, since launchers differ in whose status
// they return. Some end all ranks as soon as one exits with a status other than 0, so
// rank 0 flushes its output before it tells the others.
static tt_status end_together(const tt_peers *peers, int *exit_out)
{
    int32_t exit_status = *exit_out;
    if (tt_peers_is_first(peers))
        (void)fflush(NULL);
    TT_TRY(
        tt_peers_broadcast(peers, "the end", &exit_status, sizeof exit_status));
    *exit_out = exit_status;
    return TT_OK;
}

tt_status tt__ranks_work(const tt__starting *s, const int32_t *host,
                         tt_peers *peers, int *exit_out)
{
    tt_calibration links = {0};
    TT_TRY(slow_down(s->distribution, &peers->comm));
    TT_TRY(calibrate(s, host, peers, &links));
    TT_TRY(spoil(s->distribution, &peers->comm, &links));
    const tt_wire_options options = {.collective = s->distribution->collective,
                                     .calibration =
                                         peers->bucket > 0 ? &links : NULL,
                                     .host = host,
                                     .trace = true};
    TT_TRY(tt_comm_wire_open(peers->comm, &options, &peers->wire));
    tt_status status = s->fn(peers, s->user, exit_out);
    if (status == TT_OK)
        status = end_together(peers, exit_out);
    tt_comm_wire_close(peers->wire);
    return status;
}

const char *tt__ranks_cores(tt_arena *arena, int32_t all, int32_t on_host,
                            int32_t each)
{
    if (on_host > all)
        return tt_arena_printf(arena, "%d core%s between them", all,
                               all == 1 ? "" : "s");
    return tt_arena_printf(arena, "%d core%s each", each, each == 1 ? "" : "s");
}
