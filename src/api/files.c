// files - models in folders: opened, evaluated, exported.
//
// A folder may be one of our runs or checkpoints, or one in the form of Hugging Face.
// Both are read into settings first; the model is then built from settings as always.

#include "api/session.h"
#include "base/file.h"
#include "base/settings/yaml.h"
#include "config/distribution.h"
#include "port/port.h"
#include "port/port_out.h"
#include "train/evaluate.h"
#include "weights/model_folder.h"

#include <string.h>

// ---- opening -------------------------------------------------------------

// Where a model was trained (mesh, ranks), the name of its run and its initial weights
// say nothing about the session that opens it now.
static bool is_kept(const tt_settings *settings, const char *key)
{
    return !tt_distribution_needs(settings, key) && strcmp(key, "run") != 0 &&
           strncmp(key, "init.", 5) != 0;
}

// The folder's settings, overridden by what the session was told.
static tt_status add_settings(tutti_session *session, const char *folder)
{
    tt_settings old = {0}, own = session->settings;
    const char *yaml =
        tt_arena_printf(session->arena, "%s/config.yaml", folder);
    if (yaml == NULL)
        return TT_ERR_NOMEM;
    if (tt_model_folder_is_run(folder) && tt_file_exists(yaml))
        TT_TRY(tt_yaml_read(yaml, session->arena, &old));
    else
        TT_TRY(tt_model_folder_read(folder, session->arena, &old));
    tt_settings all = {.cache = own.cache};
    for (int64_t i = 0; i < old.n; i++)
        if (is_kept(&old, old.v[i].key))
            TT_TRY(tt_settings_set(&all, old.v[i].key, old.v[i].value,
                                   old.v[i].origin, session->arena));
    for (int64_t i = 0; i < own.n; i++)
        TT_TRY(tt_settings_set(&all, own.v[i].key, own.v[i].value,
                               own.v[i].origin, session->arena));
    session->settings = all;
    return TT_OK;
}

static tt_status open_tokenizer(tutti_session *session)
{
    const char *spec =
        tt_model_folder_tokenizer(session->folder, session->arena);
    if (spec == NULL || session->tokenizer != NULL)
        return TT_OK;
    return tt_tokenizer_open(spec, NULL, 0, &session->tokenizer);
}

// A failure leaves the session as it was.
static tt_status load(tutti_session *session, const tt_weights *weights)
{
    tt_weights_fit fit = {0};
    const tt_settings before = session->settings;
    session->folder =
        tt_arena_strdup(session->arena, tt_weights_folder(weights));
    if (session->folder == NULL)
        return TT_ERR_NOMEM;
    tt_status status = add_settings(session, session->folder);
    if (status == TT_OK)
        status = tt__api_build(session);
    if (status == TT_OK)
        status = tt_weights_load(weights, session->job->exec,
                                 &session->job->tensors, NULL, &fit);
    if (status == TT_OK)
        status = open_tokenizer(session);
    if (status != TT_OK) {
        tt__api_forget(session);
        session->settings = before;
        session->folder = NULL;
    }
    return status;
}

static tt_status open(tutti_session *session, const char *path)
{
    const tt_weights_options options = {.wants_ema = true};
    tt_weights *weights = NULL;
    TT_TRY(tt__api_need_unplanned(session));
    TT_TRY(tt_weights_open(path, &options, NULL, &weights));
    const tt_status status = load(session, weights);
    tt_weights_close(weights);
    return status;
}

tutti_status tutti_open(tutti_session *session, const char *path)
{
    TT_API_NEED(session);
    TT_API_NEED(path);
    return tt__api_result(open(session, path));
}

// ---- evaluating ----------------------------------------------------------

static tt_status evaluate_in(tutti_session *session, tt_session *data,
                             tt_score *score_out)
{
    tt_evaluator *evaluator = NULL;
    bool is_stopped = false;
    TT_TRY(tt_evaluator_open(data, &evaluator));
    tt_status status =
        tt_inference_sync(tt_evaluator_infer(evaluator), session->job, false);
    if (status == TT_OK)
        status = tt_evaluator_run(evaluator, NULL, score_out, &is_stopped);
    tt_evaluator_close(evaluator);
    return status;
}

static tt_status evaluate(tutti_session *session,
                          tutti_evaluation *evaluation_out)
{
    tt_session *data = NULL;
    tt_score score = {0};
    TT_TRY(tt__api_need_build(session));
    TT_TRY(tt_session_open_peers(&session->settings, NULL, false,
                                 session->peers, &data));
    const tt_status status = evaluate_in(session, data, &score);
    tt_session_close(data);
    TT_TRY(status);
    *evaluation_out = (tutti_evaluation){.step = session->job->step,
                                         .loss = score.loss,
                                         .accuracy = score.accuracy,
                                         .perplexity = score.perplexity};
    return TT_OK;
}

tutti_status tutti_evaluate(tutti_session *session,
                            tutti_evaluation *evaluation_out)
{
    TT_API_NEED(session);
    TT_API_NEED(evaluation_out);
    return tt__api_result(evaluate(session, evaluation_out));
}

// ---- writing for others --------------------------------------------------

static tt_status find_format(const char *name, tt_port_format *format_out)
{
    static const char *const names[] = {[TT_PORT_FOLDER] = "folder",
                                        [TT_PORT_LLMC] = "llmc",
                                        [TT_PORT_ONNX] = "onnx"};
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            *format_out = (tt_port_format)i;
            return TT_OK;
        }
    return tt_fail(TT_ERR_ARG,
                   "a format is \"folder\", \"llmc\" or \"onnx\", not \"%s\"",
                   name);
}

typedef struct export_job {
    const char *from, *out;
    tt_port_format format;
    tt_arena *arena;
    tt_str notes; // lines
} export_job;

static tt_status write_model(export_job *j, const tt_port_model *model,
                             const char *folder)
{
    tt_origin origin;
    if (j->format == TT_PORT_LLMC)
        return tt_port_write_llmc(model, j->out);
    if (j->format == TT_PORT_ONNX)
        return tt_port_write_onnx(model, j->out);
    TT_TRY(tt_origin_read(folder, j->arena, &origin));
    return tt_port_write_folder(model, j->out,
                                tt_model_folder_tokenizer(folder, j->arena),
                                &origin, &j->notes);
}

static tt_status export_weights(export_job *j, const tt_weights *weights)
{
    tt_settings settings = {0};
    tt_port_model *model = NULL;
    const char *folder = tt_weights_folder(weights);
    TT_TRY(tt_port_check_out(j->out, folder, j->format, j->arena));
    TT_TRY(tt_model_folder_read(folder, j->arena, &settings));
    TT_TRY(tt_port_open(&settings, weights, TT_PORT_AS_IS, &j->notes, &model));
    const tt_status status = write_model(j, model, folder);
    tt_port_close(model);
    return status;
}

static tt_status export_path(export_job *j)
{
    const tt_weights_options options = {.wants_ema = true};
    tt_weights *weights = NULL;
    TT_TRY(tt_weights_open(j->from, &options, &j->notes, &weights));
    const tt_status status = export_weights(j, weights);
    tt_weights_close(weights);
    return status;
}

// Passes notes on, line by line.
static void tell(const tutti_watch *watch, tt_str *notes)
{
    char *rest = NULL;
    if (watch == NULL || watch->note == NULL || notes->n == 0)
        return;
    for (char *line = strtok_r(notes->text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest))
        watch->note(watch->user, 0, line);
}

tutti_status tutti_export_watched(const char *from, const char *out,
                                  const char *format, const tutti_watch *watch)
{
    TT_API_NEED(from);
    TT_API_NEED(out);
    export_job j = {.from = from, .out = out, .arena = tt_arena_create()};
    tt_status status =
        j.arena != NULL
            ? find_format(format != NULL ? format : "folder", &j.format)
            : tt_fail(TT_ERR_NOMEM, "no memory to export %s", from);
    if (status == TT_OK)
        status = export_path(&j);
    tell(watch, &j.notes);
    tt_str_fini(&j.notes);
    tt_arena_destroy(j.arena);
    return tt__api_result(status);
}

tutti_status tutti_export(const char *from, const char *out, const char *format)
{
    TT_API_NEED(from);
    TT_API_NEED(out);
    return tutti_export_watched(from, out, format, NULL);
}
