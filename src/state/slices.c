// slices - see the header.
//
// The problem: a checkpoint of any layout must load under any other, whether one rank
// or all ranks see the disk. Reading everything on rank 0 and sending it would be
// simple, but all ranks would wait for one reader.
//
// The idea: a file of tensors is row by row, so a rank's part of a tensor is a list
// of runs of bytes in it (state/parts.c). Rank 0 tells everyone where the tensors
// begin; each rank reads its own runs.
//
//   rank 0   share  which files there are, where each tensor lies, its type and sum
//   all      look   is that file here, and is it the same? If one rank says no,
//                   rank 0 reads for all and broadcasts whole tensors
//   each     take   its part of each tensor, and of its copy in another precision
//   all      judge  do the sums of what was read add up to what was saved?
//
// Damage is found without a second reading. The hash of a whole file is of no use
// to a rank that reads a part of it. But state.json has a sum per tensor to which
// parts add up (store/checksum.h), so ranks sum what they read and exchange the
// sums.
//
// A failure of one rank must not leave the others waiting. So a rank notes its
// first failure and goes on with the same calls; the verdicts are exchanged at two
// fixed points, `look` and `judge`.

#include "base/alloc.h"
#include "state/slices_parts.h"

#include <stdio.h>

// ---- what rank 0 knows ---------------------------------------------------

// The index of a tensor's file in the shared list; the first use adds it. There are
// few files, so a search will do.
static tt_status file_index(tt__loading *l, const tt_safetensor *t,
                            int32_t *out)
{
    for (int32_t f = 0; f < (int32_t)l->n_files; f++)
        if (l->known[f] == t->file) {
            *out = f;
            return TT_OK;
        }
    tt_span_file file;
    TT_TRY(tt_span_describe(t->file, &file));
    tt_str_add_bytes(&l->shared, (const char *)&file, sizeof file);
    l->known[l->n_files] = t->file;
    *out = (int32_t)l->n_files++;
    return tt_str_status(&l->shared);
}

static tt_status place_all(tt__loading *l, tt__slice_place *places)
{
    for (int64_t i = 0; i < l->s->all->n; i++) {
        const tt_safetensor *t = l->s->from[i];
        tt_dtype dtype = TT_F32;
        places[i] = (tt__slice_place){.file = TT__SLICE_NONE};
        if (t == NULL)
            continue;
        (void)tt_tensor_own_dtype(t->dtype, &dtype);
        places[i].dtype = (int32_t)dtype;
        places[i].file = TT__SLICE_MEMORY;
        if (t->file == NULL)
            continue;
        TT_TRY(file_index(l, t, &places[i].file));
        places[i].offset = tt_safetensors_header_bytes(t->file) + t->offset;
        places[i].has_sum = t->has_sum;
        places[i].sum = t->sum;
    }
    return TT_OK;
}

// Fills l->shared, which all ranks get: the files, then the places of all tensors.
static tt_status describe(tt__loading *l)
{
    const int64_t n = l->s->all->n;
    tt__slice_place *places = tt_alloc((n + 1) * (int64_t)sizeof *places);
    l->known = tt_alloc((n + 1) * (int64_t)sizeof *l->known);
    tt_status status = places == NULL || l->known == NULL
                           ? tt_fail(TT_ERR_NOMEM, "no memory to read tensors")
                           : place_all(l, places);
    if (status == TT_OK)
        tt_str_add_bytes(&l->shared, (const char *)places,
                         n * (int64_t)sizeof *places);
    tt_free(places);
    return status == TT_OK ? tt_str_status(&l->shared) : status;
}

static tt_status share(tt__loading *l)
{
    const int64_t places = l->s->all->n * (int64_t)sizeof(tt__slice_place);
    tt_status status = l->rank == 0 ? describe(l) : TT_OK;
    if (l->peers != NULL) {
        TT_TRY(tt_peers_follow(l->peers, TT__READING, status));
        status = tt_peers_share_text(l->peers, TT__READING, &l->shared);
    }
    TT_TRY(status);
    l->n_files = (l->shared.n - places) / (int64_t)sizeof(tt_span_file);
    l->file = (const tt_span_file *)(const void *)l->shared.text;
    l->place = (const tt__slice_place *)(const void *)(l->file + l->n_files);
    return TT_OK;
}

// ---- whether all see the files -------------------------------------------

static tt_status open_files(tt__loading *l)
{
    l->span = tt_alloc((l->n_files + 1) * (int64_t)sizeof *l->span);
    if (l->span == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to read tensors");
    for (int64_t f = 0; f < l->n_files; f++)
        l->span[f] = TT_SPAN_CLOSED;
    for (int64_t f = 0; f < l->n_files; f++)
        TT_TRY(l->rank == 0
                   ? tt_span_take(&l->span[f], &l->file[f], l->known[f])
                   : tt_span_open(&l->span[f], &l->file[f]));
    return TT_OK;
}

void tt__slices_note(tt__loading *l, tt_status status, bool may_be_damage)
{
    tt__slice_verdict *v = &l->verdict;
    if (status == TT_OK || v->status != TT_OK)
        return;
    v->status = status;
    v->is_damage = may_be_damage && status == TT_ERR_ARG;
    snprintf(v->message, sizeof v->message, "%s", tt_error_message());
}

// Exchanges verdicts. All ranks get the same one: that of the first rank that
// failed, with its number. The bytes that ranks have read are counted on the way.
static tt_status hear(const tt__loading *l, tt_slices_result *result,
                      int32_t *rank_out, tt__slice_verdict *out)
{
    tt__slice_verdict *all = tt_alloc(l->size * (int64_t)sizeof *all);
    tt_status status = TT_OK;
    if (all == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to hear other ranks");
    all[0] = l->verdict;
    if (l->peers != NULL)
        status = tt_peers_collect(l->peers, TT__READING, &l->verdict,
                                  sizeof *all, all);
    *rank_out = 0;
    *out = all[0];
    result->least_read = result->most_read = all[0].bytes_read;
    for (int32_t r = 1; r < l->size && status == TT_OK; r++) {
        if (out->status == TT_OK && all[r].status != TT_OK) {
            *rank_out = r;
            *out = all[r];
        }
        if (all[r].bytes_read < result->least_read)
            result->least_read = all[r].bytes_read;
        if (all[r].bytes_read > result->most_read)
            result->most_read = all[r].bytes_read;
    }
    tt_free(all);
    return status;
}

static tt_status fail(const tt__loading *l, int32_t rank,
                      const tt__slice_verdict *v)
{
    const tt_status status = l->rank == 0 ? (tt_status)v->status : TT_ERR_PEER;
    return rank == 0 ? tt_fail(status, "%s", v->message)
                     : tt_fail(status, "rank %d: %s", rank, v->message);
}

static tt_status look(tt__loading *l, tt_slices_result *result)
{
    int32_t rank = 0;
    tt__slice_verdict first;
    tt__slices_note(l, open_files(l), false);
    TT_TRY(hear(l, result, &rank, &first));
    if (rank == 0 && first.status != TT_OK)
        return fail(l, rank, &first);
    // Another rank cannot see the files (it has another disk, say): rank 0 can, so
    // it reads for all.
    l->is_hidden = first.status != TT_OK;
    if (l->is_hidden)
        snprintf(result->hidden, sizeof result->hidden, "rank %d: %s", rank,
                 first.message);
    l->verdict = (tt__slice_verdict){0};
    return TT_OK;
}

// ---- all of it -----------------------------------------------------------

// Allocates buffers. All ranks have them, or none goes on.
static tt_status prepare(tt__loading *l)
{
    const tt_status status = tt__slices_prepare(l);
    return l->peers != NULL ? tt_peers_agree(l->peers, TT__READING, status)
                            : status;
}

static void count_bytes(const tt__loading *l, tt_slices_result *result)
{
    result->bytes_read = l->verdict.bytes_read;
    for (int64_t f = 0; f < l->n_files; f++)
        result->bytes += l->file[f].bytes;
}

static tt_status judge(const tt__loading *l, tt_slices_result *result)
{
    const char *damaged = NULL;
    int32_t rank = 0;
    tt__slice_verdict first;
    count_bytes(l, result);
    TT_TRY(hear(l, result, &rank, &first));
    result->is_damaged = first.is_damage != 0;
    if (first.status != TT_OK)
        return fail(l, rank, &first);
    TT_TRY(tt__slices_check(l, &damaged));
    result->is_damaged = damaged != NULL;
    if (damaged == NULL)
        return TT_OK;
    return tt_fail(l->rank == 0 ? TT_ERR_IO : TT_ERR_PEER,
                   "%s is damaged: its sum is wrong", damaged);
}

static tt_status load(tt__loading *l, tt_slices_result *result)
{
    TT_TRY(share(l));
    TT_TRY(look(l, result));
    TT_TRY(prepare(l));
    TT_TRY(tt__slices_take(l));
    return judge(l, result);
}

static void loading_fini(tt__loading *l)
{
    for (int64_t f = 0; f < l->n_files && l->span != NULL; f++)
        tt_span_close(&l->span[f]);
    tt_free(l->span);
    tt_free(l->known);
    tt_free(l->sum);
    tt_free_aligned(l->raw);
    tt_free_aligned(l->own);
    tt_free_aligned(l->work);
    tt_free_aligned(l->whole);
    tt_str_fini(&l->shared);
}

tt_status tt_slices_load(const tt_slices *slices, tt_slices_result *result_out)
{
    const tt_plan *plan = tt_exec_plan(slices->exec);
    const tt_tensors *all = slices->all;
    tt__loading l = {.s = slices, .graph = plan->graph, .size = 1};
    *result_out = (tt_slices_result){0};
    if (all->n > 0 && all->v[0].peers != NULL && all->v[0].peers->size > 1) {
        l.peers = all->v[0].peers;
        l.rank = l.peers->rank;
        l.size = l.peers->size;
    }
    const tt_status status = load(&l, result_out);
    loading_fini(&l);
    return status;
}
