// session - opens the data, fits the model to them, and plans the job.
//
// There is a circle to break. The model needs the vocabulary or the number of
// classes, which follow from the data. The data (synthetic ones, or images to be
// resized) need sizes that follow from the model. So all settings are read first, then
// the data are opened, then what follows from the data is set (tt_config_set), and only
// then the job is made. Settings that follow from the data are marked as such by their
// origin, so that they are not taken for the user's.

#include "session/session.h"

#include "base/alloc.h"
#include "job/workers.h"
#include "session/resolve.h"
#include "session/session_from.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char tt_session_from_data[] = "the data";
const char tt_session_chosen[] = "chosen for the data";

// An option of the model that the user gave; 0: he did not.
static int64_t given(const tt_session *s, const char *key)
{
    return tt_settings_find(&s->settings, key) == NULL
               ? 0
               : tt_config_model_i64(&s->config, strchr(key, '.') + 1);
}

// The same, or what a preset has: its name stands for that model with all its tokens
// or classes.
static int64_t asked(const tt_session *s, const char *key)
{
    return s->config.preset == NULL
               ? given(s, key)
               : tt_config_model_i64(&s->config, strchr(key, '.') + 1);
}

static tt_status set_from_data(tt_session *s, const char *key, int64_t value)
{
    char text[32];
    if (tt_settings_find(&s->settings, key) != NULL || value <= 0)
        return TT_OK;
    snprintf(text, sizeof text, "%lld", (long long)value);
    const tt_setting setting = {key, text, tt_session_from_data, false};
    return tt_config_set(&s->config, &s->settings, &setting, s->arena);
}

static tt_status contradicts(const tt_session *s, const char *key,
                             const char *what, int64_t has)
{
    const tt_setting *set = tt_settings_find(&s->settings, key);
    return tt_fail(TT_ERR_ARG,
                   "%s: %s=%s contradicts the data, which have %lld %s; leave "
                   "it out and it follows from them",
                   set->origin, key, set->value, (long long)has, what);
}

// A vocabulary larger than that of the data is fine: it is often rounded up for
// speed.
static tt_status fit_tokens(tt_session *s, const tt_source *source)
{
    const int64_t vocab = given(s, "model.vocab");
    if (vocab > 0 && vocab < source->classes)
        return contradicts(s, "model.vocab", "tokens in their vocabulary",
                           source->classes);
    return set_from_data(s, "model.vocab", source->classes);
}

// From labels alone, only a lower bound on the number of classes is known. With
// names the number is exact.
static tt_status fit_images(tt_session *s, const tt_source *source)
{
    const int64_t classes = given(s, "model.classes");
    const bool is_exact = source->class_name != NULL;
    if (classes > 0 &&
        (classes < source->classes || (is_exact && classes != source->classes)))
        return contradicts(s, "model.classes", "classes", source->classes);
    TT_TRY(set_from_data(s, "model.classes", source->classes));
    TT_TRY(set_from_data(s, "model.channels", source->channels));
    if (tt_settings_find(&s->settings, "image") == NULL &&
        (source->height <= 0 || source->height != source->width))
        return tt_fail(TT_ERR_ARG,
                       "image is not set and does not follow from the data, "
                       "whose images are not squares of one size; set image=N "
                       "(and data.resize)");
    return set_from_data(s, "image", source->height);
}

static const tt_source *source_of(const tt_data *data)
{
    return data->train != NULL ? data->train : data->val;
}

static tt_status open_data(tt_session *s, bool wants_train)
{
    const tt_config *c = &s->config;
    const bool is_image = c->model->task == TT_TASK_IMAGES;
    const tt_source_request request = {
        .seed = (uint64_t)c->top.seed,
        .wants_images = is_image,
        .image = c->top.image,
        .channels =
            is_image ? asked(s, "model.channels") : given(s, "model.channels"),
        .classes = asked(s, is_image ? "model.classes" : "model.vocab"),
        .seq = c->top.seq > 0 ? c->top.seq : tt_config_model_i64(c, "context"),
    };
    TT_TRY(tt_data_open(&s->settings, &request, wants_train, &s->data));
    const tt_source *source = source_of(s->data);
    if (is_image && s->options.sample_every > 0)
        return tt_fail(TT_ERR_ARG, "sample.every is for models that write "
                                   "text; leave it out");
    if ((source->kind == TT_DATA_IMAGES) != is_image)
        return tt_fail(TT_ERR_ARG, "model %s learns from %s and data=%s has %s",
                       c->top.model, is_image ? "images" : "tokens",
                       s->data->def->name, is_image ? "tokens" : "images");
    return is_image ? fit_images(s, source) : fit_tokens(s, source);
}

static void describe_loader(tt_session *s)
{
    const tt_job *job = s->job;
    const tt_data_options *o = &s->data->options;
    int64_t first = 0, n = 0;
    tt_job_samples(job, &first, &n);
    s->loader = (tt_loader_options){
        .seed = (uint64_t)job->options.seed,
        .shuffle = o->shuffle,
        .seq = job->io.seq,
        .classes = job->classes,
        .transform = s->data->transform,
        .step_samples = job->options.batch,
        .n_micro = job->options.accumulate,
        .first = first,
        .micro_samples = n,
        .micro_stride = job->io.batch,
        .n_workers = (int)o->workers,
        .n_ahead = (int)o->ahead,
    };
    s->loader.transform.image = job->io.image;
    s->loader.transform.channels = tt_config_model_i64(&s->config, "channels");
    s->loader.transform.is_train = true;
}

// Which data are whose, of a federation.
static tt_status divide_data(tt_session *s)
{
    tt_shares_options options;
    if (s->data->train == NULL || !tt_job_is_federated(s->job))
        return TT_OK;
    tt_job_describe_shares(s->job, &options);
    options.shuffle = s->data->options.shuffle;
    TT_TRY(tt_shares_create(s->data->train, &options, &s->shares));
    tt_job_set_shares(s->job, s->shares);
    return TT_OK;
}

// The number of steps: train.steps or train.epochs, whichever ends first.
static tt_status find_length(tt_session *s)
{
    const tt_train_options *o = &s->options;
    if (s->data->train == NULL)
        return TT_OK;
    s->epoch = tt_loader_epoch(s->data->train, s->job->io.seq);
    const double by_epochs =
        ceil(o->epochs * (double)s->epoch / (double)s->job->step_samples);
    s->steps = o->steps;
    if (o->epochs > 0 && (o->steps == 0 || by_epochs < (double)o->steps))
        s->steps = (int64_t)by_epochs;
    return TT_OK;
}

tt_status tt_session_need_length(const tt_session *session)
{
    return session->steps > 0
               ? TT_OK
               : tt_fail(TT_ERR_ARG, "how long to train is not set; set "
                                     "train.steps=N or train.epochs=N");
}

static tt_status copy_settings(tt_session *s, const tt_settings *settings)
{
    s->settings.cache = settings->cache;
    s->settings.is_plan = settings->is_plan;
    s->settings.memory = settings->memory;
    for (int64_t i = 0; i < settings->n; i++)
        TT_TRY(tt_settings_set(&s->settings, settings->v[i].key,
                               settings->v[i].value, settings->v[i].origin,
                               s->arena));
    return TT_OK;
}

static tt_status open_session(tt_session *s, const tt_settings *settings,
                              const tt_opt *extra, bool wants_train,
                              const tt_peers *peers)
{
    TT_TRY(copy_settings(s, settings));
    if (wants_train)
        TT_TRY(tt__session_take_from(s));
    TT_TRY(tt_config_read(&s->settings, extra, s->arena, &s->config));
    s->options = s->config.train;
    TT_TRY(open_data(s, wants_train));
    TT_TRY(tt_job_create(&s->config, &s->settings, peers, &s->job));
    s->job->guard = true;
    TT_TRY(tt_job_plan(s->job));
    s->job->options.seq = s->job->io.seq;
    s->job->options.image = s->job->io.image;
    describe_loader(s);
    TT_TRY(divide_data(s));
    TT_TRY(find_length(s));
    return tt__session_resolve(s);
}

tt_status tt_session_open(const tt_settings *settings, const tt_opt *extra,
                          bool wants_train, tt_session **session_out)
{
    return tt_session_open_peers(settings, extra, wants_train, NULL,
                                 session_out);
}

tt_status tt_session_open_peers(const tt_settings *settings,
                                const tt_opt *extra, bool wants_train,
                                const tt_peers *peers, tt_session **session_out)
{
    tt_session *s = tt_alloc(sizeof *s);
    tt_status status = TT_ERR_NOMEM;
    if (s != NULL)
        s->arena = tt_arena_create();
    if (s == NULL || s->arena == NULL)
        (void)tt_fail(status, "no memory for a session");
    else
        status = open_session(s, settings, extra, wants_train, peers);
    if (status != TT_OK) {
        tt_session_close(s);
        return tt_settings_fail_context(settings, status);
    }
    *session_out = s;
    return TT_OK;
}

void tt_session_close(tt_session *session)
{
    if (session == NULL)
        return;
    tt_job_close(session->job);
    tt_shares_close(session->shares);
    tt_data_close(session->data);
    tt_arena_destroy(session->arena);
    tt_free(session);
}
