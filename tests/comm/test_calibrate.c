// Links are measured once, and all ranks draw the same conclusions.

#include "base/file.h"
#include "comm/calibrate.h"
#include "comm/transport/shm.h"
#include "comm/transport/transport.h"
#include "test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_RANKS = 3 };

typedef struct actor {
    tt_comm *comm;
    const tt_calibrate_options *options;
    tt_calibration found;
    tt_status status;
} actor;

static void *act(void *user)
{
    actor *a = user;
    a->status = tt_calibrate(a->comm, a->options, &a->found);
    return NULL;
}

static void calibrate(const tt_calibrate_options *options,
                      const tt_slow_options *slow, actor actors[N_RANKS])
{
    tt_shm_world *world = NULL;
    pthread_t thread[N_RANKS];
    CHECK_OK(tt_shm_world_create(N_RANKS, 1 << 20, &world));
    for (int i = 0; i < N_RANKS; i++) {
        actors[i] = (actor){.options = options};
        CHECK_OK(tt_shm_open(world, i, 30, &actors[i].comm));
        if (slow != NULL)
            CHECK_OK(tt_slow_open(actors[i].comm, slow, &actors[i].comm));
    }
    for (int i = 0; i < N_RANKS; i++)
        CHECK(pthread_create(&thread[i], NULL, act, &actors[i]) == 0);
    for (int i = 0; i < N_RANKS; i++) {
        CHECK(pthread_join(thread[i], NULL) == 0);
        CHECK(actors[i].status == TT_OK);
        tt_comm_close(actors[i].comm);
    }
    tt_shm_world_destroy(world);
}

static bool is_same(const tt_calibration *a, const tt_calibration *b)
{
    return a->near.latency == b->near.latency &&
           a->near.per_byte == b->near.per_byte &&
           a->far.latency == b->far.latency &&
           a->far.per_byte == b->far.per_byte &&
           a->native.latency == b->native.latency &&
           a->native.per_byte == b->native.per_byte && a->fold == b->fold &&
           a->is_native_ordered == b->is_native_ordered;
}

static char folder[] = "/tmp/tutti-calibrate-XXXXXX";
static char path[64];

static tt_calibrate_options in_folder(void)
{
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/a/b.json", folder);
    return (tt_calibrate_options){.path = path};
}

TEST(calibration_is_the_same_on_all_ranks_and_kept)
{
    const tt_calibrate_options o = in_folder();
    actor first[N_RANKS], again[N_RANKS];
    calibrate(&o, NULL, first);
    CHECK(first[0].found.is_measured && tt_file_exists(path));
    CHECK(first[0].found.near.latency > 0 && first[0].found.fold > 0);
    CHECK(first[0].found.native.per_byte > 0);
    calibrate(&o, NULL, again);
    for (int i = 0; i < N_RANKS; i++) {
        CHECK(is_same(&first[0].found, &first[i].found));
        CHECK(!again[i].found.is_measured);
        CHECK(is_same(&first[0].found, &again[i].found));
    }
    CHECK_OK(tt_file_remove(folder));
}

TEST(calibration_refuses_wrong_files_quietly)
{
    static const char *const wrong[] = {
        "",
        "{",
        "[]",
        "{\"version\": 1}",
        "\xff\xfe",
        "{\"version\": 1, \"about\": \"shm 3 1e-06 1.5e-10\", \"fold\": 1}"};
    const tt_calibrate_options o = in_folder();
    actor actors[N_RANKS];
    CHECK_OK(tt_file_make_folder(folder));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        calibrate(&o, NULL, actors); // so that the folder is there
        CHECK_OK(tt_file_replace(path, wrong[i], (int64_t)strlen(wrong[i])));
        calibrate(&o, NULL, actors);
        CHECK_MSG(actors[1].found.is_measured, "%s was believed", wrong[i]);
        calibrate(&o, NULL, actors);
        CHECK(!actors[1].found.is_measured);
    }
    CHECK_OK(tt_file_remove(folder));
}

TEST(calibration_of_other_links_is_measured_anew)
{
    const tt_calibrate_options o = in_folder();
    const tt_slow_options a = {.rate = 1e8, .latency = 1e-3},
                          b = {.rate = 2e8, .latency = 1e-3};
    actor actors[N_RANKS];
    calibrate(&o, NULL, actors);
    calibrate(&o, &a, actors);
    CHECK(actors[0].found.is_measured && actors[0].found.native.per_byte == 0);
    CHECK(actors[0].found.near.latency > 2e-4);
    CHECK_MSG(actors[0].found.near.per_byte > 0.5e-8 &&
                  actors[0].found.near.per_byte < 1e-6,
              "%g", actors[0].found.near.per_byte);
    calibrate(&o, &b, actors);
    CHECK(actors[0].found.is_measured);
    const int32_t host[N_RANKS] = {0, 1, 1};
    const tt_calibrate_options split = {.path = path, .host = host};
    calibrate(&split, &b, actors);
    CHECK(actors[0].found.is_measured);
    CHECK_OK(tt_file_remove(folder));
}

TEST(calibration_lives_where_nothing_can_be_written)
{
    actor actors[N_RANKS];
    const tt_calibrate_options o = {.path = "/proc/none/tutti.json"};
    calibrate(&o, NULL, actors);
    CHECK(actors[2].found.is_measured);
}

// ---- what follows --------------------------------------------------------

static const tt_calibration network = {
    .near = {2e-6, 1e-10}, .far = {5e-5, 8e-9}, .fold = 1e-10};

static const char *chosen(const tt_calibration *c, tt_coll_kind kind,
                          int64_t bytes, const tt_group *g)
{
    return tt_coll_choose(c, kind, bytes, g)->name;
}

TEST(choice_folds_in_one_order_whatever_was_measured)
{
    for (int n = 1; n <= 9; n++)
        for (int64_t bytes = 0; bytes < 1 << 26; bytes = 3 * bytes + 1)
            for (int k = 0; k < 27; k++) {
                static const double factor[] = {1, 1e-3, 1e3};
                tt_calibration c = network;
                const tt_group g = {.n = n};
                c.near.latency *= factor[k % 3];
                c.near.per_byte *= factor[k / 3 % 3];
                c.fold *= factor[k / 9];
                CHECK(tt_coll_choose(&c, TT_ALL_REDUCE, bytes, &g)->is_ordered);
                CHECK(tt_coll_choose(&c, TT_REDUCE_SCATTER, bytes, &g)
                          ->is_ordered);
            }
}

TEST(choice_follows_size_and_kind)
{
    const tt_group four = {.n = 4};
    CHECK(strcmp(chosen(&network, TT_ALL_REDUCE, 1 << 24, &four), "direct") ==
          0);
    CHECK(strcmp(chosen(&network, TT_BROADCAST, 8, &four), "tree") == 0);
    CHECK(strcmp(chosen(&network, TT_GATHER, 8, &four), "tree") == 0);
    tt_calibration shared = network;
    shared.native = (tt_link){1e-6, 1e-10};
    CHECK(strcmp(chosen(&shared, TT_ALL_REDUCE, 1 << 24, &four), "direct") ==
          0);
    shared.is_native_ordered = true;
    CHECK(strcmp(chosen(&shared, TT_ALL_REDUCE, 1 << 24, &four), "native") ==
          0);
    CHECK(strcmp(chosen(&shared, TT_BROADCAST, 8, &four), "tree") == 0);
}

TEST(bucket_grows_with_latency)
{
    const int32_t host[] = {0, 1, 2, 3};
    const tt_group far = {.n = 4, .host = host}, near = {.n = 4};
    tt_calibration c = network;
    CHECK(tt_calibration_bucket(&c, &near) >= 1 << 20);
    const int64_t bytes = tt_calibration_bucket(&c, &far);
    CHECK(bytes >= 1 << 20 && bytes <= 64 << 20);
    c.far.latency = 1e-2;
    CHECK(tt_calibration_bucket(&c, &far) > bytes);
    c.far.latency = 1;
    CHECK(tt_calibration_bucket(&c, &far) == 64 << 20);
    CHECK(tt_calibration_bucket(&(tt_calibration){0}, &near) == 1 << 20);
}
