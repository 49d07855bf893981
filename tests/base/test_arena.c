// Arenas: aligned, zeroed, of any size, freed at once.

#include "base/alloc.h"
#include "base/arena.h"
#include "base/status.h"
#include "test.h"

#include <sanitizer/asan_interface.h>
#include <stdint.h>
#include <string.h>

TEST(arena_blocks_are_aligned_zeroed_and_apart)
{
    tt_arena *arena = tt_arena_create();
    CHECK(arena != NULL);
    unsigned char *last = NULL;
    for (int64_t i = 0; i < 20000; i++) {
        const int64_t n = i % 97;
        unsigned char *p = tt_arena_alloc(arena, n);
        CHECK(p != NULL && (uintptr_t)p % 16 == 0 && p != last);
        for (int64_t k = 0; k < n; k++)
            CHECK(p[k] == 0);
        memset(p, 0xff, (size_t)n);
        last = p;
    }
    CHECK(tt_arena_bytes(arena) >= 20000 * 48);
    CHECK(tt_alloc_live() < 12); // chunks grow
    tt_arena_destroy(arena);
    CHECK(tt_alloc_live() == 0);
}

TEST(arena_takes_large_blocks_and_keeps_its_chunk)
{
    tt_arena *arena = tt_arena_create();
    char *a = tt_arena_alloc(arena, 16);
    char *big = tt_arena_alloc(arena, 5 << 20);
    char *b = tt_arena_alloc(arena, 16);
    CHECK(a != NULL && big != NULL && b > a && b < a + 64);
    big[(5 << 20) - 1] = 1;
    tt_arena_destroy(arena);
}

#ifdef __SANITIZE_ADDRESS__
// A block as large as a chunk, small ones, one of no bytes; the last byte of each
// is the last that may be touched.
TEST(arena_blocks_are_guarded_under_asan)
{
    static const int64_t sizes[] = {1, 0, 7, 64 << 10, 16, 24, 300, 5 << 20};
    tt_arena *arena = tt_arena_create();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const int64_t n = sizes[i];
        const int64_t guard = n > 2048 ? 2048 : n > 0 ? n : 1;
        char *p = tt_arena_alloc(arena, n);
        CHECK(p != NULL);
        CHECK(__asan_region_is_poisoned(p, (size_t)n) == NULL);
        for (int64_t k = n; k < n + guard; k++)
            CHECK(__asan_address_is_poisoned(p + k));
    }
    tt_arena_destroy(arena);
}
#endif

TEST(arena_copies_text)
{
    tt_arena *arena = tt_arena_create();
    CHECK(strcmp(tt_arena_strdup(arena, "text"), "text") == 0);
    CHECK(strcmp(tt_arena_printf(arena, "%s-%d", "a", 12), "a-12") == 0);
    const int numbers[] = {1, 2, 3};
    const int *copy = tt_arena_copy(arena, numbers, sizeof(numbers));
    CHECK(copy[2] == 3);
    tt_arena_destroy(arena);
    tt_arena_destroy(NULL);
}

TEST(arena_says_when_memory_is_out)
{
    tt_arena *arena = tt_arena_create();
    tt_fail(TT_OK, "%s", "");
    CHECK(tt_arena_alloc(arena, -1) == NULL);
    CHECK(strstr(tt_error_message(), "out of memory") != NULL);
    CHECK(tt_arena_alloc(arena, INT64_MAX) == NULL);
    CHECK(tt_arena_alloc(arena, INT64_MAX / 2 - 1) == NULL);
    tt_alloc_fail_at(1);
    CHECK(tt_arena_strdup(arena, "x") == NULL);
    CHECK(tt_arena_strdup(arena, "x") != NULL);
    tt_alloc_fail_at(1);
    CHECK(tt_arena_create() == NULL);
    tt_alloc_fail_at(0);
    tt_arena_destroy(arena);
    CHECK(tt_alloc_live() == 0);
}
