// The whole loop from a C program.

#include "test.h"
#include "tutti/tutti.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OK(call) CHECK_MSG((call) == TUTTI_OK, "%s: %s", #call, tutti_error())

typedef struct seen {
    int points, evaluations, notes;
    int64_t last;
    double loss;
    volatile int stop;
    int64_t stop_at;
} seen;

static void on_point(void *user, const tutti_point *point)
{
    seen *s = user;
    s->points++;
    s->last = point->step;
    s->loss = point->loss;
    CHECK(point->steps == 12);
    s->stop = s->stop_at > 0 && point->step >= s->stop_at;
}

static void on_evaluation(void *user, const tutti_evaluation *evaluation)
{
    seen *s = user;
    s->evaluations++;
    // One that was broken off is made up for before the next step.
    CHECK(evaluation->step == (s->last == 0 ? 6 : s->last));
    CHECK(evaluation->loss > 0 && evaluation->accuracy >= 0);
}

static void on_note(void *user, int64_t step, const char *text)
{
    ((seen *)user)->notes++;
    CHECK(step >= 0 && text[0] != '\0');
}

static tutti_session *make_session(const char *folder)
{
    static const char *const settings[][2] = {
        {"model", "mlp"},         {"model.width", "8"}, {"data", "synthetic"},
        {"data.size", "100"},     {"data.image", "8"},  {"batch", "4"},
        {"train.steps", "12"},    {"log.every", "3"},   {"eval.every", "6"},
        {"checkpoint.keep", "9"}, {"threads", "1"},
    };
    tutti_session *session = NULL;
    OK(tutti_create(&session));
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        OK(tutti_set(session, settings[i][0], settings[i][1]));
    OK(tutti_set(session, "run", folder));
    return session;
}

static void train(const char *folder, seen *s, tutti_train_reason reason,
                  float weight[8 * 64])
{
    const tutti_watch watch = {s, on_point, on_evaluation, on_note};
    const tutti_train_options options = {.watch = &watch, .stop = &s->stop};
    tutti_train_result result;
    tutti_tensor tensor;
    tutti_session *session = make_session(folder);
    OK(tutti_train(session, &options, &result));
    CHECK(result.reason == reason);
    CHECK(result.step == s->last && result.loss == s->loss);
    OK(tutti_tensor_at(session, 0, &tensor));
    CHECK(tensor.type.count == 8 * 64);
    OK(tutti_read(session, tensor.name, weight, 8 * 64 * sizeof(float)));
    CHECK(tutti_train(session, NULL, NULL) == TUTTI_ERR_STATE);
    tutti_destroy(session);
}

TEST(a_program_trains_stops_and_goes_on_to_the_same_bits)
{
    static float whole[8 * 64], half[8 * 64], again[8 * 64];
    char folder[] = "/tmp/tutti-train-XXXXXX";
    CHECK(mkdtemp(folder) != NULL && chdir(folder) == 0);
    seen s = {0};
    train("whole", &s, TUTTI_RUN_DONE, whole);
    CHECK(s.points == 4 && s.evaluations == 2 && s.last == 12);
    s = (seen){.stop_at = 6};
    train("parts", &s, TUTTI_RUN_STOPPED, half);
    CHECK(s.points == 2 && s.last == 6);
    CHECK(memcmp(whole, half, sizeof whole) != 0);
    s = (seen){0};
    train("parts", &s, TUTTI_RUN_DONE, again);
    CHECK(s.points == 2 && s.evaluations == 2);
    CHECK(memcmp(whole, again, sizeof whole) == 0);
    CHECK(system("rm -r \"$PWD\"") == 0);
}

TEST(training_without_data_or_length_is_refused)
{
    tutti_session *session = NULL;
    OK(tutti_create(&session));
    OK(tutti_set(session, "model", "mlp"));
    CHECK(tutti_train(session, NULL, NULL) == TUTTI_ERR_ARG);
    CHECK(strstr(tutti_error(), "data is not set") != NULL);
    OK(tutti_set(session, "data", "synthetic"));
    CHECK(tutti_train(session, NULL, NULL) == TUTTI_ERR_ARG);
    CHECK(strstr(tutti_error(), "train.steps") != NULL);
    tutti_destroy(session);
}
