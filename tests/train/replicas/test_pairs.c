// Every policy with every codec, by their registries: 50 steps of a small GPT and of a small
// convolutional net bring the loss down, or the pair is refused with a sentence that says what
// would do.

#include "codec/codec.h"
#include "test.h"
#include "train/jobs.h"
#include "train/replicas/outcomes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct tally {
    int trained, refused, failed;
} tally;

static const family gpt = {"gpt",
                           {"model=gpt", "model.layers=1", "model.width=16",
                            "model.heads=2", "model.vocab=17", "seq=8", NULL},
                           false};
static const family conv = {
    "lenet", {"model=lenet", "model.classes=5", "image=28", NULL}, true};

// Whether it is a sentence that names the setting that would do.
static bool is_sentence(const char *message)
{
    return strstr(message, "would do") != NULL ||
           strstr(message, "exchange.codec=none") != NULL;
}

static tt_status train(tt_job *job, double *first_out, double *last_out)
{
    enum { STEPS = 50 };
    tt_step_result r = {0};
    for (int i = 0; i < STEPS; i++) {
        TT_TRY(tt_job_step(job, feed_one_batch, NULL, &r));
        *first_out = i == 0 ? r.loss : *first_out;
    }
    *last_out = r.loss;
    return TT_OK;
}

static void say(tally *t, const family *f, const char *const *setting,
                const char *what)
{
    fprintf(stderr, "%s:", f->name);
    for (; *setting != NULL; setting++)
        fprintf(stderr, " %s", *setting);
    fprintf(stderr, ": %s\n", what);
    t->failed++;
}

// One pair on one model.
static void try_pair(const family *f, const char *const *setting, tally *t)
{
    tt_arena *arena = tt_arena_create();
    tt_settings settings = {0};
    tt_job *job = NULL;
    double first = 0, last = 0;
    char what[512];
    family_settings(f, setting, &settings, arena);
    tt_status status = family_start(&settings, false, &job);
    if (status == TT_ERR_ARG && is_sentence(tt_error_message())) {
        t->refused++;
    } else if (status != TT_OK ||
               (status = train(job, &first, &last)) != TT_OK) {
        snprintf(what, sizeof what, "%s", tt_error_message());
        say(t, f, setting, what);
    } else if (!(last < 0.97 * first)) {
        snprintf(what, sizeof what, "loss %g, then %g", first, last);
        say(t, f, setting, what);
    } else {
        t->trained++;
    }
    if (job != NULL)
        tt_job_close(job);
    tt_arena_destroy(arena);
}

static tally try_pairs(void)
{
    static const char *const usual[] = {"exchange.replicas=2", "batch=4",
                                        "optim=sgd",           "optim.lr=0.1",
                                        "threads=1",           NULL};
    int n_policies = 0, n_codecs = 0;
    const tt_policy_def *const *policy = tt_policy_all(&n_policies);
    const tt_codec_def *const *codec = tt_codec_all(&n_codecs);
    tt_arena *arena = tt_arena_create();
    tally t = {0};
    for (int i = 0; i < n_policies; i++)
        for (int k = 0; k < n_codecs; k++) {
            const char *setting[SETTINGS];
            int n = 0;
            with_policy(policy[i],
                        policy[i]->samples != NULL ? policy[i]->samples[0] : "",
                        usual, arena, setting);
            while (setting[n] != NULL)
                n++;
            setting[n] =
                tt_arena_printf(arena, "exchange.codec=%s", codec[k]->name);
            setting[n + 1] = NULL;
            try_pair(&gpt, setting, &t);
            try_pair(&conv, setting, &t);
        }
    tt_arena_destroy(arena);
    fprintf(stderr,
            "note: policy x codec, on two models each: %d trained, %d refused, "
            "%d failed\n",
            t.trained, t.refused, t.failed);
    return t;
}

TEST_SLOW(every_policy_trains_with_every_codec_or_refuses_it, 240)
{
    const tally t = try_pairs();
    CHECK(t.failed == 0 && t.trained > 0 && t.refused > 0);
}
