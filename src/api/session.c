// session - settings, plan and memory of one model; the states are drawn in session.h.
//
// Planning needs no memory for the model, so a program can ask how large it would be
// (tutti_get_info) before it builds. A step that fails puts the session back to its
// settings, so the program may change one and try again.

#include "api/session.h"

#include "base/alloc.h"
#include "base/settings/yaml.h"
#include "data/tokenizer/tokenizer.h"
#include "ranks/ranks.h"
#include "session/meet.h"
#include "system/system.h"

tutti_status tutti_create(tutti_session **session_out)
{
    TT_API_NEED(session_out);
    tutti_session *session = tt_alloc(sizeof *session);
    tt_arena *arena = tt_arena_create();
    if (session == NULL || arena == NULL) {
        tt_free(session);
        tt_arena_destroy(arena);
        return tt__api_result(tt_fail(TT_ERR_NOMEM, "no memory for a session"));
    }
    session->arena = arena;
    *session_out = session;
    return TUTTI_OK;
}

void tutti_destroy(tutti_session *session)
{
    if (session == NULL)
        return;
    tt__api_forget(session);
    tt_tokenizer_close(session->tokenizer);
    tt_arena_destroy(session->arena);
    tt_free(session);
}

tt_status tt__api_need_unplanned(const tutti_session *session)
{
    return session->job == NULL
               ? TT_OK
               : tt_fail(TT_ERR_STATE,
                         "settings cannot change once a model is planned");
}

tt_status tt__api_apply_system(tutti_session *session)
{
    const int64_t n = session->peers != NULL ? session->peers->size : 1;
    return tt_system_apply(&session->settings, n, session->arena);
}

tutti_status tutti_set(tutti_session *session, const char *key,
                       const char *value)
{
    TT_API_NEED(session);
    TT_API_NEED(key);
    TT_API_NEED(value);
    tt_status status = tt__api_need_unplanned(session);
    if (status == TT_OK)
        status = tt_settings_set(&session->settings, key, value, "tutti_set",
                                 session->arena);
    return tt__api_result(status);
}

// Reads into settings of its own first, so that a broken file changes nothing.
static tt_status read_file(tutti_session *session, const char *path)
{
    tt_settings settings = {0};
    TT_TRY(tt__api_need_unplanned(session));
    TT_TRY(tt_yaml_read(path, session->arena, &settings));
    for (int64_t i = 0; i < settings.n; i++)
        TT_TRY(tt_settings_set(&session->settings, settings.v[i].key,
                               settings.v[i].value, settings.v[i].origin,
                               session->arena));
    return TT_OK;
}

tutti_status tutti_read_file(tutti_session *session, const char *path)
{
    TT_API_NEED(session);
    TT_API_NEED(path);
    return tt__api_result(read_file(session, path));
}

// The type of an input, with as many samples as this rank has of a micro-batch.
static tt_status input_type(tutti_session *session, const char *name,
                            tutti_type *type_out)
{
    const tt_graph *g = session->job->graph;
    const tt_val v = tt_graph_find(g, name);
    if (!tt_is(v))
        return tt_fail(TT_ERR_ARG, "model %s has no input \"%s\"",
                       session->job->options.model, name);
    const tt_type *type = &g->value[v.id].type;
    tt_shape shape = type->shape;
    int64_t n = 0;
    tt_job_samples(session->job, &session->first, &n);
    shape.factor[0].size = n;
    return tt__api_type(type->dtype, &shape, session->arena, type_out);
}

tt_status tt__api_describe(tutti_session *session)
{
    TT_TRY(input_type(session, "x", &session->x));
    TT_TRY(input_type(session, "y", &session->y));
    return tt__api_list_tensors(session);
}

void tt__api_touch(tutti_session *session)
{
    session->infer_is_old = session->generator_is_old = true;
}

void tt__api_forget(tutti_session *session) // settings may change again
{
    tt__api_forget_use(session);
    tt_job_close(session->job);
    tt_arena_destroy(session->job_arena);
    session->job_arena = NULL;
    tt_free(session->whole_x);
    tt_free(session->whole_y);
    session->whole_x = session->whole_y = NULL;
    session->job = NULL;
    session->n_tensors = 0;
}

// A setting that was read is marked as used, and unused ones are reported as mistakes.
// An attempt that failed has marked some, so the marks are cleared first.
static tt_status plan(tutti_session *session)
{
    if (session->job != NULL)
        return TT_OK;
    for (int64_t i = 0; i < session->settings.n; i++)
        session->settings.v[i].used = false;
    TT_TRY(tt__api_apply_system(session));
    TT_TRY(tt_job_configure_peers(&session->settings, NULL, session->peers,
                                  &session->job));
    tt_status status = tt_job_plan(session->job);
    if (status == TT_OK)
        status = tt__api_describe(session);
    if (status != TT_OK)
        tt__api_forget(session);
    return status;
}

tutti_status tutti_plan(tutti_session *session)
{
    TT_API_NEED(session);
    return tt__api_result(plan(session));
}

// On several ranks, all of them first check that they run the same program with the
// same settings (tt_meet_job), before any waits for another in a collective.
tt_status tt__api_build(tutti_session *session)
{
    if (session->job != NULL && session->job->exec != NULL)
        return TT_OK;
    TT_TRY(plan(session));
    tt_str notes = {0};
    tt_status status =
        session->peers == NULL
            ? TT_OK
            : tt_meet_job(session->job, &session->settings,
                          tt_ranks_build(session->peers, session->arena));
    if (status == TT_OK)
        status = tt_job_start(session->job, &(tt_exec_options){0});
    if (status == TT_OK)
        status = tt_job_init_from(session->job, &notes);
    tt_str_fini(&notes);
    if (status != TT_OK)
        tt__api_forget(session);
    return status;
}

tutti_status tutti_build(tutti_session *session)
{
    TT_API_NEED(session);
    return tt__api_result(tt__api_build(session));
}

static tt_status need_plan(const tutti_session *session)
{
    return session->job != NULL
               ? TT_OK
               : tt_fail(TT_ERR_STATE, "the session has no plan: call "
                                       "tutti_plan or tutti_build first");
}

tt_status tt__api_need_build(const tutti_session *session)
{
    return session->job != NULL && session->job->exec != NULL
               ? TT_OK
               : tt_fail(TT_ERR_STATE,
                         "the session has no memory: call tutti_build first");
}

tutti_status tutti_get_info(const tutti_session *session, tutti_info *info_out)
{
    TT_API_NEED(session);
    TT_API_NEED(info_out);
    const tt_status status = need_plan(session);
    if (status != TT_OK)
        return tt__api_result(status);
    const tt_plan *p = session->job->plan;
    int64_t sum = 0;
    for (int u = 0; u < TT_N_BUFFER_USES; u++)
        sum += p->bytes_by_use[u];
    *info_out = (tutti_info){
        .parameters = tt_job_parameters(session->job),
        .peak_bytes = p->peak_bytes,
        .parameter_bytes = p->bytes_by_use[TT_USE_PARAM],
        .gradient_bytes = p->bytes_by_use[TT_USE_GRAD],
        .optimiser_bytes = p->bytes_by_use[TT_USE_OPTIM],
        .buffer_bytes = p->bytes_by_use[TT_USE_BUFFER],
        .activation_bytes = p->bytes_by_use[TT_USE_ACTIVATION],
        .scratch_bytes = p->bytes_by_use[TT_USE_SCRATCH],
        .gap_bytes = p->peak_bytes - sum,
        .flops = p->cost.flops,
        .note = session->job->note,
    };
    return TUTTI_OK;
}

tutti_status tutti_print_plan(const tutti_session *session, bool with_steps,
                              tutti_write_fn *write, void *user)
{
    TT_API_NEED(session);
    TT_API_NEED(write);
    tt_status status = need_plan(session);
    if (status != TT_OK)
        return tt__api_result(status);
    tt_str text = {0};
    tt_plan_print(session->job->plan, with_steps, &text);
    status = tt_str_status(&text);
    if (status == TT_OK)
        write(user, tt_str_text(&text));
    tt_str_fini(&text);
    return tt__api_result(status);
}
