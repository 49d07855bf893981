// weights - a model's parameters and buffers to and from files.
//
// Rank 0 reads and writes. The other ranks take part, since each holds a piece or a
// copy: they send theirs for a save and receive theirs in a load.

#include "weights/weights.h"

#include "api/session.h"

static tt_status save_from(tutti_session *session, const char *path,
                           tt_arena *arena)
{
    static const tt_safetensors_note note = {"format", "pt"};
    const tt_tensors model = tt_tensors_model(&session->job->tensors);
    tt_snapshot s = {0};
    const tt_peers *peers = &session->job->peers;
    TT_TRY(tt_snapshot_take(session->job->exec, &model, arena, &s));
    tt_status status = TT_OK;
    if (tt_peers_is_first(peers))
        status = tt_safetensors_write(path, s.model, s.n_model, &note, 1);
    tt_snapshot_free(&s);
    return tt_peers_follow(peers, "saving", status);
}

static tt_status save(tutti_session *session, const char *path)
{
    TT_TRY(tt__api_need_build(session));
    tt_arena *arena = tt_arena_create();
    if (arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to save %s", path);
    const tt_status status = save_from(session, path, arena);
    tt_arena_destroy(arena);
    return status;
}

tutti_status tutti_save(tutti_session *session, const char *path)
{
    TT_API_NEED(session);
    TT_API_NEED(path);
    return tt__api_result(save(session, path));
}

// If rank 0 cannot open the file, it tells the others, which would wait for it
// otherwise.
static tt_status load(tutti_session *session, const char *path)
{
    const tt_job *job = session->job;
    tt_weights *weights = NULL;
    tt_weights_fit fit;
    TT_TRY(tt__api_need_build(session));
    tt__api_touch(session);
    if (!tt_peers_is_first(&job->peers))
        return tt_weights_receive(job->exec, &job->tensors);
    tt_status status =
        tt_weights_open(path, &(tt_weights_options){0}, NULL, &weights);
    if (status == TT_OK)
        status = tt_weights_load(weights, job->exec, &job->tensors, NULL, &fit);
    else
        status = tt_peers_follow(&job->peers, "loading", status);
    tt_weights_close(weights);
    return status;
}

tutti_status tutti_load(tutti_session *session, const char *path)
{
    TT_API_NEED(session);
    TT_API_NEED(path);
    return tt__api_result(load(session, path));
}
