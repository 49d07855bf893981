// Batches ahead of time: order, workers, errors, seeking.

#include "base/alloc.h"
#include "base/clock.h"
#include "data/loader.h"
#include "data/order.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// A source that counts: token i is i, image i is filled with i. Each sample takes
// a while, and sample `bad` cannot be read.
typedef struct counting {
    tt_source source;
    int64_t bad;
    long nanoseconds;
    atomic_long *reads;
} counting;

static void pause_for(const counting *c)
{
    const struct timespec t = {.tv_nsec = c->nanoseconds};
    if (c->nanoseconds > 0)
        nanosleep(&t, NULL);
    if (c->reads != NULL)
        atomic_fetch_add(c->reads, 1);
}

static tt_status tokens(const tt_source *source, int64_t first, int64_t n,
                        int32_t *out)
{
    const counting *c = (const counting *)source;
    pause_for(c);
    for (int64_t i = 0; i < n; i++) {
        if (first + i == c->bad)
            return tt_fail(TT_ERR_IO, "token %lld is bad", (long long)c->bad);
        out[i] = (int32_t)(first + i);
    }
    return TT_OK;
}

static tt_status image(const tt_source *source, int64_t index, tt_image *out,
                       int32_t *label_out)
{
    const counting *c = (const counting *)source;
    pause_for(c);
    if (index == c->bad)
        return tt_fail(TT_ERR_IO, "image %lld is bad", (long long)index);
    TT_TRY(tt_image_reserve(out, source->channels, source->height,
                            source->width, true));
    for (int64_t i = 0; i < source->channels * source->height * source->width;
         i++)
        out->f32[i] = (float)index;
    *label_out = (int32_t)(index % 10);
    return TT_OK;
}

static void close_nothing(tt_source *source)
{
    (void)source;
}

static const tt_source_def counting_def = {
    .name = "counting",
    .doc = "",
    .close = close_nothing,
    .tokens = tokens,
    .image = image,
};

static counting count_tokens(int64_t n)
{
    return (counting){
        .source = {.def = &counting_def, .kind = TT_DATA_TOKENS, .n = n},
        .bad = -1};
}

static counting count_images(int64_t n)
{
    return (counting){.source = {.def = &counting_def,
                                 .kind = TT_DATA_IMAGES,
                                 .n = n,
                                 .classes = 10,
                                 .channels = 2,
                                 .height = 3,
                                 .width = 3},
                      .bad = -1};
}

static const tt_loader_options plain = {
    .seed = 1, .seq = 4, .step_samples = 6, .n_micro = 2, .micro_samples = 3};

static tt_loader *open_loader(const counting *c, const tt_loader_options *o)
{
    tt_loader *loader = NULL;
    CHECK_OK(tt_loader_open(&c->source, o, &loader));
    return loader;
}

static tt_batch next(tt_loader *loader)
{
    tt_batch batch = {0};
    CHECK_OK(tt_loader_next(loader, 20, &batch));
    return batch;
}

TEST(loader_gives_windows_and_the_tokens_after)
{
    const counting c = count_tokens(41);
    tt_loader *loader = open_loader(&c, &plain);
    int64_t position = 0;
    for (int b = 0; b < 9; b++) {
        const tt_batch batch = next(loader);
        const int32_t *x = batch.x;
        CHECK(batch.samples == 3);
        for (int s = 0; s < 3; s++, position++)
            for (int t = 0; t < 4; t++) {
                const int64_t want = position % 10 * 4 + t;
                CHECK(x[s * 4 + t] == want);
                CHECK(batch.y[s * 4 + t] == want + 1);
            }
    }
    tt_loader_close(loader);
}

// Parts of every micro-batch that are not equal.
TEST(loader_shares_a_step_between_ranks)
{
    const counting c = count_images(100);
    tt_loader_options o = {.seed = 3,
                           .shuffle = true,
                           .step_samples = 14,
                           .n_micro = 2,
                           .micro_stride = 7};
    const tt_order_of order = {.seed = 3, .n = 100, .shuffle = true};
    const int64_t edge[] = {0, 2, 4, 7};
    for (int rank = 0; rank < 3; rank++) {
        o.first = edge[rank];
        o.micro_samples = edge[rank + 1] - edge[rank];
        tt_loader *loader = open_loader(&c, &o);
        for (int64_t step = 0; step < 10; step++)
            for (int64_t m = 0; m < 2; m++) {
                const tt_batch batch = next(loader);
                CHECK(batch.samples == o.micro_samples);
                for (int64_t i = 0; i < o.micro_samples; i++) {
                    const int64_t position = step * 14 + o.first + m * 7 + i;
                    const int64_t want = tt_order_index(&order, position);
                    CHECK(((const float *)batch.x)[i * 18] == (float)want);
                    CHECK(batch.y[i] == want % 10);
                }
            }
        tt_loader_close(loader);
    }
}

// All bytes of `n` batches; with `seeks`, after going astray first.
static void gather(const counting *c, const tt_loader_options *o, int n,
                   bool seeks, char *out)
{
    const int64_t x_bytes = o->micro_samples * 18 * 4;
    const int64_t y_bytes = o->micro_samples * 4;
    tt_loader *loader = open_loader(c, o);
    if (seeks) {
        (void)next(loader);
        CHECK_OK(tt_loader_seek(loader, 5 * o->step_samples));
        (void)next(loader);
        CHECK_OK(tt_loader_seek(loader, 0));
    }
    for (int i = 0; i < n; i++) {
        const tt_batch batch = next(loader);
        memcpy(out, batch.x, (size_t)x_bytes);
        memcpy(out + x_bytes, batch.y, (size_t)y_bytes);
        out += x_bytes + y_bytes;
    }
    tt_loader_close(loader);
}

TEST(loader_gives_the_same_for_any_number_of_workers)
{
    const counting c = count_images(1000);
    enum { N = 12, SAMPLES = 70, BYTES = N * SAMPLES * 19 * 4 };
    char *want = malloc(BYTES), *got = malloc(BYTES);
    CHECK(want != NULL && got != NULL);
    tt_loader_options o = {
        .seed = 9,
        .shuffle = true,
        .transform = {.pad = 1, .flip = true, .is_train = true},
        .step_samples = 3 * SAMPLES,
        .n_micro = 3,
        .micro_samples = SAMPLES};
    gather(&c, &o, N, false, want);
    for (int workers = 1; workers <= 5; workers += 2)
        for (int ahead = 1; ahead <= 9; ahead += 4) {
            o.n_workers = workers;
            o.n_ahead = ahead;
            gather(&c, &o, N, ahead == 5, got);
            CHECK(memcmp(want, got, BYTES) == 0);
        }
    free(want);
    free(got);
}

TEST(loader_resumes_at_a_position)
{
    const counting c = count_tokens(1000);
    tt_loader_options o = plain;
    o.shuffle = true;
    tt_loader *a = open_loader(&c, &o);
    for (int i = 0; i < 8; i++)
        (void)next(a);
    o.position = 4 * o.step_samples;
    tt_loader *b = open_loader(&c, &o);
    for (int i = 0; i < 5; i++)
        CHECK(memcmp(next(a).x, next(b).x, 12 * 4) == 0);
    tt_loader_close(a);
    tt_loader_close(b);
}

TEST(loader_marks_what_lies_after_the_end)
{
    const counting c = count_images(7);
    tt_loader_options o = plain;
    o.end = 7;
    tt_loader *loader = open_loader(&c, &o);
    static const int64_t real[] = {3, 3, 1, 0, 0};
    for (int b = 0; b < 5; b++) {
        const tt_batch batch = next(loader);
        CHECK(batch.samples == real[b]);
        for (int64_t i = 0; i < 3; i++) {
            const bool is_real = i < real[b];
            CHECK(batch.y[i] == (is_real ? 3 * b + i : -1));
            CHECK(is_real || ((const float *)batch.x)[i * 18] == 0);
        }
    }
    tt_loader_close(loader);
}

TEST(loader_gives_an_error_where_it_happened_and_goes_on)
{
    counting c = count_images(30);
    c.bad = 7; // the second of the third batch
    for (int workers = 1; workers <= 3; workers++) {
        tt_loader_options o = plain;
        o.n_workers = workers;
        tt_loader *loader = open_loader(&c, &o);
        (void)next(loader);
        (void)next(loader);
        tt_batch batch = {.samples = -5};
        CHECK(tt_loader_next(loader, 20, &batch) == TT_ERR_IO);
        CHECK(strcmp(tt_error_message(), "image 7 is bad") == 0);
        CHECK(batch.samples == -5);
        CHECK(next(loader).y[0] == 9);
        CHECK_OK(tt_loader_seek(loader, 6));
        CHECK(tt_loader_next(loader, 20, &batch) == TT_ERR_IO);
        tt_loader_close(loader);
    }
}

TEST(loader_gives_the_first_of_several_errors)
{
    counting c = count_tokens(4 * 200 + 1);
    c.source.classes = 500; // all windows from the 124th on are wrong
    tt_loader_options o = plain;
    o.step_samples = o.micro_samples = 200;
    o.n_micro = 1;
    o.n_workers = 3;
    tt_loader *loader = open_loader(&c, &o);
    tt_batch batch;
    CHECK(tt_loader_next(loader, 20, &batch) == TT_ERR_ARG);
    CHECK_MSG(strstr(tt_error_message(), "token 500 is id 500, which a "
                                         "vocabulary of 500 does not have"),
              "%s", tt_error_message());
    tt_loader_close(loader);
}

TEST(loader_refuses_labels_that_the_model_has_not)
{
    const counting c = count_images(30);
    tt_loader_options o = plain;
    o.classes = 4;
    tt_loader *loader = open_loader(&c, &o);
    tt_batch batch = next(loader);
    CHECK(tt_loader_next(loader, 20, &batch) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "image 4: it is of class 4") != NULL);
    tt_loader_close(loader);
}

TEST(loader_waits_no_longer_than_the_deadline)
{
    counting c = count_images(30);
    c.nanoseconds = 500000000;
    tt_loader *loader = open_loader(&c, &plain);
    tt_batch batch;
    const double begin = tt_clock_seconds();
    CHECK(tt_loader_next(loader, 0.05, &batch) == TT_ERR_TIMEOUT);
    CHECK(tt_clock_seconds() - begin < 1.2); // a batch takes 1.5
    CHECK(tt_loader_waited(loader) >= 0.05);
    CHECK(next(loader).y[0] == 0); // the one that was late
    tt_loader_close(loader);
    CHECK(tt_clock_seconds() - begin < 20);
}

// A disk that is slow and works is waited for.
TEST(loader_waits_as_long_as_samples_come)
{
    counting c = count_images(30);
    c.nanoseconds = 100000000;
    tt_loader_options o = plain;
    o.step_samples = o.micro_samples = 6;
    o.n_micro = 1;
    o.n_workers = 1;
    tt_loader *loader = open_loader(&c, &o);
    tt_batch batch;
    const double begin = tt_clock_seconds();
    CHECK_OK(tt_loader_next(loader, 0.3, &batch));
    CHECK(tt_clock_seconds() - begin > 0.5); // more than the deadline
    tt_loader_close(loader);
}

TEST(loader_closes_and_seeks_without_finishing_a_batch)
{
    counting c = count_images(1000);
    c.nanoseconds = 20000000;
    tt_loader_options o = plain;
    o.step_samples = o.micro_samples = 500; // ten seconds
    o.n_micro = 1;
    o.n_workers = 2;
    const double begin = tt_clock_seconds();
    tt_loader *loader = open_loader(&c, &o);
    for (int i = 0; i < 5; i++)
        CHECK_OK(tt_loader_seek(loader, i * 500));
    tt_loader_close(loader);
    CHECK(tt_clock_seconds() - begin < 3);
}

TEST(loader_reads_ahead_but_no_further)
{
    counting c = count_images(1000);
    tt_loader_options o = plain;
    atomic_long reads = 0;
    c.reads = &reads;
    o.n_ahead = 2;
    tt_loader *loader = open_loader(&c, &o);
    (void)next(loader);
    const struct timespec t = {.tv_nsec = 50000000};
    for (int i = 0; i < 200 && atomic_load(&reads) < 9; i++)
        nanosleep(&t, NULL);
    nanosleep(&t, NULL);
    CHECK(atomic_load(&reads) == 9); // the one we hold, and two
    tt_loader_close(loader);
}

// A worker has all its memory after its first image, whenever a busy machine lets it come
// to that; so there is a round without an allocation soon.
TEST(loader_allocates_nothing_once_it_runs)
{
    const counting c = count_images(1000);
    tt_loader_options o = plain;
    o.n_workers = 2;
    o.transform.flip = o.transform.is_train = true;
    tt_loader *loader = open_loader(&c, &o);
    int64_t before = -1;
    for (int round = 0; round < 8 && tt_alloc_count() != before; round++) {
        before = tt_alloc_count();
        for (int i = 0; i < 200; i++)
            (void)next(loader);
    }
    CHECK(tt_alloc_count() == before);
    tt_loader_close(loader);
    CHECK(tt_alloc_live() == 0);
}

TEST(loader_survives_each_failing_allocation)
{
    const counting c = count_images(1000);
    tt_loader_options o = plain;
    o.n_workers = 2;
    for (int64_t k = 1; k < 100; k++) {
        tt_loader *loader = NULL;
        tt_batch batch;
        tt_alloc_fail_at(k);
        tt_status status = tt_loader_open(&c.source, &o, &loader);
        for (int i = 0; i < 3 && status == TT_OK; i++)
            status = tt_loader_next(loader, 20, &batch);
        tt_loader_close(loader);
        const bool is_through = tt_alloc_count() < k;
        tt_alloc_fail_at(0);
        CHECK(tt_alloc_live() == 0);
        CHECK(status == TT_OK || status == TT_ERR_NOMEM);
        if (is_through)
            return;
    }
    CHECK_MSG(false, "there is no end of allocations");
}

TEST(loader_says_what_would_fit)
{
    const counting c = count_tokens(50);
    tt_loader_options o = plain;
    tt_loader *loader = NULL;
    o.seq = 64;
    CHECK(tt_loader_open(&c.source, &o, &loader) == TT_ERR_ARG);
    CHECK_MSG(strstr(tt_error_message(),
                     "seq=64 needs 65 tokens and there are 50; seq=49 or less"),
              "%s", tt_error_message());
    o.seq = 49;
    CHECK_OK(tt_loader_open(&c.source, &o, &loader));
    tt_loader_close(loader);
    const counting one = count_tokens(1);
    CHECK(tt_loader_open(&one.source, &o, &loader) == TT_ERR_ARG);
    o.seq = 0;
    CHECK(tt_loader_open(&c.source, &o, &loader) == TT_ERR_ARG);
}

TEST(loader_refuses_a_step_that_is_too_small)
{
    const counting c = count_images(50);
    tt_loader_options o = plain;
    tt_loader *loader = NULL;
    o.first = 1;
    CHECK(tt_loader_open(&c.source, &o, &loader) == TT_ERR_ARG);
    o = plain;
    o.micro_stride = -1;
    CHECK(tt_loader_open(&c.source, &o, &loader) == TT_ERR_ARG);
    o.micro_stride = o.step_samples;
    o.n_micro = 2;
    CHECK(tt_loader_open(&c.source, &o, &loader) == TT_ERR_ARG);
    o = plain;
    o.position = -1;
    CHECK(tt_loader_open(&c.source, &o, &loader) == TT_ERR_ARG);
}

// A user that computes longer than a batch takes never waits.
TEST(loader_does_not_stall_a_slow_user)
{
    counting c = count_images(1000);
    c.nanoseconds = 10000000; // of three samples a batch: 30 ms
    tt_loader *loader = open_loader(&c, &plain);
    const struct timespec step = {.tv_nsec = 60000000};
    (void)next(loader);
    const double before = tt_loader_waited(loader);
    for (int i = 0; i < 15; i++) {
        nanosleep(&step, NULL);
        (void)next(loader);
    }
    const double waited = tt_loader_waited(loader) - before;
    CHECK_MSG(waited < 0.2, "%g", waited); // without workers: 0.45
    tt_loader_close(loader);
}
