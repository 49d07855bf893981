// Words that many change at once: there and back, alone in every bit, rounded right on
// average, and little is lost when threads add at the same time.

#include "base/alloc.h"
#include "base/thread.h"
#include "exchange/shared.h"
#include "test.h"

#include <math.h>
#include <string.h>

enum { N = 203 }; // no multiple of a block or a piece

static tt_shared make(bool is_wide, bool is_narrow)
{
    tt_shared s = {.span = {is_wide, N}, .is_narrow = is_narrow};
    s.words = tt_alloc_aligned(tt_shared_bytes(&s), 64);
    CHECK(s.words != NULL);
    memset(s.words, 0, (size_t)tt_shared_bytes(&s));
    return s;
}

static void fill(float *x, float by)
{
    for (int i = 0; i < N; i++)
        x[i] = by * (float)(i - 100);
}

TEST(shared_words_go_there_and_back)
{
    float x[N], y[N];
    double u[N], v[N];
    tt_shared s = make(false, false), wide = make(true, false);
    fill(x, 0.37f);
    tt_shared_write(&s, x);
    tt_shared_read(&s, y);
    CHECK(memcmp(x, y, sizeof x) == 0);
    for (int i = 0; i < N; i++)
        u[i] = 1.0 / (i + 1);
    tt_shared_write(&wide, u);
    tt_shared_read(&wide, v);
    CHECK(memcmp(u, v, sizeof u) == 0);
    tt_free_aligned(s.words);
    tt_free_aligned(wide.words);
}

TEST(shared_words_of_16_bits_are_the_nearest)
{
    float x[N], y[N];
    tt_shared s = make(false, true);
    fill(x, 0.37f);
    tt_shared_write(&s, x);
    tt_shared_read(&s, y);
    for (int i = 0; i < N; i++)
        CHECK(fabsf(x[i] - y[i]) <= fabsf(x[i]) / 256);
    tt_free_aligned(s.words);
}

TEST(shared_words_alone_become_what_a_step_says)
{
    float seen[N], next[N], want[N];
    tt_shared s = make(false, false);
    fill(seen, 1e-3f);
    fill(next, 7.7e5f); // so far that a sum would lose digits
    memcpy(want, next, sizeof want);
    tt_shared_write(&s, seen);
    tt_shared_add(&s, seen, next, 1);
    tt_shared_read(&s, seen);
    CHECK(memcmp(seen, want, sizeof want) == 0);
    CHECK(memcmp(next, want, sizeof want) == 0);
    tt_free_aligned(s.words);
}

TEST(shared_words_keep_the_changes_of_others)
{
    float seen[N] = {0}, next[N], now[N];
    tt_shared s = make(false, false);
    fill(now, 2);
    fill(next, 1);
    tt_shared_write(&s, now);
    tt_shared_add(&s, seen, next, 1);
    for (int i = 0; i < N; i++)
        CHECK(next[i] == 3 * (float)(i - 100));
    tt_free_aligned(s.words);
}

// 1 + 2^-10 is a quarter of the way from 1 to the next bf16 ... of 2^-7.
TEST(shared_changes_are_right_on_average)
{
    enum { TIMES = 4000 };
    const float small = 0x1p-10f;
    double narrow = 0, coarse = 0;
    tt_shared s = make(false, true);
    for (int k = 0; k < TIMES; k++) {
        float seen[N], next[N];
        for (int i = 0; i < N; i++) {
            seen[i] = 1;
            next[i] = 1 + (i == 0 ? 1000 : 1) * small;
        }
        tt_shared_write(&s, seen);
        tt_shared_coarsen(&s.span, seen, next, (uint64_t)k);
        for (int i = 1; i < N; i++)
            coarse += (double)(next[i] - 1) / (double)small;
        for (int i = 0; i < N; i++)
            next[i] = 1 + small;
        tt_shared_add(&s, seen, next, (uint64_t)k);
        for (int i = 0; i < N; i++)
            narrow += (double)(next[i] - 1) / (double)small;
    }
    narrow /= (double)TIMES * N;
    coarse /= (double)TIMES * (N - 1);
    CHECK_MSG(fabs(narrow - 1) < 0.02, "bf16: %g of a change", narrow);
    CHECK_MSG(fabs(coarse - 1) < 0.02, "int8: %g of a change", coarse);
    tt_free_aligned(s.words);
}

TEST(shared_copies_meet_in_the_middle)
{
    float x[N], y[N];
    tt_shared a = make(false, false), b = make(false, false);
    fill(x, 1);
    fill(y, 3);
    tt_shared_write(&a, x);
    tt_shared_write(&b, y);
    tt_shared_join(&a, &b, 1);
    tt_shared_read(&a, x);
    tt_shared_read(&b, y);
    for (int i = 0; i < N; i++)
        CHECK(x[i] == 2 * (float)(i - 100) && y[i] == x[i]);
    tt_free_aligned(a.words);
    tt_free_aligned(b.words);
}

enum { THREADS = 3, ADDS = 2000 };

static void *add_many(void *user)
{
    const tt_shared *s = user;
    float seen[N], next[N];
    for (int k = 0; k < ADDS; k++) {
        tt_shared_read(s, seen);
        for (int i = 0; i < N; i++)
            next[i] = seen[i] + 1;
        tt_shared_add(s, seen, next, 1);
    }
    return NULL;
}

TEST(ranks_as_threads_lose_few_changes)
{
    pthread_t thread[THREADS];
    float x[N];
    double sum = 0;
    tt_shared s = make(false, false);
    for (int i = 0; i < THREADS; i++)
        CHECK_OK(tt_thread_start(&thread[i], add_many, &s, "adder"));
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    tt_shared_read(&s, x);
    for (int i = 0; i < N; i++) {
        CHECK(x[i] <= THREADS * ADDS && x[i] >= 1);
        sum += (double)x[i];
    }
    CHECK_MSG(sum > 0.2 * N * THREADS * ADDS, "%g of the changes are left",
              sum / N / THREADS / ADDS);
    tt_free_aligned(s.words);
}
