// A program's own work on many ranks.

#include "test.h"
#include "tutti/tutti.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define OK(call) CHECK_MSG((call) == TUTTI_OK, "%s: %s", #call, tutti_error())

enum { MOST = 64 * 64 };

// Memory that ranks and the process that starts them share.
typedef struct seen {
    double loss[8];
    int n_ranks, n_fed[4];
    int64_t first[4];
    float weight[MOST], grad[MOST]; // the first in the list
    int64_t n_weight;
} seen;

static seen *share(void)
{
    seen *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(s != MAP_FAILED);
    return s;
}

static tutti_session *make(const char *const settings[][2], int n)
{
    tutti_session *session = NULL;
    OK(tutti_create(&session));
    for (int i = 0; i < n; i++)
        OK(tutti_set(session, settings[i][0], settings[i][1]));
    return session;
}

typedef struct feeding {
    seen *s;
    int rank;
} feeding;

// Tokens that follow from step, sample and place alone.
static tutti_status feed(void *user, const tutti_batch *batch)
{
    feeding *f = user;
    const int64_t n = batch->x_type.dim[0], seq = batch->x_type.dim[1];
    int32_t *x = batch->x, *y = batch->y;
    CHECK(batch->x_type.count == n * seq && batch->y_type.count == n * seq);
    f->s->n_fed[f->rank] = (int)n;
    f->s->first[f->rank] = batch->first;
    for (int64_t i = 0; i < n; i++)
        for (int64_t t = 0; t < seq; t++) {
            const int64_t number = batch->step * 31 + (batch->first + i) * 7;
            x[i * seq + t] = (int32_t)((number + t * t) % 16);
            y[i * seq + t] = (int32_t)((number + (t + 1) * (t + 1)) % 16);
        }
    return TUTTI_OK;
}

static tutti_status step_six(void *user, tutti_session *session)
{
    seen *s = user;
    feeding f = {s, tutti_rank(session)};
    tutti_result result;
    tutti_tensor tensor;
    OK(tutti_build(session));
    for (int i = 0; i < 6; i++) {
        OK(tutti_step(session, feed, &f, &result));
        if (f.rank == 0)
            s->loss[i] = result.loss;
    }
    OK(tutti_tensor_at(session, 0, &tensor));
    CHECK(tensor.type.count <= MOST);
    static float weight[MOST];
    OK(tutti_read(session, tensor.name, weight,
                  tensor.type.count * (int64_t)sizeof *weight));
    char name[128];
    static float grad[MOST];
    (void)snprintf(name, sizeof name, "%s.grad", tensor.name);
    OK(tutti_read(session, name, grad,
                  tensor.type.count * (int64_t)sizeof *grad));
    OK(tutti_write(session, tensor.name, weight,
                   tensor.type.count * (int64_t)sizeof *weight));
    if (f.rank == 0) {
        s->n_ranks = tutti_rank_count(session);
        s->n_weight = tensor.type.count;
        memcpy(s->weight, weight, sizeof weight);
        memcpy(s->grad, grad, sizeof grad);
    }
    return TUTTI_OK;
}

static seen *run_gpt(int n, const char *key, const char *value)
{
    static const char *const settings[][2] = {
        {"model", "gpt"},       {"model.layers", "1"}, {"model.width", "16"},
        {"model.heads", "2"},   {"model.vocab", "16"}, {"model.context", "8"},
        {"model.dropout", "0"}, {"batch", "5"},        {"threads", "1"},
    };
    seen *s = share();
    tutti_session *session = make(settings, sizeof settings / sizeof *settings);
    OK(tutti_set(session, key, value));
    OK(tutti_ranks_run(session, n, step_six, s));
    CHECK(tutti_rank(session) == 0 && tutti_rank_count(session) == 1);
    CHECK(s->n_ranks == n && s->n_weight > 0);
    tutti_destroy(session);
    return s;
}

static void check_same(const seen *a, const seen *b)
{
    for (int i = 0; i < 6; i++)
        CHECK_CLOSE(a->loss[i], b->loss[i], 1e-5);
    CHECK(a->loss[5] < a->loss[0]);
    double most = 0, size = 0;
    for (int64_t i = 0; i < a->n_weight; i++) {
        CHECK_CLOSE(a->weight[i], b->weight[i], 1e-5);
        most = fmax(most, fabs((double)a->grad[i] - (double)b->grad[i]));
        size = fmax(size, fabs((double)b->grad[i]));
    }
    CHECK_MSG(size > 0 && most < 1e-4 * size, "%g of %g", most, size);
}

// By samples, which do not divide evenly, and by pieces of each sample.
TEST(ranks_of_a_program_step_as_one_process_does)
{
    const seen *two = run_gpt(2, "zero", "1");
    const seen *pieces = run_gpt(2, "mesh.context", "2");
    const seen *parts = run_gpt(2, "zero", "2");
    const seen *stages = run_gpt(2, "mesh.pipe", "2");
    const seen *one = run_gpt(1, "zero", "0");
    check_same(two, one);
    check_same(parts, one);
    check_same(stages, one);
    CHECK(stages->n_fed[0] == 5 && stages->n_fed[1] == 5);
    check_same(pieces, one);
    CHECK(two->n_fed[0] + two->n_fed[1] == 5 && two->first[0] == 0);
    CHECK(two->first[1] == two->n_fed[0]);
    CHECK(pieces->n_fed[0] == 5 && pieces->n_fed[1] == 5);
}

static tutti_status train_and_save(void *user, tutti_session *session)
{
    seen *s = user;
    tutti_train_result result;
    tutti_evaluation evaluation;
    OK(tutti_train(session, NULL, &result));
    CHECK(result.reason == TUTTI_RUN_DONE && result.step == 6);
    OK(tutti_evaluate(session, &evaluation));
    OK(tutti_save(session, "weights.safetensors"));
    OK(tutti_load(session, "weights.safetensors"));
    if (tutti_rank(session) == 0) {
        s->loss[0] = result.val_loss;
        s->loss[1] = evaluation.loss;
        s->n_ranks = tutti_rank_count(session);
    }
    return TUTTI_OK;
}

static void check_saved(const char *key, const char *value)
{
    static const char *const settings[][2] = {
        {"model", "mlp"},     {"model.width", "8"}, {"data", "synthetic"},
        {"data.size", "100"}, {"data.image", "8"},  {"batch", "4"},
        {"train.steps", "6"}, {"log.every", "3"},   {"run", "run"},
        {"threads", "1"},
    };
    char folder[] = "/tmp/tutti-ranks-XXXXXX";
    CHECK(mkdtemp(folder) != NULL && chdir(folder) == 0);
    seen *s = share();
    tutti_session *session = make(settings, sizeof settings / sizeof *settings);
    OK(tutti_set(session, key, value));
    OK(tutti_ranks_run(session, 2, train_and_save, s));
    CHECK(s->n_ranks == 2 && s->loss[0] > 0);
    CHECK_CLOSE(s->loss[0], s->loss[1], 1e-6);
    CHECK(access("run/metrics.jsonl", R_OK) == 0);
    CHECK(access("weights.safetensors", R_OK) == 0);
    tutti_destroy(session);
    CHECK(system("rm -r \"$PWD\"") == 0);
}

TEST(ranks_of_a_program_train_evaluate_and_save)
{
    check_saved("zero", "3");
}

TEST(stages_of_a_program_train_evaluate_and_save)
{
    check_saved("mesh.pipe", "2");
}

static tutti_status prove(void *user, tutti_session *session)
{
    seen *s = user;
    tutti_verified result;
    OK(tutti_verify(session, &result));
    CHECK(result.is_ok && !isnan(result.gradient) && result.worst != NULL);
    CHECK(result.gradient < 1e-9 && result.weight < 1e-9);
    s->n_fed[tutti_rank(session)] = 1;
    return TUTTI_OK;
}

static void check_verified(const char *key, const char *value)
{
    static const char *const settings[][2] = {
        {"model", "gpt"},      {"model.layers", "1"}, {"model.width", "16"},
        {"model.heads", "2"},  {"model.vocab", "16"}, {"model.context", "8"},
        {"precision", "fp64"}, {"threads", "1"},
    };
    seen *s = share();
    tutti_verified alone;
    tutti_session *session = make(settings, sizeof settings / sizeof *settings);
    OK(tutti_set(session, key, value));
    CHECK(tutti_verify(session, &alone) == TUTTI_ERR_STATE);
    OK(tutti_ranks_run(session, 2, prove, s));
    CHECK(s->n_fed[0] == 1 && s->n_fed[1] == 1);
    tutti_destroy(session);
}

TEST(a_program_verifies_its_layout)
{
    check_verified("mesh.tensor", "2");
    check_verified("mesh.pipe", "2");
}

static tutti_status fail_on_one(void *user, tutti_session *session)
{
    (void)user;
    return tutti_rank(session) == 1
               ? tutti_fail(TUTTI_ERR_IO, "the moon is down")
               : tutti_build(session);
}

TEST(what_fails_on_a_rank_is_told_to_the_program)
{
    static const char *const settings[][2] = {
        {"model", "mlp"}, {"image", "8"}, {"threads", "1"}};
    tutti_session *session = make(settings, 3);
    CHECK(tutti_ranks_run(session, 2, fail_on_one, NULL) != TUTTI_OK);
    CHECK_MSG(strstr(tutti_error(), "rank 1") != NULL &&
                  strstr(tutti_error(), "the moon is down") != NULL,
              "%s", tutti_error());
    CHECK(tutti_ranks_run(session, -1, fail_on_one, NULL) == TUTTI_ERR_ARG);
    CHECK(tutti_ranks_run(session, 1 << 20, fail_on_one, NULL) ==
          TUTTI_ERR_ARG);
    OK(tutti_plan(session));
    CHECK(tutti_ranks_run(session, 2, fail_on_one, NULL) == TUTTI_ERR_STATE);
    tutti_destroy(session);
}

// Only the thread that forks would go on.
TEST(ranks_are_not_forked_from_a_process_with_threads)
{
    static const char *const settings[][2] = {{"model", "mlp"}};
    tutti_session *session = make(settings, 1);
    int n = 0;
#pragma omp parallel num_threads(2) reduction(+ : n)
    n++;
    CHECK(n == 2);
    CHECK(tutti_ranks_run(session, 2, fail_on_one, NULL) == TUTTI_ERR_STATE);
    CHECK(strstr(tutti_error(), "threads") != NULL);
    tutti_destroy(session);
}
