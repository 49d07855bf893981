// bpe - the table of merges, and a piece of text merged with it.
//
// Byte-pair encoding starts with one token per byte. Of all neighbours that the table
// knows as a pair, the pair with the least rank (the one that was learnt first) is
// merged into one token. This repeats until no neighbours are a known pair. The result
// must be exactly that of the reference, so the order of merges is not free: least
// rank first, and of equal ranks the leftmost.
//
//   "lower"   l o w e r  ->  lo w e r  ->  low e r  ->  low er  ->  lower
//
// Three ways, by the length of a piece:
//
//   cached   pieces of up to 15 bytes with up to 7 tokens. Words repeat, so most of a
//            text is found here. A slot holds one piece; a new one replaces the old one
//   short    up to 64 bytes: an array of ranks, scanned for the least at each merge.
//            Quadratic, but without any data structure
//   long     a heap of pairs and a linked list of tokens. A text without blanks
//            (base64, DNA) costs n log n. Entries of the heap whose tokens were merged
//            since are recognised when they come up, and skipped
//
// The table is a hash table with open addressing, at most half full.

#include "data/tokenizer/bpe.h"

#include "base/alloc.h"

#include <string.h>

enum {
    SHORT = 64,     // bytes of a piece that is scanned
    CACHED = 15,    // bytes of a piece that is remembered
    CACHED_IDS = 7, // and its ids
    CACHE_MIN = 64,
    CACHE_MAX = 1 << 14,
    NONE = -1,
};

static const int32_t no_rank = INT32_MAX;

typedef struct cached {
    uint64_t key[2]; // the bytes, their number in the last; 0: free
    int32_t n;
    int32_t ids[CACHED_IDS];
} cached;

struct tt_bpe_cache {
    uint64_t mask;
    cached slot[];
};

// The constant is 2^64 divided by the golden ratio; the upper half is the well mixed
// one.
static uint64_t mix(uint64_t h)
{
    h *= 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

static uint64_t pair_hash(int32_t a, int32_t b)
{
    return mix((uint64_t)(uint32_t)a << 32 | (uint32_t)b);
}

tt_status tt_bpe_init(tt_bpe *bpe, int64_t n_merges)
{
    int64_t n = 16;
    while (n < 2 * n_merges)
        n *= 2;
    *bpe = (tt_bpe){.n_slots = n};
    memset(bpe->byte_id, NONE, sizeof bpe->byte_id);
    bpe->slot = tt_alloc(n * (int64_t)sizeof(*bpe->slot));
    if (bpe->slot == NULL)
        return tt_fail(TT_ERR_NOMEM, "out of memory for %lld merges",
                       (long long)n_merges);
    for (int64_t i = 0; i < n; i++)
        bpe->slot[i].rank = NONE;
    return TT_OK;
}

void tt_bpe_fini(tt_bpe *bpe)
{
    tt_free(bpe->slot);
    *bpe = (tt_bpe){0};
}

static tt_bpe_merge *slot_of(const tt_bpe *bpe, int32_t a, int32_t b)
{
    const uint64_t mask = (uint64_t)bpe->n_slots - 1;
    uint64_t i = pair_hash(a, b) & mask;
    while (bpe->slot[i].rank != NONE &&
           (bpe->slot[i].a != a || bpe->slot[i].b != b))
        i = (i + 1) & mask;
    return &bpe->slot[i];
}

bool tt_bpe_add(tt_bpe *bpe, int32_t a, int32_t b, int32_t id)
{
    tt_bpe_merge *slot = slot_of(bpe, a, b);
    const bool is_new = slot->rank == NONE;
    if (is_new)
        *slot = (tt_bpe_merge){a, b, (int32_t)bpe->n, id};
    bpe->n += is_new;
    return is_new;
}

const tt_bpe_merge *tt_bpe_find(const tt_bpe *bpe, int32_t a, int32_t b)
{
    const tt_bpe_merge *slot = slot_of(bpe, a, b);
    return slot->rank != NONE ? slot : NULL;
}

static int32_t rank_of(const tt_bpe *bpe, int32_t a, int32_t b)
{
    const tt_bpe_merge *slot = slot_of(bpe, a, b);
    return slot->rank != NONE ? slot->rank : no_rank;
}

tt_bpe_cache *tt_bpe_cache_create(int64_t text_bytes)
{
    int64_t n = CACHE_MIN;
    while (n < CACHE_MAX && n < text_bytes / 2)
        n *= 2;
    tt_bpe_cache *cache =
        tt_alloc((int64_t)sizeof(*cache) + n * (int64_t)sizeof(*cache->slot));
    if (cache != NULL)
        cache->mask = (uint64_t)n - 1;
    return cache;
}

void tt_bpe_cache_destroy(tt_bpe_cache *cache)
{
    tt_free(cache);
}

// ---- short pieces --------------------------------------------------------

// Merges ids[0..n) in place; returns how many are left.
static int merge_short(const tt_bpe *bpe, int32_t *ids, int n)
{
    int32_t rank[SHORT];
    for (int i = 0; i + 1 < n; i++)
        rank[i] = rank_of(bpe, ids[i], ids[i + 1]);
    while (n > 1) {
        int best = 0;
        for (int i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best])
                best = i;
        if (rank[best] == no_rank)
            break;
        ids[best] = slot_of(bpe, ids[best], ids[best + 1])->id;
        n--;
        for (int i = best + 1; i < n; i++) {
            ids[i] = ids[i + 1];
            rank[i - 1] = rank[i];
        }
        if (best > 0)
            rank[best - 1] = rank_of(bpe, ids[best - 1], ids[best]);
        if (best + 1 < n)
            rank[best] = rank_of(bpe, ids[best], ids[best + 1]);
    }
    return n;
}

// ---- long pieces ---------------------------------------------------------

// Tokens of a long piece as a doubly linked list in an array. A merge keeps the left
// node and marks the right one with NONE, so that places never move.
typedef struct node {
    int32_t id;
    uint32_t before, after; // the number of nodes: there is none
} node;

typedef struct heap {
    uint64_t *v; // rank << 32 | place: the least is the leftmost of least rank
    int64_t n;
} heap;

static void push(heap *h, int32_t rank, uint32_t place)
{
    const uint64_t x = (uint64_t)(uint32_t)rank << 32 | place;
    int64_t i = h->n++;
    for (; i > 0 && h->v[(i - 1) / 2] > x; i = (i - 1) / 2)
        h->v[i] = h->v[(i - 1) / 2];
    h->v[i] = x;
}

static uint64_t pop(heap *h)
{
    const uint64_t top = h->v[0], x = h->v[--h->n];
    int64_t i = 0;
    for (;;) {
        int64_t c = 2 * i + 1;
        if (c >= h->n)
            break;
        c += c + 1 < h->n && h->v[c + 1] < h->v[c];
        if (h->v[c] >= x)
            break;
        h->v[i] = h->v[c];
        i = c;
    }
    h->v[i] = x;
    return top;
}

// Offers the pair that begins at `place`.
static void offer(const tt_bpe *bpe, const node *v, uint32_t n, uint32_t place,
                  heap *h)
{
    if (place >= n || v[place].after >= n)
        return;
    const int32_t rank = rank_of(bpe, v[place].id, v[v[place].after].id);
    if (rank != no_rank)
        push(h, rank, place);
}

// Each merge takes one entry from the heap and adds two at most, so twice the
// number of bytes is room enough.
static void merge_nodes(const tt_bpe *bpe, node *v, uint32_t n, heap *h)
{
    for (uint32_t i = 0; i < n; i++)
        offer(bpe, v, n, i, h);
    while (h->n > 0) {
        const uint64_t top = pop(h);
        const uint32_t i = (uint32_t)top, j = v[i].after;
        if (v[i].id == NONE || j >= n)
            continue;
        const tt_bpe_merge *m = tt_bpe_find(bpe, v[i].id, v[j].id);
        if (m == NULL || (uint32_t)m->rank != (uint32_t)(top >> 32))
            continue; // one of the two was merged since
        v[i].id = m->id;
        v[i].after = v[j].after;
        v[j].id = NONE;
        if (v[i].after < n)
            v[v[i].after].before = i;
        offer(bpe, v, n, v[i].before, h);
        offer(bpe, v, n, i, h);
    }
}

static tt_status encode_long(const tt_bpe *bpe, const int32_t *ids, int64_t n,
                             tt_ids *out)
{
    if (n >= INT32_MAX)
        return tt_fail(TT_ERR_ARG, "a piece of text without a place to cut is "
                                   "longer than 2 GiB");
    node *v = tt_alloc(n * (int64_t)sizeof(*v));
    heap h = {.v = tt_alloc(2 * n * (int64_t)sizeof(*h.v))};
    tt_status status = TT_OK;
    if (v == NULL || h.v == NULL)
        status =
            tt_fail(TT_ERR_NOMEM, "out of memory for a piece of %lld bytes",
                    (long long)n);
    if (status == TT_OK)
        status = tt_ids_reserve(out, n);
    if (status == TT_OK) {
        const uint32_t count = (uint32_t)n;
        for (uint32_t i = 0; i < count; i++)
            v[i] = (node){ids[i], i > 0 ? i - 1 : count, i + 1};
        merge_nodes(bpe, v, count, &h);
        for (uint32_t i = 0; i < count; i = v[i].after)
            out->v[out->n++] = v[i].id;
    }
    tt_free(v);
    tt_free(h.v);
    return status;
}

// ---- pieces --------------------------------------------------------------

static tt_status check_bytes(const tt_bpe *bpe, const unsigned char *piece,
                             int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (bpe->byte_id[piece[i]] == NONE)
            return tt_fail(TT_ERR_ARG,
                           "the tokenizer has no token for byte 0x%02x",
                           piece[i]);
    return TT_OK;
}

// Merges ids[0..n), which it may change, and remembers what they became.
static tt_status encode_short(const tt_bpe *bpe, int32_t *ids, int n,
                              cached *memory, tt_ids *out)
{
    const int left = merge_short(bpe, ids, n);
    TT_TRY(tt_ids_reserve(out, left));
    memcpy(out->v + out->n, ids, sizeof(*ids) * (size_t)left);
    out->n += left;
    if (memory != NULL && left <= CACHED_IDS) {
        memory->n = left;
        memcpy(memory->ids, ids, sizeof(*ids) * (size_t)left);
    } else if (memory != NULL) {
        *memory = (cached){0};
    }
    return TT_OK;
}

// The slot of a text of at most CACHED bytes. The 16 bytes of the key are the text,
// zeros and in the last byte its length, so two comparisons decide. False: the slot
// holds no ids of it yet, and now belongs to this text.
static bool find_cached(tt_bpe_cache *cache, const char *text, int64_t n,
                        cached **slot_out)
{
    uint64_t key[2] = {0};
    memcpy(key, text, (size_t)n);
    key[1] |= (uint64_t)n << 56;
    const uint64_t h = mix(key[0] ^ mix(key[1]));
    cached *c = &cache->slot[h & cache->mask];
    *slot_out = c;
    if (c->key[0] == key[0] && c->key[1] == key[1])
        return true;
    memcpy(c->key, key, sizeof key);
    c->n = 0;
    return false;
}

static tt_status add_cached(const cached *c, tt_ids *out)
{
    TT_TRY(tt_ids_reserve(out, CACHED_IDS));
    memcpy(out->v + out->n, c->ids, sizeof c->ids);
    out->n += c->n;
    return TT_OK;
}

static tt_status encode_long_bytes(const tt_bpe *bpe, const unsigned char *p,
                                   int64_t n, tt_ids *out)
{
    int32_t *ids = tt_alloc(n * (int64_t)sizeof(*ids));
    if (ids == NULL)
        return tt_fail(TT_ERR_NOMEM, "out of memory for a piece of %lld bytes",
                       (long long)n);
    for (int64_t i = 0; i < n; i++)
        ids[i] = bpe->byte_id[p[i]];
    const tt_status status = encode_long(bpe, ids, n, out);
    tt_free(ids);
    return status;
}

tt_status tt_bpe_encode(const tt_bpe *bpe, tt_bpe_cache *cache,
                        const char *piece, int64_t n, tt_ids *out)
{
    const unsigned char *p = (const unsigned char *)piece;
    int32_t ids[SHORT];
    cached *c = NULL;
    if (n <= CACHED && find_cached(cache, piece, n, &c))
        return add_cached(c, out);
    tt_status status = check_bytes(bpe, p, n);
    if (status == TT_OK && n > SHORT)
        return encode_long_bytes(bpe, p, n, out);
    if (status == TT_OK) {
        for (int64_t i = 0; i < n; i++)
            ids[i] = bpe->byte_id[p[i]];
        status = encode_short(bpe, ids, (int)n, c, out);
    }
    if (status != TT_OK && c != NULL)
        *c = (cached){0};
    return status;
}

tt_status tt_bpe_merge_part(const tt_bpe *bpe, tt_bpe_cache *cache,
                            const tt_bpe_part *part, tt_ids *out)
{
    int32_t ids[SHORT];
    cached *c = NULL;
    if (part->n_ids > SHORT)
        return encode_long(bpe, part->ids, part->n_ids, out);
    if (part->n_ids == 0)
        return TT_OK;
    if (part->n <= CACHED && find_cached(cache, part->text, part->n, &c))
        return add_cached(c, out);
    memcpy(ids, part->ids, sizeof(*ids) * (size_t)part->n_ids);
    const tt_status status = encode_short(bpe, ids, (int)part->n_ids, c, out);
    if (status != TT_OK && c != NULL)
        *c = (cached){0};
    return status;
}
