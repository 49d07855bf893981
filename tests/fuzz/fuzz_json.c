// fuzz_json - JSON texts: what is read is a tree in which every text is whole.

#include "base/json_read.h"
#include "fuzz/fuzz.h"

#include <stdlib.h>

// The sum keeps the reads: every byte of every text is there and terminated.
static int64_t walk(const tt_json_value *v)
{
    int64_t sum = tt_json_int(v, 1) ^ (tt_json_number(v, 0) > 0);
    for (int64_t i = 0; v->text != NULL && i <= v->n; i++)
        sum ^= v->text[i];
    for (int64_t i = 0; v->key != NULL && i <= v->key_n; i++)
        sum ^= v->key[i];
    for (const tt_json_value *c = v->first; c != NULL; c = c->next)
        sum ^= walk(c);
    return sum;
}

FUZZ(json)
{
    tt_arena *arena = tt_arena_create();
    const tt_json_value *root = NULL;
    if (arena != NULL && tt_json_read((const char *)data, (int64_t)n, "fuzz",
                                      arena, &root) == TT_OK) {
        volatile int64_t sink = walk(root);
        (void)sink;
    }
    tt_arena_destroy(arena);
}
