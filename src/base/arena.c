// arena - memory that is freed all at once.
//
// A list of chunks, 64 KiB doubling to 1 MiB. A request takes the next bytes of the
// open chunk; nothing is freed before the arena. A request that is larger than the
// next chunk gets a chunk of its own. It is put after the open one in the list, so
// that the rest of the open chunk is still used.
//
// Under the address sanitizer all bytes are poisoned except those that were asked for.
// So an access after the end of a block is noticed, although the chunk goes on there.

#include "base/arena.h"

#include "base/alloc.h"
#include "base/status.h"

#include <sanitizer/asan_interface.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { ALIGN = 16, FIRST_CHUNK = 64 << 10, LAST_CHUNK = 1 << 20 };

// Bytes after a block that nobody may touch: as many as it has, up to this, so that one
// array element too many is noticed, whatever its size.
#ifdef __SANITIZE_ADDRESS__
enum { MOST_GUARD = 2 << 10 };
#else
enum { MOST_GUARD = 0 };
#endif

typedef struct chunk {
    struct chunk *next;
    int64_t used, capacity; // bytes after this header
} chunk;

struct tt_arena {
    chunk *open; // the one that is being filled, then the full ones
    int64_t next_capacity;
    int64_t bytes;
};

// The heap aligns to 16, so data starts at the next multiple of 16.
static const int64_t header_bytes =
    ((int64_t)sizeof(chunk) + ALIGN - 1) / ALIGN * ALIGN;

tt_arena *tt_arena_create(void)
{
    tt_arena *arena = tt_alloc(sizeof(*arena));
    if (arena != NULL)
        arena->next_capacity = FIRST_CHUNK;
    return arena;
}

void tt_arena_destroy(tt_arena *arena)
{
    if (arena == NULL)
        return;
    chunk *c = arena->open;
    while (c != NULL) {
        chunk *next = c->next;
        tt_free(c);
        c = next;
    }
    tt_free(arena);
}

static chunk *add_chunk(tt_arena *arena, int64_t bytes)
{
    const bool is_large = bytes > arena->next_capacity;
    const int64_t capacity = is_large ? bytes : arena->next_capacity;
    chunk *c = tt_alloc(header_bytes + capacity);
    if (c == NULL)
        return NULL;
    c->capacity = capacity;
    ASAN_POISON_MEMORY_REGION((char *)c + header_bytes, capacity);
    if (is_large && arena->open != NULL) {
        c->next = arena->open->next;
        arena->open->next = c;
        return c;
    }
    c->next = arena->open;
    arena->open = c;
    if (!is_large && arena->next_capacity < LAST_CHUNK)
        arena->next_capacity *= 2;
    return c;
}

void *tt_arena_alloc(tt_arena *arena, int64_t bytes)
{
    const bool is_sane = bytes >= 0 && bytes < INT64_MAX / 2;
    const int64_t wanted = is_sane && bytes > 0 ? bytes : 1;
    const int64_t rounded = (wanted + ALIGN - 1) / ALIGN * ALIGN;
    const int64_t taken =
        rounded + (rounded < MOST_GUARD ? rounded : MOST_GUARD);
    chunk *c = is_sane ? arena->open : NULL;
    if (is_sane && (c == NULL || c->capacity - c->used < taken))
        c = add_chunk(arena, taken);
    if (c == NULL) {
        tt_fail(TT_ERR_NOMEM, "out of memory: %lld bytes more were needed",
                (long long)bytes);
        return NULL;
    }
    char *block = (char *)c + header_bytes + c->used;
    ASAN_UNPOISON_MEMORY_REGION(block, bytes);
    c->used += taken;
    arena->bytes += rounded;
    return block;
}

void *tt_arena_copy(tt_arena *arena, const void *from, int64_t bytes)
{
    void *block = tt_arena_alloc(arena, bytes);
    if (block != NULL && bytes > 0)
        memcpy(block, from, (size_t)bytes);
    return block;
}

char *tt_arena_strdup(tt_arena *arena, const char *text)
{
    return tt_arena_copy(arena, text, (int64_t)strlen(text) + 1);
}

char *tt_arena_printf(tt_arena *arena, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *text = n < 0 ? NULL : tt_arena_alloc(arena, (int64_t)n + 1);
    if (text != NULL)
        vsnprintf(text, (size_t)n + 1, fmt, again);
    va_end(again);
    return text;
}

int64_t tt_arena_bytes(const tt_arena *arena)
{
    return arena->bytes;
}
