// arena - many small objects with one lifetime. Allocation is a pointer bump,
// freeing is one call. One thread at a time.

#ifndef TT_BASE_ARENA_H
#define TT_BASE_ARENA_H

#include <stdint.h>

typedef struct tt_arena tt_arena;

tt_arena *tt_arena_create(void); // NULL when memory is exhausted
void tt_arena_destroy(tt_arena *arena);

// Zeroed, 16-byte aligned; NULL when memory is exhausted (and then a message
// is recorded, so callers may simply return TT_ERR_NOMEM).
void *tt_arena_alloc(tt_arena *arena, int64_t bytes);

char *tt_arena_strdup(tt_arena *arena, const char *text);
__attribute__((format(printf, 2, 3))) char *
tt_arena_printf(tt_arena *arena, const char *fmt, ...);
void *tt_arena_copy(tt_arena *arena, const void *from, int64_t bytes);

int64_t tt_arena_bytes(const tt_arena *arena); // handed out so far

#endif
