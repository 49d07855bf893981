// verify_copies - finds replicas that differ, without sending all of them.
//
// Data parallelism keeps one replica of each weight per data rank. They must be equal
// bit for bit, else ranks drift apart. To gather every replica would cost ranks times
// the model. So each rank sends a checksum of its part, and rank 0 adds them up per
// replica:
//
//   replica 0 (ranks 0, 1):  sum[0] + sum[1]  +
//                                          +> equal?  no -> gather replica 2 as well
//   replica 2 (ranks 2, 3):  sum[2] + sum[3]  +
//
// The checksum of an element depends on its global index. So the sum over parts is
// that of the whole tensor, however it is split. Only replicas whose sums differ are
// gathered and compared element by element.

#include "base/alloc.h"
#include "state/parts.h"
#include "store/checksum.h"
#include "verify/verify_parts.h"

#include <string.h>

// Ranks that hold terms of a sum (a Partial placement) hold different values by
// design.
static bool has_copies(const tt_graph *g, tt_val v)
{
    for (int a = 0; a < g->mesh.n_axes; a++)
        if (g->value[v.id].type.place[a].kind == TT_PARTIAL)
            return false;
    return true;
}

// Checksums of this rank's part of each tensor, run by run: a run is contiguous in the
// whole tensor.
static tt_status sum_own(tt_job *job, const tt__taken *t, char *raw,
                         uint64_t *sum)
{
    for (int64_t i = 0; i < t->n; i++) {
        const tt_tensor *tensor = &t->tensor[i];
        const int64_t size = tt_dtype_bytes(tensor->dtype);
        const tt__rank_part p =
            tt__rank_part_of(job->graph, tensor->val, job->peers.rank);
        if (p.count > 0)
            TT_TRY(tt_exec_read(job->exec, tensor->val, raw));
        for (int64_t k = 0; k < p.count; k += p.run)
            sum[i] += tt_checksum(raw + k * size, p.run, size,
                                  tt_local_to_global(&p.local, k));
    }
    return TT_OK;
}

// Adds the checksums of all ranks (`all`) per replica. A replica is known by its
// lowest rank.
static void sum_copies(const tt_job *job, const tt__taken *t, int64_t i,
                       const uint64_t *all, uint64_t *total)
{
    const tt_val v = t->tensor[i].val;
    memset(total, 0, (size_t)job->peers.size * sizeof *total);
    for (int32_t r = 0; r < job->peers.size; r++)
        if (tt__rank_part_group(job->graph, v, r) != TT__RANK_ABSENT)
            total[tt__rank_part_group(job->graph, v, r)] += all[r * t->n + i];
}

// Gathers one replica on rank 0. All ranks take part.
static tt_status add_copy(tt_job *job, tt_arena *arena, tt__taken *t, int64_t i,
                          int32_t rank)
{
    const tt_tensor *tensor = &t->tensor[i];
    char *raw = tt_arena_alloc(arena, tensor->bytes + 64);
    double *data = tt_arena_alloc(arena, 8 * tensor->count + 8);
    if (raw == NULL || data == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt_tensor_gather(job->exec, tensor, rank, raw));
    if (!tt_peers_is_first(&job->peers))
        return TT_OK;
    tt_tensor_convert(tensor->dtype, raw, TT_F64, data, tensor->count);
    t->copy[t->n_copies++] = (tt__copy){i, rank, data};
    return TT_OK;
}

// All ranks make the same decisions from the same checksums, so all of them meet in
// the same gathers.
static tt_status add_copies(tt_job *job, tt_arena *arena, tt__taken *t,
                            const uint64_t *all, uint64_t *total)
{
    const int32_t ranks = job->peers.size;
    t->copy =
        tt_arena_alloc(arena, (t->n * ranks + 1) * (int64_t)sizeof *t->copy);
    if (t->copy == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < t->n; i++) {
        const tt_val v = t->tensor[i].val;
        if (!has_copies(job->graph, v))
            continue;
        sum_copies(job, t, i, all, total);
        const int32_t first = tt__rank_part_first(job->graph, v);
        for (int32_t r = first + 1; r < ranks; r++)
            if (tt__rank_part_group(job->graph, v, r) == r &&
                total[r] != total[first])
                TT_TRY(add_copy(job, arena, t, i, r));
    }
    return TT_OK;
}

tt_status tt__verify_copies(tt_job *job, tt_arena *arena, tt__taken *t)
{
    const int64_t bytes = t->n * (int64_t)sizeof(uint64_t);
    int64_t largest = 0;
    for (int64_t i = 0; i < t->n; i++)
        largest = t->tensor[i].bytes > largest ? t->tensor[i].bytes : largest;
    char *raw = tt_alloc(largest + 64);
    uint64_t *sum = tt_alloc(bytes + 8);
    uint64_t *all = tt_alloc(bytes * job->peers.size + 8);
    uint64_t *total = tt_alloc(job->peers.size * (int64_t)sizeof *total);
    tt_status status = TT_OK;
    if (raw == NULL || sum == NULL || all == NULL || total == NULL)
        status = tt_fail(TT_ERR_NOMEM, "no memory to compare copies");
    if (status == TT_OK)
        status = sum_own(job, t, raw, sum);
    if (status == TT_OK)
        status = tt_peers_collect(&job->peers, "copies", sum, bytes, all);
    if (status == TT_OK)
        status = add_copies(job, arena, t, all, total);
    tt_free(raw);
    tt_free(sum);
    tt_free(all);
    tt_free(total);
    return status;
}
