// lookup_bridges - where a piece may be cut before it is merged.
//
// The problem. Some tokenizers (those of SentencePiece) hand a whole text to BPE as one
// piece. Merging it at once needs memory for all of it, and no cache helps.
//
// The idea. A merge across a border needs a pair (a, b) in the table where `a` ends
// with the character before the border and `b` begins with the one after it. If no
// merge has such a pair, nothing will ever be merged across this border. So the parts
// can be merged by themselves, with the same result, and short parts are fast and
// remembered.
//
//   merges  (t,h) (th,e) (c,a) (ca,t)      "thecat":  e|c is no pair: cut there
//
// The pairs of characters are collected once, for ASCII in a table of bits, for the
// rest in a hash table.

#include "base/alloc.h"
#include "base/utf8.h"
#include "data/tokenizer/lookup.h"
#include "data/tokenizer/tokenizer_def.h"

#include <string.h>

enum { ASCII = 128, EDGES = 3 };

static const uint64_t no_pair = UINT64_MAX;

struct tt_bridges {
    bool ascii[ASCII][ASCII];
    uint64_t *slot;
    uint64_t mask;
    int64_t n;
};

typedef struct edges { // the codes that an end of a token may be
    uint32_t v[EDGES];
    int n;
} edges;

static uint64_t place(const tt_bridges *b, uint64_t pair)
{
    uint64_t h = pair * 0x9e3779b97f4a7c15u;
    uint64_t i = (h ^ h >> 32) & b->mask;
    while (b->slot[i] != no_pair && b->slot[i] != pair)
        i = (i + 1) & b->mask;
    return i;
}

bool tt__bridges_join(const tt_bridges *b, uint32_t last, uint32_t next)
{
    if (last < ASCII && next < ASCII)
        return b->ascii[last][next];
    const uint64_t pair = (uint64_t)last << 32 | next;
    return b->slot[place(b, pair)] == pair;
}

static void add(tt_bridges *b, uint32_t last, uint32_t next)
{
    const uint64_t pair = (uint64_t)last << 32 | next;
    if (last < ASCII && next < ASCII) {
        b->ascii[last][next] = true;
    } else {
        uint64_t *slot = &b->slot[place(b, pair)];
        b->n += *slot == no_pair;
        *slot = pair;
    }
}

static uint32_t last_code(const char *text, int64_t n)
{
    uint32_t code = 0;
    int64_t i = n - 1;
    while (i > 0 && ((unsigned char)text[i] & 0xc0) == 0x80)
        i--;
    (void)tt_utf8_read(text + i, n - i, &code);
    return code;
}

// A token may begin with a character, and with the name of a byte or of what is
// unknown.
static edges edges_of(const tt_tokenizer *t, int32_t id, bool at_end)
{
    const tt_token *k = &t->token[id];
    const int32_t unknown = t->general->lookup.unknown;
    edges e = {.n = 1};
    unsigned byte = 0;
    if (at_end)
        e.v[0] = last_code(k->bytes, k->n);
    else
        (void)tt_utf8_read(k->bytes, k->n, &e.v[0]);
    if (k->n >= 6 &&
        tt__is_byte_token(at_end ? k->bytes + k->n - 6 : k->bytes, 6, &byte))
        e.v[e.n++] = TT_BYTE_CODE + byte;
    if (unknown >= 0 && t->token[unknown].n <= k->n) {
        const tt_token *u = &t->token[unknown];
        const char *from = at_end ? k->bytes + k->n - u->n : k->bytes;
        if (memcmp(from, u->bytes, (size_t)u->n) == 0)
            e.v[e.n++] = TT_UNKNOWN_CODE;
    }
    return e;
}

tt_status tt__bridges_make(tt_tokenizer *t, const tt_bridges **bridges_out)
{
    tt_bridges *b = tt_arena_alloc(t->arena, sizeof(*b));
    int64_t n = 64;
    while (n < 2 * t->bpe.n)
        n *= 2;
    if (b == NULL)
        return TT_ERR_NOMEM;
    b->slot = tt_arena_alloc(t->arena, n * (int64_t)sizeof(*b->slot));
    if (b->slot == NULL)
        return TT_ERR_NOMEM;
    b->mask = (uint64_t)n - 1;
    memset(b->slot, 0xff, (size_t)n * sizeof(*b->slot));
    for (int64_t i = 0; i < t->bpe.n; i++) {
        const edges a = edges_of(t, t->merge[i].a, true);
        const edges z = edges_of(t, t->merge[i].b, false);
        if (b->n + (int64_t)a.n * z.n > n / 4 * 3) // odd names, and nearly full
            return TT_OK;
        for (int x = 0; x < a.n; x++)
            for (int y = 0; y < z.n; y++)
                add(b, a.v[x], z.v[y]);
    }
    *bridges_out = b;
    return TT_OK;
}
