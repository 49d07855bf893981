// alloc - counted, zeroed, injectable allocation.
//
// All memory of the program comes from here. Three things follow. Memory is zeroed, so
// nothing depends on what was there before. Blocks and bytes are counted, so tests find
// leaks and the peak is known. And the k-th allocation can be made to fail: tests do
// that for each k, so every path of "out of memory" has run.
//
// Small aligned blocks come from the heap with a header in front. From 1 MiB on
// they are mapped, with the header in a page of its own; the mapping is trimmed
// to what was asked for, and from 32 MiB on it starts at a huge page.

#include "base/alloc.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    PAGE = 64 << 10, // a multiple of every machine's page size
    HUGE_PAGE = 2 << 20,
    MAP_FROM = 1 << 20,
    HINT_FROM = HUGE_PAGE,
    HUGE_FROM = 32 << 20,
    MIN_ALIGN = 64,
};

static const int64_t max_bytes = (int64_t)1 << 40; // more is a mistake

typedef struct header {
    void *base;     // what the heap returned; NULL when mapped
    int64_t mapped; // bytes from the header's page on
} header;

static atomic_llong n_calls;
static atomic_llong n_live;
static atomic_llong fail_at;
static atomic_llong n_bytes;
static atomic_llong peak;

static void count_bytes(int64_t bytes)
{
    const long long now = atomic_fetch_add(&n_bytes, bytes) + bytes;
    long long most = atomic_load(&peak);
    while (now > most && !atomic_compare_exchange_weak(&peak, &most, now))
        continue;
}

static bool may_allocate(int64_t bytes)
{
    const long long call = atomic_fetch_add(&n_calls, 1) + 1;
    return call != atomic_load(&fail_at) && bytes >= 0 && bytes <= max_bytes;
}

static void *counted(void *block, int64_t bytes)
{
    if (block == NULL)
        return NULL;
    atomic_fetch_add(&n_live, 1);
    count_bytes(bytes);
    return block;
}

static void *counted_heap(void *block)
{
    return counted(block, (int64_t)malloc_usable_size(block));
}

void *tt_alloc(int64_t bytes)
{
    if (!may_allocate(bytes))
        return NULL;
    return counted_heap(calloc(1, bytes > 0 ? (size_t)bytes : 1));
}

void *tt_realloc(void *old, int64_t old_bytes, int64_t new_bytes)
{
    if (old == NULL)
        return tt_alloc(new_bytes);
    if (!may_allocate(new_bytes))
        return NULL;
    const int64_t held = (int64_t)malloc_usable_size(old);
    char *block = realloc(old, new_bytes > 0 ? (size_t)new_bytes : 1);
    if (block != NULL)
        count_bytes((int64_t)malloc_usable_size(block) - held);
    if (block != NULL && new_bytes > old_bytes)
        memset(block + old_bytes, 0, (size_t)(new_bytes - old_bytes));
    return block;
}

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

static header *header_of(void *block)
{
    return (header *)((char *)block - sizeof(header));
}

static void *heap_aligned(int64_t bytes, int64_t align)
{
    char *base = calloc(1, (size_t)(bytes + 2 * align));
    if (base == NULL)
        return NULL;
    const int64_t ahead = align - (int64_t)((uintptr_t)base % (uint64_t)align);
    const int64_t skip = ahead < (int64_t)sizeof(header) ? align : 0;
    char *block = base + ahead + skip;
    header_of(block)->base = base;
    return counted(block, (int64_t)malloc_usable_size(base));
}

// Maps more than is needed and unmaps what lies before and after the aligned part.
static void *map_aligned(int64_t bytes, int64_t align)
{
    if (bytes >= HUGE_FROM && align < HUGE_PAGE)
        align = HUGE_PAGE;
    if (align < PAGE)
        align = PAGE;
    const int64_t used = round_up(bytes, PAGE);
    const int64_t total = used + PAGE + align;
    char *base = mmap(NULL, (size_t)total, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    const int64_t first = (int64_t)(uintptr_t)base + PAGE;
    const int64_t before = round_up(first, align) - first;
    const int64_t after = align - before;
    if (before > 0)
        munmap(base, (size_t)before);
    if (after > 0)
        munmap(base + before + PAGE + used, (size_t)after);
    char *block = base + before + PAGE;
    if (bytes >= HINT_FROM)
        madvise(block, (size_t)used, MADV_HUGEPAGE); // a hint: may fail
    header_of(block)->mapped = used + PAGE;
    return counted(block, used + PAGE);
}

void *tt_alloc_aligned(int64_t bytes, int64_t align)
{
    if (!may_allocate(bytes) || align > max_bytes || (align & (align - 1)) != 0)
        return NULL;
    if (align < MIN_ALIGN)
        align = MIN_ALIGN;
    if (bytes >= MAP_FROM || align > PAGE)
        return map_aligned(bytes, align);
    return heap_aligned(bytes, align);
}

void tt_free(void *block)
{
    if (block == NULL)
        return;
    atomic_fetch_sub(&n_live, 1);
    count_bytes(-(int64_t)malloc_usable_size(block));
    free(block);
}

void tt_free_aligned(void *block)
{
    if (block == NULL)
        return;
    atomic_fetch_sub(&n_live, 1);
    const header h = *header_of(block);
    count_bytes(h.base != NULL ? -(int64_t)malloc_usable_size(h.base)
                               : -h.mapped);
    if (h.base != NULL)
        free(h.base);
    else
        munmap((char *)block - PAGE, (size_t)h.mapped);
}

void tt_alloc_fail_at(int64_t k)
{
    atomic_store(&fail_at, k);
    atomic_store(&n_calls, 0);
}

int64_t tt_alloc_count(void)
{
    return atomic_load(&n_calls);
}

int64_t tt_alloc_live(void)
{
    return atomic_load(&n_live);
}

int64_t tt_alloc_bytes(void)
{
    return atomic_load(&n_bytes);
}

int64_t tt_alloc_peak(void)
{
    return atomic_load(&peak);
}

void tt_alloc_peak_reset(void)
{
    atomic_store(&peak, atomic_load(&n_bytes));
}
