// The allocator: zeroed, aligned, counted, failing on demand.

#include "base/alloc.h"
#include "test.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool is_zero(const unsigned char *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (p[i] != 0)
            return false;
    return true;
}

TEST(alloc_is_zeroed_and_counted)
{
    const int64_t live = tt_alloc_live();
    unsigned char *p = tt_alloc(1000);
    CHECK(p != NULL && is_zero(p, 1000));
    CHECK(tt_alloc_live() == live + 1);
    tt_free(p);
    tt_free(NULL);
    CHECK(tt_alloc_live() == live);
}

TEST(alloc_of_nothing_is_a_block)
{
    void *p = tt_alloc(0);
    CHECK(p != NULL);
    tt_free(p);
}

TEST(absurd_sizes_fail)
{
    CHECK(tt_alloc(-1) == NULL);
    CHECK(tt_alloc(INT64_MAX) == NULL);
    CHECK(tt_alloc(INT64_MIN) == NULL);
    CHECK(tt_alloc_aligned(INT64_MAX, 64) == NULL);
    CHECK(tt_alloc_aligned(-5, 64) == NULL);
    CHECK(tt_alloc_aligned(64, 96) == NULL);
    CHECK(tt_alloc_live() == 0);
}

TEST(realloc_keeps_and_zeroes)
{
    unsigned char *p = tt_realloc(NULL, 0, 10);
    memset(p, 7, 10);
    p = tt_realloc(p, 10, 5000);
    CHECK(p != NULL && p[9] == 7 && is_zero(p + 10, 4990));
    CHECK(tt_realloc(p, 5000, -1) == NULL && p[9] == 7);
    p = tt_realloc(p, 5000, 3);
    CHECK(p[2] == 7 && tt_alloc_live() == 1);
    tt_free(p);
}

TEST(aligned_blocks_are_aligned_zeroed_and_free)
{
    const int64_t sizes[] = {0, 1, 63, 4096, 1 << 20, 3 << 20, (40 << 20) + 1};
    for (int64_t align = 64; align <= 4 << 20; align *= 4)
        for (int i = 0; i < 7; i++) {
            unsigned char *p = tt_alloc_aligned(sizes[i], align);
            CHECK(p != NULL && (uintptr_t)p % (uint64_t)align == 0);
            CHECK(is_zero(p, sizes[i] < 5000 ? sizes[i] : 5000));
            if (sizes[i] > 0)
                p[0] = p[sizes[i] - 1] = 1;
            tt_free_aligned(p);
        }
    tt_free_aligned(NULL);
    CHECK(tt_alloc_live() == 0);
}

static int64_t resident_bytes(void)
{
    long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    CHECK(f != NULL && fscanf(f, "%*s %lld", &pages) == 1);
    fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

TEST(untouched_pages_cost_nothing)
{
    const int64_t before = resident_bytes();
    unsigned char *p = tt_alloc_aligned((int64_t)1 << 30, 64);
    CHECK(p != NULL);
    memset(p, 1, 10 << 20);
    CHECK(resident_bytes() - before < 14 << 20);
    tt_free_aligned(p);
    CHECK(resident_bytes() - before < 4 << 20);
}

TEST(only_the_chosen_allocation_fails)
{
    tt_alloc_fail_at(2);
    void *a = tt_alloc(8);
    void *b = tt_alloc_aligned(8, 64);
    void *c = tt_alloc(8);
    CHECK(a != NULL && b == NULL && c != NULL);
    CHECK(tt_alloc_count() == 3 && tt_alloc_live() == 2);
    tt_alloc_fail_at(1);
    CHECK(tt_realloc(a, 8, 16) == NULL);
    tt_alloc_fail_at(0);
    CHECK(tt_alloc_count() == 0);
    tt_free(a);
    tt_free(c);
}
