// verify_settings - makes the jobs to compare from one set of settings.
//
//   MANY  the user's settings, on all ranks
//   ONE   the same without mesh, ZeRO and the like, on rank 0; of a pipe that is not
//         emptied before each update the same table, carried out by rank 0 alone
//   LOW   as ONE, in fp32; only if MANY is in bf16, fp16 or fp8
//
// Batches are random either way, but where the settings name data, these are opened:
// they decide the vocabulary, the number of classes and the length of a sequence.

#include "base/file.h"
#include "config/distribution.h"
#include "job/workers.h"
#include "session/session.h"
#include "verify/verify.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A job, and the session that owns it where data were opened; else NULL.
typedef struct opened {
    tt_session *session;
    tt_job *job;
} opened;

static void opened_close(opened *s)
{
    if (s->session == NULL)
        tt_job_close(s->job);
    tt_session_close(s->session);
}

static tt_status opened_make(tt_settings *settings, const tt_opt *extra,
                             const tt_peers *peers, opened *out)
{
    if (tt_settings_find(settings, "data") != NULL) {
        TT_TRY(
            tt_session_open_peers(settings, extra, true, peers, &out->session));
        out->job = out->session->job;
        return TT_OK;
    }
    TT_TRY(tt_job_configure_peers(settings, extra, peers, &out->job));
    out->job->guard = true; // training has the guard, so the graph needs it
    return TT_OK;
}

// The settings without those that say where to run. With another precision, weights
// keep their master copy: optim.master=false is for low precisions only.
static tt_status alone(const tt_verify_subject *v, const char *precision,
                       tt_settings *out)
{
    for (int64_t i = 0; i < v->settings->n; i++) {
        const tt_setting *s = &v->settings->v[i];
        if (!tt_distribution_needs(v->settings, s->key))
            TT_TRY(tt_settings_set(out, s->key, s->value, s->origin, v->arena));
    }
    if (precision == NULL)
        return TT_OK;
    TT_TRY(tt_settings_set(out, "optim.master", "true", "verify", v->arena));
    return tt_settings_set(out, "precision", precision, "verify", v->arena);
}

static bool is_coded(const tt_job *many)
{
    return tt_exchange_is_coded(&many->exchange) &&
           strcmp(tt_exchange_codec(&many->exchange)->name, "factors") != 0;
}

// Ranks that each have a part of a replica's samples, or of a sample, sum its gradients in another
// order than one rank that has all of it. A gradient that is zero (of the keys' biases, say) is then
// another rounding error, with another sign.
static tt_status refuse_signs(const tt_job *many)
{
    const tt_exchange *e = &many->exchange;
    const tt_codec_def *codec = tt_exchange_codec(e);
    const bool has_groups =
        e->group > 1 && strcmp(tt_exchange_policy(e)->name, "allreduce") == 0;
    const bool is_shared = many->grid.size[TT_AXIS_CONTEXT] > 1 ||
                           many->grid.size[TT_AXIS_SPACE] > 1;
    if (!codec->has_signs || many->options.exact || (!has_groups && !is_shared))
        return TT_OK;
    return tt_fail(TT_ERR_ARG,
                   "exchange.codec=%s with %s: numbers that are zero but for "
                   "rounding have signs that depend on the order of sums; "
                   "exact=true would do",
                   codec->name,
                   has_groups ? "exchange.policy=allreduce inside groups"
                              : "gradients that several ranks sum up");
}

// Whether ranks along an axis of the mesh each have a part of a weight.
static bool cuts_weights(const tt_graph *g, int axis)
{
    for (int32_t v = 0; v < g->n_values; v++)
        if (g->value[v].role == TT_ROLE_PARAM &&
            g->value[v].type.place[axis].kind == TT_SPLIT)
            return true;
    return false;
}

// One rank holds tensors whole, so it cannot make the codes of ranks that hold parts of them.
// Stages hold tensors whole, too, and ranks that share samples. An agreement about weights does
// not depend on parts, and neither do factors of gradients.
static tt_status refuse_parts(const tt_job *many)
{
    const tt_graph *g = many->graph;
    for (int a = 0; a < g->mesh.n_axes; a++)
        if (g->mesh.axis[a].size > 1 && cuts_weights(g, a) &&
            strcmp(g->mesh.axis[a].name, tt_axis_name[TT_AXIS_DATA]) != 0)
            return tt_fail(TT_ERR_ARG,
                           "exchange.codec=%s with mesh.%s=%d: each rank "
                           "encodes its part of a tensor, which one rank does "
                           "not have; verify them one without the other",
                           tt_exchange_codec(&many->exchange)->name,
                           g->mesh.axis[a].name, g->mesh.axis[a].size);
    return refuse_signs(many);
}

// One rank carries as many replicas as all ranks together do.
static tt_status carry_replicas(const tt_verify_subject *v, const tt_job *many,
                                tt_settings *out)
{
    char text[32];
    const char *caveat = tt_job_workers_caveat(many);
    if (caveat != NULL)
        return tt_fail(TT_ERR_ARG, "%s, so there is nothing to verify", caveat);
    if (tt_job_workers_are_live(many))
        return tt_fail(TT_ERR_ARG,
                       "exchange.schedule=wall: each run has an order of its "
                       "own, so there is nothing to verify; the schedule.txt "
                       "of a run as exchange.schedule repeats it to the bit");
    if (many->workers > 0)
        return tt_fail(TT_ERR_ARG,
                       "exchange.policy=%s: the states of workers that go at "
                       "their own pace are not those of one step; a run has "
                       "the same bits on any number of ranks, so train on 1 "
                       "and on %d and compare model.safetensors",
                       tt_exchange_policy(&many->exchange)->name,
                       many->peers.size);
    if (!is_coded(many) && !tt_exchange_differs(&many->exchange))
        return TT_OK;
    if (is_coded(many))
        TT_TRY(refuse_parts(many));
    snprintf(text, sizeof text, "%lld", (long long)many->exchange.replicas);
    return tt_settings_set(out, "exchange.replicas", text, "verify", v->arena);
}

// Codes of activations lose something on their way between ranks, and one rank sends
// nothing: its numbers are others.
static tt_status refuse_codes(const tt_job *many)
{
    const tt_codec_def *codec = tt_distribution_codec(&many->distribution);
    return codec == NULL || !tt_grid_shares_layers(&many->grid)
               ? TT_OK
               : tt_fail(TT_ERR_ARG,
                         "layout.codec=%s: codes lose something of what ranks "
                         "send each other, and one rank sends nothing; "
                         "layout.codec=none verifies the layout",
                         codec->name);
}

static tt_status open_alone(const tt_verify_subject *v, const tt_job *many,
                            const char *precision, opened *out)
{
    const tt_peers one = {.size = 1, .cores = v->peers->cores};
    tt_settings settings = {.cache = v->settings->cache};
    TT_TRY(alone(v, precision, &settings));
    TT_TRY(carry_replicas(v, many, &settings));
    TT_TRY(opened_make(&settings, v->extra, &one, out));
    tt_job_fold(out->job, many);
    return TT_OK;
}

static bool is_low(const tt_job *job)
{
    const int precision = job->options.precision;
    return precision == TT_PRECISION_BF16 || precision == TT_PRECISION_FP16 ||
           precision == TT_PRECISION_FP8;
}

enum { MANY, ONE, LOW, N_JOBS };

static tt_status open_all(const tt_verify_subject *v, opened *s,
                          tt_verify_request *request)
{
    TT_TRY(opened_make(v->settings, v->extra, v->peers, &s[MANY]));
    TT_TRY(refuse_codes(s[MANY].job));
    TT_TRY(tt_job_plan(s[MANY].job)); // that weights have places
    request->many = s[MANY].job;
    if (!tt_peers_is_first(v->peers))
        return TT_OK;
    TT_TRY(open_alone(v, s[MANY].job, NULL, &s[ONE]));
    request->one = s[ONE].job;
    if (is_low(s[MANY].job))
        TT_TRY(open_alone(v, s[MANY].job, "fp32", &s[LOW]));
    request->low = s[LOW].job;
    return TT_OK;
}

static tt_status make_folder(const char *base, char *path, size_t bytes)
{
    snprintf(path, bytes, "%s/tutti-verify-XXXXXX", base);
    if (mkdtemp(path) != NULL)
        return TT_OK;
    path[0] = '\0';
    return tt_fail(TT_ERR_IO,
                   "no folder for checkpoints can be made in %s; set TMPDIR",
                   base);
}

// Names point into the jobs' graphs, which are closed before the result is read.
static tt_status keep_names(tt_verify_result *r, tt_arena *arena)
{
    const char **name[] = {&r->worst_tensor, &r->culprit, &r->op, &r->origin};
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        if (*name[i] != NULL) {
            *name[i] = tt_arena_strdup(arena, *name[i]);
            if (*name[i] == NULL)
                return TT_ERR_NOMEM;
        }
    return TT_OK;
}

tt_status tt_verify_settings(const tt_verify_subject *v,
                             tt_verify_result *result_out)
{
    opened s[N_JOBS] = {{0}};
    char folder[PATH_MAX] = "";
    tt_verify_request request = {
        .arena = v->arena, .folder = folder, .steps = v->steps};
    tt_status status =
        tt_peers_agree(v->peers, "opening", open_all(v, s, &request));
    if (status == TT_OK)
        status =
            tt_peers_follow(v->peers, "opening",
                            tt_peers_is_first(v->peers)
                                ? make_folder(v->folder, folder, sizeof folder)
                                : TT_OK);
    if (status == TT_OK)
        status = tt_verify(&request, result_out);
    if (status == TT_OK && tt_peers_is_first(v->peers))
        status = keep_names(result_out, v->arena);
    if (status == TT_OK && s[MANY].job != NULL) {
        result_out->n_ranks = v->peers->size;
        result_out->model =
            tt_arena_strdup(v->arena, s[MANY].job->options.model);
    }
    if (folder[0] != '\0')
        (void)tt_file_remove(folder);
    for (int i = 0; i < N_JOBS; i++)
        opened_close(&s[i]);
    return status;
}
