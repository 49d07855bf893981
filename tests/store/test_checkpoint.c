// Checkpoints: there as a whole or not at all.

#include "base/alloc.h"
#include "base/file.h"
#include "store/checkpoint.h"
#include "store/checkpoint_world.h"
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t newest(tt_checkpoints *store, tt_str *notes)
{
    tt_checkpoint *c = NULL;
    int64_t step = -1;
    CHECK_OK(tt_checkpoints_newest(store, notes, &c));
    if (c != NULL) {
        step = c->step;
        tt_world_check(c);
    }
    tt_checkpoint_close(c);
    return step;
}

TEST(checkpoint_comes_back_as_it_was_saved)
{
    tt_world_enter();
    tt_checkpoints *store = tt_world_open(2, 0);
    CHECK(newest(store, NULL) == -1 && !tt_checkpoints_busy(store));
    tt_world_saved(store, 0);
    CHECK(newest(store, NULL) == 0);
    tt_world_saved(store, 10);
    CHECK(newest(store, NULL) == 10 && tt_world_newest() == 10);
    tt_checkpoints_close(store);
    store = tt_world_open(2, 0);
    CHECK(newest(store, NULL) == 10);
    tt_checkpoint *c = NULL;
    CHECK_OK(tt_checkpoints_upto(store, 9, NULL, &c));
    CHECK(c != NULL && c->step == 0);
    const char *text = NULL;
    int64_t n = 0;
    CHECK(tt_checkpoint_text_read(c, "none", &text, &n) == TT_ERR_ARG);
    tt_checkpoint_close(c);
    tt_checkpoints_close(store);
    tt_checkpoints_close(NULL);
    tt_world_leave();
}

TEST(checkpoint_rules_keep_the_newest_the_multiples_and_the_best)
{
    tt_world_enter();
    tt_checkpoints *store = tt_world_open(2, 100);
    for (int64_t step = 10; step <= 150; step += 10) {
        CHECK_OK(tt_world_save(store, step));
        if (step == 30 || step == 60)
            CHECK_OK(tt_checkpoints_mark_best(store, step));
    }
    CHECK_OK(tt_checkpoints_wait(store));
    CHECK(tt_checkpoints_best(store) == 60);
    CHECK_MSG(strcmp(tt_world_steps(), "60 100 140 150") == 0, "%s",
              tt_world_steps());
    CHECK_OK(tt_checkpoints_mark_best(store, 150));
    CHECK_OK(tt_checkpoints_wait(store));
    CHECK(strcmp(tt_world_steps(), "100 140 150") == 0);
    tt_checkpoint *c = NULL;
    const tt_checkpoint_search best = {.wants_best = true, .limit = 1000};
    CHECK_OK(tt_checkpoint_read("c", &best, NULL, &c));
    CHECK(c->step == 150);
    tt_checkpoint_close(c);
    CHECK_OK(tt_checkpoints_mark_best(store, 7));
    CHECK(tt_checkpoints_wait(store) == TT_ERR_ARG);
    CHECK(tt_checkpoints_best(store) == 150);
    tt_checkpoints_close(store);
    CHECK(tt_world_temporaries() == 0);
    tt_world_leave();
}

TEST(checkpoint_of_a_left_future_goes)
{
    tt_world_enter();
    tt_checkpoints *store = tt_world_open(3, 0);
    for (int64_t step = 1; step <= 4; step++)
        tt_world_saved(store, step);
    CHECK_OK(tt_checkpoints_mark_best(store, 4));
    CHECK_OK(tt_checkpoints_cut(store, 3));
    CHECK(strcmp(tt_world_steps(), "2 3") == 0);
    CHECK(tt_checkpoints_best(store) == -1 && tt_world_newest() == 3);
    tt_world_saved(store, 2); // back without a cut, the same step again
    CHECK(strcmp(tt_world_steps(), "2") == 0 && tt_world_newest() == 2);
    CHECK_OK(tt_checkpoints_cut(store, -1));
    CHECK(strcmp(tt_world_steps(), "") == 0);
    CHECK(!tt_file_exists("c/latest"));
    tt_checkpoints_close(store);
    tt_world_leave();
}

TEST(checkpoint_is_found_from_a_run_folder_and_by_itself)
{
    tt_world_enter();
    tt_checkpoints *store = tt_world_open(3, 0);
    tt_world_saved(store, 5);
    CHECK_OK(tt_checkpoints_mark_best(store, 5));
    tt_world_saved(store, 6);
    tt_checkpoints_close(store);
    CHECK(mkdir("run", 0700) == 0 && rename("c", "run/checkpoints") == 0);
    static const struct {
        const char *folder;
        bool wants_best;
        int64_t limit, step;
    } cases[] = {
        {"run", false, 99, 6},
        {"run", false, 5, 5},
        {"run", true, 99, 5},
        {"run/checkpoints", true, 99, 5},
        {"run/checkpoints/step-00000005", false, 5, 5},
        {"run/checkpoints/step-00000006/", true, 99, 6},
    };
    for (int i = 0; i < 6; i++) {
        tt_checkpoint *c = NULL;
        const tt_checkpoint_search search = {cases[i].wants_best, i % 2 == 0,
                                             cases[i].limit};
        CHECK_OK(tt_checkpoint_read(cases[i].folder, &search, NULL, &c));
        CHECK(c->step == cases[i].step);
        tt_world_check(c);
        tt_checkpoint_close(c);
    }
    tt_checkpoint *c = NULL;
    const tt_checkpoint_search early = {.wants_best = true, .limit = 4};
    CHECK(tt_checkpoint_read("run", &early, NULL, &c) == TT_ERR_IO);
    CHECK(tt_checkpoint_read("run/checkpoints/step-00000005", &early, NULL,
                             &c) == TT_ERR_IO);
    CHECK(tt_checkpoint_read("none", NULL, NULL, &c) == TT_ERR_IO);
    CHECK(mkdir("empty", 0700) == 0);
    CHECK(tt_checkpoint_read("empty", NULL, NULL, &c) == TT_ERR_IO);
    CHECK(strcmp(tt_error_message(),
                 "empty: has no checkpoint that can be used") == 0);
    tt_world_leave();
}

TEST(checkpoint_content_that_makes_no_sense_is_refused)
{
    tt_world_enter();
    tt_checkpoints *store = tt_world_open(1, 0);
    const tt_checkpoint_text slash = {"../x", "", 0};
    const tt_checkpoint_text twice[] = {{"a", "", 0}, {"a", "", 0}};
    const tt_checkpoint_text ours = {"state.json", "", 0};
    const tt_checkpoint_text model = {"model.safetensors", "", 0};
    const tt_checkpoint_content bad[] = {
        {.step = -1},
        {.state = "[]"},
        {.state = "{\"a\": }"},
        {.text = &slash, .n_text = 1},
        {.text = twice, .n_text = 2},
        {.text = &ours, .n_text = 1},
        {.text = &model, .n_text = 1},
    };
    for (int i = 0; i < 7; i++)
        CHECK_MSG(tt_checkpoints_save(store, &bad[i]) == TT_ERR_ARG, "%d", i);
    const tt_safetensor odd = {"a", "F99", 0, NULL, 0, 0, "x"};
    const tt_checkpoint_content late = {.model = &odd, .n_model = 1};
    CHECK_OK(tt_checkpoints_save(store, &late));
    CHECK(tt_checkpoints_wait(store) == TT_ERR_ARG);
    CHECK_OK(tt_checkpoints_wait(store));
    const tt_checkpoint_content least = {.step = 3};
    CHECK_OK(tt_checkpoints_save(store, &least));
    CHECK_OK(tt_checkpoints_wait(store));
    tt_checkpoint *c = NULL;
    CHECK_OK(tt_checkpoints_newest(store, NULL, &c));
    CHECK(c->step == 3 && c->optim == NULL && strcmp(c->state, "{}") == 0);
    CHECK(tt_safetensors_count(c->model) == 0);
    tt_checkpoint_close(c);
    tt_checkpoints_close(store);
    tt_checkpoint_rules rules = {0, 0};
    CHECK(tt_checkpoints_open("c", &rules, &store) == TT_ERR_ARG);
    tt_world_leave();
}

TEST(checkpoint_reports_a_failed_save_once)
{
    tt_world_enter();
    tt_checkpoints *store = tt_world_open(2, 0);
    tt_world_saved(store, 1);
    tt_file_fail_from(3, ENOSPC);
    CHECK_OK(tt_world_save(store, 2));
    CHECK(tt_world_save(store, 3) == TT_ERR_IO);
    tt_file_fail_at(0, 0);
    CHECK(strstr(tt_error_message(), "checkpoint of step 2: ") != NULL);
    CHECK(strstr(tt_error_message(), "the disk is full") != NULL);
    tt_world_saved(store, 3);
    CHECK(strcmp(tt_world_steps(), "1 3") == 0);
    tt_checkpoints_close(store);
    tt_checkpoints_close(tt_world_open(2, 0));
    CHECK(tt_world_temporaries() == 0);
    tt_world_leave();
}

// Save 20 after 10 with the k-th call failing, alone or with all later ones.
static bool fails_at(int64_t k, int error, bool is_forever, bool is_now)
{
    CHECK_OK(tt_file_remove("c"));
    tt_checkpoints *store = tt_world_open(1, 0);
    tt_world_saved(store, 10);
    const int64_t live = tt_alloc_live();
    const int descriptors = tt_world_descriptors();
    (is_forever ? tt_file_fail_from : tt_file_fail_at)(k, error);
    if (!is_now)
        CHECK_OK(tt_world_save(store, 20));
    const tt_status status =
        is_now ? tt_world_save_now(store, 20) : tt_checkpoints_wait(store);
    const bool is_done = tt_file_count() < k;
    tt_file_fail_at(0, 0);
    CHECK(status == (is_done ? TT_OK : TT_ERR_IO));
    CHECK(is_done || error != ENOSPC ||
          strstr(tt_error_message(), "the disk is full") != NULL);
    CHECK(tt_alloc_live() == live && tt_world_descriptors() == descriptors);
    const int64_t step = tt_world_newest();
    CHECK(step == 20 || (step == 10 && !is_done));
    tt_checkpoints_close(store);
    store = tt_world_open(1, 0);
    CHECK(tt_world_temporaries() == 0 && newest(store, NULL) == step);
    tt_world_saved(store, 30);
    CHECK(strcmp(tt_world_steps(), "30") == 0);
    tt_checkpoints_close(store);
    return !is_done;
}

TEST(checkpoint_survives_a_failure_of_every_call)
{
    tt_world_enter();
    for (int i = 0; i < 4; i++) {
        int64_t k = 1;
        while (fails_at(k, i % 2 ? EIO : ENOSPC, i / 2, false))
            k++;
        CHECK(k > 30 && k < 100);
    }
    tt_world_leave();
}

TEST(checkpoint_written_piece_by_piece_survives_a_failure_of_every_call)
{
    tt_world_enter();
    for (int i = 0; i < 4; i++) {
        int64_t k = 1;
        while (fails_at(k, i % 2 ? EIO : ENOSPC, i / 2, true))
            k++;
        CHECK(k > 30 && k < 100);
    }
    tt_world_leave();
}

static tt_status fail_to_fetch(void *user, const tt_safetensor *tensor,
                               const void **data_out)
{
    (void)user;
    (void)tensor;
    (void)data_out;
    return tt_fail(TT_ERR_PEER, "nobody is there");
}

// Behind what is written in the background, with what that failed with; and what
// cannot be fetched leaves the older ones as they are.
TEST(checkpoint_written_piece_by_piece_takes_its_turn)
{
    tt_world_enter();
    tt_checkpoints *store = tt_world_open(3, 0);
    CHECK_OK(tt_world_save(store, 1));
    CHECK_OK(tt_world_save_now(store, 2));
    CHECK(tt_world_newest() == 2);
    CHECK_OK(tt_checkpoints_mark_best(store, 1));
    CHECK_OK(tt_checkpoints_wait(store));
    tt_file_fail_from(3, ENOSPC);
    CHECK_OK(tt_world_save(store, 3));
    CHECK(tt_world_save_now(store, 4) == TT_ERR_IO);
    CHECK(strstr(tt_error_message(), "checkpoint of step 3: ") != NULL);
    tt_file_fail_at(0, 0);
    const int64_t shape[] = {2};
    const tt_safetensor t = {
        .name = "w", .dtype = "F32", .ndim = 1, .shape = shape};
    const tt_checkpoint_content content = {
        .step = 5, .model = &t, .n_model = 1, .fetch = fail_to_fetch};
    CHECK(tt_checkpoints_save_now(store, &content) == TT_ERR_PEER);
    CHECK(strstr(tt_error_message(), "nobody is there") != NULL);
    CHECK(strcmp(tt_world_steps(), "1 2") == 0);
    CHECK(tt_checkpoints_best(store) == 1);
    tt_checkpoints_close(store);
    tt_checkpoints_close(tt_world_open(3, 0));
    CHECK(tt_world_temporaries() == 0);
    tt_world_leave();
}

TEST(checkpoint_open_survives_a_failure_of_every_call)
{
    tt_world_enter();
    const tt_checkpoint_rules rules = {1, 0};
    for (int64_t k = 1;; k++) {
        CHECK_OK(tt_file_remove("c"));
        CHECK_OK(tt_file_make_folder("c/.tmp-step-00000003-17-4/x"));
        CHECK_OK(tt_file_remove("d"));
        tt_checkpoints *store = NULL;
        tt_file_fail_at(k, EIO);
        tt_status status = tt_checkpoints_open("c", &rules, &store);
        if (status == TT_OK) {
            tt_checkpoints_close(store);
            status = tt_checkpoints_open("d/e", &rules, &store);
            if (status == TT_OK)
                tt_checkpoints_close(store);
        }
        const bool is_done = tt_file_count() < k;
        tt_file_fail_at(0, 0);
        CHECK(status == TT_OK || (!is_done && status == TT_ERR_IO));
        CHECK(tt_alloc_live() == 0);
        if (is_done)
            break;
        CHECK(k < 30);
    }
    tt_world_leave();
}

TEST(checkpoint_survives_a_failure_of_every_allocation)
{
    tt_world_enter();
    tt_checkpoints *store = tt_world_open(1, 0);
    tt_world_saved(store, 10);
    const int64_t live = tt_alloc_live();
    for (int64_t k = 1;; k++) {
        tt_checkpoint *c = NULL;
        tt_alloc_fail_at(k);
        tt_status status = tt_world_save(store, 20);
        if (status == TT_OK)
            status = tt_checkpoints_wait(store);
        if (status == TT_OK)
            status = tt_checkpoints_newest(store, NULL, &c);
        const bool is_done = tt_alloc_count() < k;
        tt_alloc_fail_at(0);
        CHECK(status == TT_OK || status == TT_ERR_NOMEM);
        CHECK(!is_done || status == TT_OK);
        tt_checkpoint_close(c);
        CHECK(tt_alloc_live() == live);
        CHECK(tt_world_newest() >= 10);
        if (is_done)
            break;
        CHECK(k < 1000);
    }
    tt_checkpoints_close(store);
    tt_world_leave();
}

TEST(checkpoint_folder_has_one_owner)
{
    tt_world_enter();
    tt_checkpoints *store = tt_world_open(1, 0), *other = NULL;
    const tt_checkpoint_rules rules = {1, 0};
    CHECK(tt_checkpoints_open("c", &rules, &other) == TT_ERR_STATE);
    CHECK(strstr(tt_error_message(), "c is in use by process ") != NULL);
    tt_world_saved(store, 1);
    CHECK(tt_world_newest() == 1); // readers need no lock
    tt_checkpoints_close(store);
    tt_world_leave();
}
