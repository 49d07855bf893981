// bpe_pairs - a hash table of pairs, and a heap that may hold old counts. See
// bpe_pairs.h.
//
// A count changes far more often than a pair is merged. Moving a heap entry at each
// change would cost more than the counting. So entries are lazy: when a count falls,
// the entry stays where it is, and is put right when it comes to the top. When a count
// rises, a new entry is pushed, since an entry that is too low would come up too late.
// `queued` of a pair is the count of its newest entry. Older entries of the same pair
// are dropped when they come up.

#include "data/tokenizer/bpe_pairs.h"

#include "base/alloc.h"

#include <string.h>

static tt_status no_memory(void)
{
    return tt_fail(TT_ERR_NOMEM, "out of memory for the pairs of a text");
}

// Makes room for one more in an array whose elements have `bytes` bytes.
static tt_status grow(void **array, int64_t n, int64_t *capacity, int64_t bytes)
{
    if (n < *capacity)
        return TT_OK;
    const int64_t more = *capacity < 1024 ? 1024 : *capacity * 2;
    void *grown = more <= INT32_MAX
                      ? tt_realloc(*array, *capacity * bytes, more * bytes)
                      : NULL;
    if (grown == NULL)
        return no_memory();
    *array = grown;
    *capacity = more;
    return TT_OK;
}

void tt__bpe_pairs_fini(tt_pairs *p)
{
    tt_free(p->v);
    tt_free(p->slot);
    tt_free(p->list);
    tt_free(p->heap);
    tt_free(p->key);
    *p = (tt_pairs){0};
}

static int32_t *slot_of(const tt_pairs *p, tt_pair_ids pair)
{
    const uint64_t mask = (uint64_t)p->n_slots - 1;
    uint64_t h = ((uint64_t)(uint32_t)pair.a << 32 | (uint32_t)pair.b) *
                 0x9e3779b97f4a7c15u;
    uint64_t i = (h ^ h >> 32) & mask;
    while (p->slot[i] >= 0 &&
           (p->v[p->slot[i]].a != pair.a || p->v[p->slot[i]].b != pair.b))
        i = (i + 1) & mask;
    return &p->slot[i];
}

static tt_status grow_slots(tt_pairs *p)
{
    const int64_t n = p->n_slots == 0 ? 4096 : p->n_slots * 2;
    int32_t *slot = tt_alloc(n * (int64_t)sizeof(*slot));
    if (slot == NULL)
        return no_memory();
    memset(slot, 0xff, (size_t)n * sizeof(*slot));
    tt_free(p->slot);
    p->slot = slot;
    p->n_slots = n;
    for (int64_t i = 0; i < p->n; i++)
        *slot_of(p, (tt_pair_ids){p->v[i].a, p->v[i].b}) = (int32_t)i;
    return TT_OK;
}

int32_t tt__bpe_pairs_find(const tt_pairs *p, tt_pair_ids pair)
{
    return p->n_slots == 0 ? -1 : *slot_of(p, pair);
}

static tt_status find_or_add(tt_pairs *p, tt_pair_ids pair, int32_t *out)
{
    if (2 * p->n >= p->n_slots)
        TT_TRY(grow_slots(p));
    int32_t *slot = slot_of(p, pair);
    if (*slot < 0) {
        TT_TRY(grow((void **)&p->v, p->n, &p->capacity, sizeof(*p->v)));
        *slot = (int32_t)p->n;
        p->v[p->n++] = (tt_pair){pair.a, pair.b, -1, 0, 0};
    }
    *out = *slot;
    return TT_OK;
}

tt_status tt__bpe_pairs_count(tt_pairs *p, tt_pair_ids pair, int64_t more,
                              int32_t word)
{
    int32_t i = 0;
    TT_TRY(find_or_add(p, pair, &i));
    tt_pair *v = &p->v[i];
    v->count += more;
    if (more < 0 || (v->words >= 0 && p->list[v->words].word == word))
        return TT_OK;
    TT_TRY(grow((void **)&p->list, p->n_list, &p->list_capacity,
                sizeof(*p->list)));
    p->list[p->n_list] = (tt_pair_word){word, v->words};
    v->words = (int32_t)p->n_list++;
    return TT_OK;
}

// ---- the heap ------------------------------------------------------------

static int compare_bytes(const tt_token *a, const tt_token *b)
{
    const int64_t n = a->n < b->n ? a->n : b->n;
    const int order = memcmp(a->bytes, b->bytes, (size_t)n);
    return order != 0 ? order : (a->n > b->n) - (a->n < b->n);
}

static bool is_before(const tt_pairs *p, int32_t x, int64_t x_key, int32_t y,
                      int64_t y_key)
{
    if (x_key != y_key)
        return x_key > y_key;
    const tt_token *token = p->t->token;
    const tt_pair *a = &p->v[x], *b = &p->v[y];
    const int order = compare_bytes(&token[a->a], &token[b->a]);
    return (order != 0 ? order : compare_bytes(&token[a->b], &token[b->b])) > 0;
}

tt_status tt__bpe_pairs_queue(tt_pairs *p, int32_t position)
{
    const int64_t key = p->v[position].count;
    if (key <= p->v[position].queued)
        return TT_OK; // an entry with at least this count is there
    int64_t capacity = p->heap_capacity;
    TT_TRY(grow((void **)&p->key, p->n_heap, &capacity, sizeof(*p->key)));
    TT_TRY(grow((void **)&p->heap, p->n_heap, &p->heap_capacity,
                sizeof(*p->heap)));
    p->v[position].queued = key;
    int64_t i = p->n_heap++;
    while (i > 0) {
        const int64_t up = (i - 1) / 2;
        if (!is_before(p, position, key, p->heap[up], p->key[up]))
            break;
        p->heap[i] = p->heap[up];
        p->key[i] = p->key[up];
        i = up;
    }
    p->heap[i] = position;
    p->key[i] = key;
    return TT_OK;
}

// Puts an entry into the place of the first.
static void sift_down(tt_pairs *p, int32_t position, int64_t key)
{
    int64_t i = 0;
    for (;;) {
        int64_t c = 2 * i + 1;
        if (c >= p->n_heap)
            break;
        if (c + 1 < p->n_heap &&
            is_before(p, p->heap[c + 1], p->key[c + 1], p->heap[c], p->key[c]))
            c++;
        if (is_before(p, position, key, p->heap[c], p->key[c]))
            break;
        p->heap[i] = p->heap[c];
        p->key[i] = p->key[c];
        i = c;
    }
    p->heap[i] = position;
    p->key[i] = key;
}

static void drop_first(tt_pairs *p)
{
    p->n_heap--;
    if (p->n_heap > 0)
        sift_down(p, p->heap[p->n_heap], p->key[p->n_heap]);
}

// The top entry is right when its key is the pair's count. If the count has fallen
// since, the entry sinks with the new count. If it is not the newest entry, it is
// dropped.
int32_t tt__bpe_pairs_best(tt_pairs *p)
{
    while (p->n_heap > 0) {
        const int32_t position = p->heap[0];
        const int64_t key = p->key[0];
        tt_pair *v = &p->v[position];
        if (key == v->count && key > 0) {
            drop_first(p);
            v->queued = 0;
            return position;
        }
        if (key != v->queued || v->count <= 0) { // a newer entry is there
            if (key == v->queued)
                v->queued = 0;
            drop_first(p);
        } else {
            v->queued = v->count;
            sift_down(p, position, v->count);
        }
    }
    return -1;
}
