// ranks_work - between a transport and the work: trials, what links cost, the wire.

#include "comm/calibrate.h"
#include "comm/transport/transport.h"
#include "ranks/ranks_parts.h"
#include "store/hash.h"
#include "tutti/tutti.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

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

// Slower on purpose, as the settings say. The comm is taken over.
static tt_status slow_down(const tt_where *where, tt_comm **comm)
{
    const tt_slow_options slow = {where->slow_rate, where->slow_latency};
    return where->slow_rate > 0 || where->slow_latency > 0
               ? tt_slow_open(*comm, &slow, comm)
               : TT_OK;
}

// Worse on purpose. Links are measured before, so that algorithms and buckets are those
// of a run without faults; but where that one would leave a collective to the
// transport, messages must do it in the same order.
static tt_status spoil(const tt_where *where, tt_comm **comm,
                       tt_calibration *links)
{
    if (where->fault[0] == '\0')
        return TT_OK;
    links->native = (tt_link){0};
    links->is_native_ordered = false;
    const tt_status status = tt_fault_open(*comm, where->fault, comm);
    return status == TT_OK ? status : tt_fail_context(status, "comm.fault");
}

const char *tt__ranks_spoilt(const tt_where *where)
{
    return where->fault[0] != '\0'                           ? " with faults"
           : where->slow_rate > 0 || where->slow_latency > 0 ? " slowed down"
                                                             : "";
}

// Where what was measured of links is kept: one file for a number of ranks over a
// transport; it says itself of which hosts. NULL: there is no place.
static const char *calibration_path(const tt__starting *s, const tt_comm *comm)
{
    const char *cache = s->request->settings->cache;
    return cache == NULL
               ? NULL
               : tt_arena_printf(s->request->arena, "%s/links-%s-%d.json",
                                 cache, comm->def->name, comm->size);
}

static tt_status calibrate(const tt__starting *s, const int32_t *host,
                           tt_peers *peers, tt_calibration *out)
{
    const bool is_slowed =
        s->where->slow_rate > 0 || s->where->slow_latency > 0;
    const tt_calibrate_options options = {
        .path = is_slowed ? NULL : calibration_path(s, peers->comm),
        .host = host};
    const tt_group all = {.n = peers->size, .me = peers->rank, .host = host};
    TT_TRY(tt_calibrate(peers->comm, &options, out));
    peers->bucket = tt_calibration_bucket(out, &all);
    return TT_OK;
}

// All ranks end with rank 0's exit status: which of theirs a launcher returns is its own
// affair. Some end all ranks when one has ended with a status that is not 0, so
// rank 0 has printed everything by then.
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
    TT_TRY(slow_down(s->where, &peers->comm));
    TT_TRY(calibrate(s, host, peers, &links));
    TT_TRY(spoil(s->where, &peers->comm, &links));
    const tt_wire_options options = {.collective = s->where->collective,
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
