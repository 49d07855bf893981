// verify_checkpoint - a checkpoint of many ranks loads on one, and the other way
// round.
//
//   many: save as step 1 ----> one:  load step 1, compare with the states of many
//   one:  save as step 2 ----> many: load step 2, compare with the states of one
//
// Checkpoints do not depend on the layout: tensors are whole in the file. This test is
// what holds that true for the layout of this job. Bits must be equal, since saving
// does not compute.

#include "state/restore.h"
#include "store/checkpoint.h"
#include "verify/verify_parts.h"

enum {
    OF_MANY = 1,
    OF_ONE = 2
}; // steps under which both are saved, in one folder

static tt_status save(tt_checkpoints *store, int64_t step, tt_snapshot *shot)
{
    const tt_checkpoint_content content = {.step = step,
                                           .model = shot->model,
                                           .optim = shot->optim,
                                           .n_model = shot->n_model,
                                           .n_optim = shot->n_optim,
                                           .state = "{}",
                                           .memory = shot->memory};
    TT_TRY(tt_checkpoints_save(store, &content));
    shot->memory = NULL; // theirs now
    return tt_checkpoints_wait(store);
}

// Takes part in gathering the states; the rank with the store (rank 0) also saves
// them.
static tt_status snap(tt_job *job, tt_checkpoints *store, int64_t step,
                      tt_arena *arena)
{
    tt_snapshot shot = {0};
    tt_status status = tt_snapshot_take(job->exec, &job->tensors, arena, &shot);
    if (status == TT_OK && store != NULL)
        status = save(store, step, &shot);
    tt_snapshot_free(&shot);
    return status;
}

// The states of `to` become those that were saved as `step`. Rank 0 reads the file and
// the others follow, so `store` is NULL there.
static tt_status load(tt_job *to, tt_checkpoints *store, int64_t step)
{
    tt_checkpoint *from = NULL;
    tt_str notes = {0};
    tt_status status = TT_OK;
    if (store != NULL) {
        status = tt_checkpoints_upto(store, step, &notes, &from);
        if (status == TT_OK && (from == NULL || from->step != step))
            status = tt_fail(TT_ERR_IO, "the checkpoint cannot be read back");
    }
    tt_str_fini(&notes);
    status = tt_peers_follow(&to->peers, "the checkpoint", status);
    const tt_restore restore = {.model = from != NULL ? from->model : NULL,
                                .optim = from != NULL ? from->optim : NULL,
                                .name = "the checkpoint"};
    tt_slices_result result;
    if (status == TT_OK)
        status = tt_tensors_restore(to->exec, &to->tensors, &restore, &result);
    tt_checkpoint_close(from);
    return status;
}

// Rank 0's part with the single-rank job: it saves that job's states first, because
// loading overwrites them, and then loads those of many ranks.
static tt_status one_rank(const tt_verify_request *r, tt_checkpoints *store,
                          const tt__taken *many, tt__taken *one, bool *ok_out)
{
    tt__taken loaded;
    TT_TRY(tt__verify_take(r->one, r->arena, one));
    TT_TRY(snap(r->one, store, OF_ONE, r->arena));
    TT_TRY(load(r->one, store, OF_MANY));
    TT_TRY(tt__verify_take(r->one, r->arena, &loaded));
    *ok_out = tt__verify_equal(many, &loaded);
    return TT_OK;
}

static tt_status both_ways(const tt_verify_request *r, tt_checkpoints *store,
                           bool *ok_out)
{
    const tt_peers *peers = &r->many->peers;
    const bool is_first = tt_peers_is_first(peers);
    bool there = true, back = true;
    tt__taken many, one, loaded;
    tt_status status = TT_OK;
    TT_TRY(tt__verify_take(r->many, r->arena, &many));
    TT_TRY(snap(r->many, store, OF_MANY, r->arena));
    if (is_first)
        status = one_rank(r, store, &many, &one, &there);
    TT_TRY(tt_peers_follow(peers, "the checkpoint of one rank", status));
    TT_TRY(load(r->many, store, OF_ONE));
    TT_TRY(tt__verify_take(r->many, r->arena, &loaded));
    if (is_first)
        back = tt__verify_equal(&one, &loaded);
    *ok_out = there && back;
    return TT_OK;
}

tt_status tt__verify_checkpoint(const tt_verify_request *request, bool *ok_out)
{
    const tt_checkpoint_rules rules = {.keep = 2};
    tt_checkpoints *store = NULL;
    tt_status status = TT_OK;
    if (tt_peers_is_first(&request->many->peers))
        status = tt_checkpoints_open(request->folder, &rules, &store);
    TT_TRY(tt_peers_follow(&request->many->peers, "the checkpoint", status));
    status = both_ways(request, store, ok_out);
    tt_checkpoints_close(store);
    return status;
}
