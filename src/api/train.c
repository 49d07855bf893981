// train - steps on batches that the program feeds.
//
// A feed is a callback that fills in the samples of one micro-batch. On several ranks
// each rank is asked only for its own samples (batch.first says which). Where the
// layout splits single samples, the feed still fills in whole ones and this file cuts
// out the rank's piece.
//
//   feed --> whole_x, whole_y --> tt_feed_cut --> x, y of the plan

#include "api/session.h"
#include "base/alloc.h"
#include "job/feed.h"

#include <math.h>
#include <string.h>

typedef struct feeding {
    tutti_session *session;
    tutti_feed_fn *feed;
    void *user;
} feeding;

// A label beyond the last class would only show as a loss that is not a number.
static tt_status check_labels(const tutti_session *session, const void *y)
{
    const int64_t classes = session->job->classes;
    if (session->y.dtype != TUTTI_I32)
        return TT_OK;
    for (int64_t i = 0; i < session->y.count; i++) {
        const int32_t label = ((const int32_t *)y)[i];
        if (label >= classes)
            return tt_fail(TT_ERR_ARG,
                           "label %d at %lld: the last class is %lld", label,
                           (long long)i, (long long)classes - 1);
    }
    return TT_OK;
}

static tt_status feed_one(void *user, const tt_job *job, int64_t micro, void *x,
                          void *y)
{
    const feeding *f = user;
    const tutti_session *s = f->session;
    const tutti_batch batch = {.step = job->step,
                               .micro = micro,
                               .x_type = s->x,
                               .y_type = s->y,
                               .x = s->whole_x != NULL ? s->whole_x : x,
                               .y = s->whole_y != NULL ? s->whole_y : y,
                               .first = s->first};
    // The message in case the feed fails without one of its own.
    (void)tt_fail(TT_ERR_IO, "the feed failed in step %lld",
                  (long long)job->step);
    TT_TRY(tt__api_status(f->feed(f->user, &batch)));
    TT_TRY(check_labels(s, batch.y));
    if (batch.x != x)
        tt_feed_cut(job->plan, "x", batch.x, x);
    if (batch.y != y)
        tt_feed_cut(job->plan, "y", batch.y, y);
    return TT_OK;
}

// Room for whole samples, where a rank holds only a piece of each.
static tt_status make_room(const tt_plan *plan, const char *name,
                           const tutti_type *type, void **room)
{
    if (*room != NULL || tt_feed_count(plan, name) == type->count)
        return TT_OK;
    *room = tt_alloc(type->count * tutti_dtype_bytes(type->dtype));
    return *room != NULL ? TT_OK
                         : tt_fail(TT_ERR_NOMEM, "no memory for a micro-batch");
}

static tt_status step(tutti_session *session, tutti_feed_fn *feed, void *user,
                      tutti_result *result_out)
{
    feeding f = {session, feed, user};
    tt_step_result result;
    TT_TRY(tt__api_need_build(session));
    const tt_plan *plan = session->job->plan;
    TT_TRY(make_room(plan, "x", &session->x, &session->whole_x));
    TT_TRY(make_room(plan, "y", &session->y, &session->whole_y));
    tt__api_touch(session);
    session->job->wants_model = true;
    TT_TRY(tt_job_step(session->job, feed_one, &f, &result));
    session->count = result.count;
    *result_out = (tutti_result){.loss = result.loss,
                                 .count = result.count,
                                 .correct = result.correct,
                                 .norm = result.norm};
    return TT_OK;
}

tutti_status tutti_step(tutti_session *session, tutti_feed_fn *feed, void *user,
                        tutti_result *result_out)
{
    TT_API_NEED(session);
    TT_API_NEED(feed);
    TT_API_NEED(result_out);
    return tt__api_result(step(session, feed, user, result_out));
}

static const tt__api_feed *find_feed(const tutti_session *session,
                                     const char *name)
{
    for (int32_t i = 0; i < session->n_feeds; i++)
        if (strcmp(session->feed[i].name, name) == 0)
            return &session->feed[i];
    return NULL;
}

static tt_status grow_feeds(tutti_session *session)
{
    if (session->n_feeds < session->feeds_capacity)
        return TT_OK;
    const int32_t capacity = 2 * session->n_feeds + 4;
    tt__api_feed *feed =
        tt_arena_alloc(session->arena, capacity * (int64_t)sizeof *feed);
    if (feed == NULL)
        return TT_ERR_NOMEM;
    if (session->n_feeds > 0)
        memcpy(feed, session->feed, (size_t)session->n_feeds * sizeof *feed);
    session->feed = feed;
    session->feeds_capacity = capacity;
    return TT_OK;
}

static tt_status add_feed(tutti_session *session, const tt__api_feed *feed)
{
    if (find_feed(session, feed->name) != NULL)
        return tt_fail(TT_ERR_ARG, "there is a feed \"%s\" already",
                       feed->name);
    TT_TRY(grow_feeds(session));
    const char *name = tt_arena_strdup(session->arena, feed->name);
    if (name == NULL)
        return TT_ERR_NOMEM;
    session->feed[session->n_feeds++] =
        (tt__api_feed){name, feed->feed, feed->user};
    return TT_OK;
}

tutti_status tutti_feed_register(tutti_session *session, const char *name,
                                 tutti_feed_fn *feed, void *user)
{
    TT_API_NEED(session);
    TT_API_NEED(name);
    TT_API_NEED(feed);
    return tt__api_result(add_feed(session, &(tt__api_feed){name, feed, user}));
}

tutti_status tutti_step_from(tutti_session *session, const char *name,
                             tutti_result *result_out)
{
    TT_API_NEED(session);
    TT_API_NEED(name);
    TT_API_NEED(result_out);
    const tt__api_feed *feed = find_feed(session, name);
    if (feed == NULL)
        return tt__api_result(
            tt_fail(TT_ERR_ARG, "the session has no feed \"%s\"", name));
    return tutti_step(session, feed->feed, feed->user, result_out);
}

tutti_status tutti_set_rate(tutti_session *session, double rate)
{
    TT_API_NEED(session);
    tt_status status = tt__api_need_build(session);
    if (status == TT_OK && (!isfinite(rate) || rate < 0))
        status =
            tt_fail(TT_ERR_ARG, "a learning rate of %g makes no sense", rate);
    if (status == TT_OK)
        session->job->lr = rate;
    return tt__api_result(status);
}
