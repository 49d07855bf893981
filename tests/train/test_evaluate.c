// An evaluation says how far it is.

#include "test.h"
#include "train/evaluate.h"

#include <stdio.h>
#include <string.h>

static const char *const tiny[] = {
    "model=mlp",     "model.width=4", "data=synthetic",
    "data.size=400", "data.image=4",  "batch=4",
    "train.steps=6", "threads=1",     NULL};

typedef struct heard {
    int n;
    char first[128], last[128];
} heard;

static void hear(void *user, const char *text)
{
    heard *h = user;
    snprintf(h->n++ == 0 ? h->first : h->last, sizeof h->last, "%s", text);
}

TEST(an_evaluation_says_how_far_it_is)
{
    tt_arena *arena = tt_arena_create();
    tt_settings settings = {0};
    tt_session *session = NULL;
    tt_evaluator *evaluator = NULL;
    tt_score score;
    bool is_stopped = true;
    heard h = {0};
    for (const char *const *s = tiny; *s != NULL; s++)
        CHECK_OK(tt_settings_assign(&settings, *s, "test", arena));
    CHECK_OK(tt_session_open(&settings, NULL, true, &session));
    CHECK_OK(tt_job_start(session->job, NULL));
    CHECK_OK(tt_evaluator_open(session, &evaluator));
    CHECK_OK(
        tt_inference_sync(tt_evaluator_infer(evaluator), session->job, false));
    tt_evaluator_tell(evaluator, 0, hear, &h);
    CHECK_OK(tt_evaluator_run(evaluator, NULL, &score, &is_stopped));
    CHECK(!is_stopped && score.samples == 40);
    CHECK(h.n == 9); // of ten batches; the last is the end
    CHECK_MSG(strncmp(h.first, "evaluating: 1 of 10 batches, about ", 35) == 0,
              "%s", h.first);
    CHECK_MSG(strncmp(h.last, "evaluating: 9 of 10 batches, about ", 35) == 0,
              "%s", h.last);
    h.n = 0;
    tt_evaluator_tell(evaluator, 100, hear, &h);
    CHECK_OK(tt_evaluator_run(evaluator, NULL, &score, &is_stopped));
    CHECK(h.n == 0); // it was quick
    tt_evaluator_close(evaluator);
    tt_session_close(session);
    tt_arena_destroy(arena);
}
