// peers - small collectives of the host, over the wire that steps use too.

#include "train/peers.h"

#include "base/alloc.h"
#include "store/hash.h"

#include <stdio.h>
#include <string.h>

static tt_status broadcast(const tt_peers *peers, const char *what,
                           int32_t root, void *data, int64_t bytes)
{
    if (peers->size == 1 || bytes == 0)
        return TT_OK;
    return tt_comm_wire_call(peers->wire, what,
                             &(tt_coll_call){.kind = TT_BROADCAST,
                                             .root = root,
                                             .fold = {TT_FOLD_COPY, TT_NUM_U8},
                                             .count = bytes,
                                             .in = data,
                                             .out = data});
}

tt_status tt_peers_broadcast(const tt_peers *peers, const char *what,
                             void *data, int64_t bytes)
{
    return broadcast(peers, what, 0, data, bytes);
}

tt_status tt_peers_share_text(const tt_peers *peers, const char *what,
                              tt_str *text)
{
    int64_t n = text->n;
    if (peers->size == 1)
        return TT_OK;
    TT_TRY(tt_peers_broadcast(peers, what, &n, sizeof n));
    if (tt_peers_is_first(peers))
        return tt_peers_broadcast(peers, what, text->text, n);
    char *received = tt_alloc(n + 1);
    if (received == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %lld bytes of rank 0",
                       (long long)n);
    const tt_status status = tt_peers_broadcast(peers, what, received, n);
    tt_str_clear(text);
    tt_str_add_bytes(text, received, n);
    tt_free(received);
    return status == TT_OK ? tt_str_status(text) : status;
}

tt_status tt_peers_follow(const tt_peers *peers, const char *what,
                          tt_status status)
{
    int32_t shared = status;
    if (peers->size == 1)
        return status;
    char message[2048];
    snprintf(message, sizeof message, "%s", tt_error_message());
    const tt_status said =
        tt_peers_broadcast(peers, what, &shared, sizeof shared);
    if (status != TT_OK)
        return tt_fail(status, "%s", message);
    TT_TRY(said);
    return shared == TT_OK
               ? TT_OK
               : tt_fail(TT_ERR_PEER, "%s: it failed on rank 0", what);
}

tt_status tt_peers_collect(const tt_peers *peers, const char *what,
                           const void *mine, int64_t bytes, void *all_out)
{
    if (peers->size == 1) {
        memcpy(all_out, mine, (size_t)bytes);
        return TT_OK;
    }
    return tt_comm_wire_call(peers->wire, what,
                             &(tt_coll_call){.kind = TT_ALL_GATHER,
                                             .fold = {TT_FOLD_COPY, TT_NUM_U8},
                                             .count = bytes * peers->size,
                                             .in = mine,
                                             .out = all_out});
}

typedef struct outcome {
    int32_t status;
    char message[1020];
} outcome;

// A failure that all ranks know of, with rank 0 as the one that tells: nobody ends
// before rank 0 knows.
static tt_status tell(const tt_peers *peers, tt_status status, int32_t of,
                      const char *message)
{
    int32_t bye = 0;
    (void)tt_peers_broadcast(peers, "end", &bye, sizeof bye);
    if (!tt_peers_is_first(peers))
        status = TT_ERR_PEER;
    return of == 0 ? tt_fail(status, "%s", message)
                   : tt_fail(status, "rank %d: %s", of, message);
}

static tt_status first_failure(const tt_peers *peers, const outcome *all)
{
    for (int32_t r = 0; r < peers->size; r++) {
        const tt_status status = (tt_status)all[r].status;
        if (status == TT_OK)
            continue;
        return tell(peers, status, r, all[r].message);
    }
    return TT_OK;
}

tt_status tt_peers_agree(const tt_peers *peers, const char *what,
                         tt_status status)
{
    outcome mine = {.status = status};
    if (peers->size == 1)
        return status;
    if (status != TT_OK)
        snprintf(mine.message, sizeof mine.message, "%s", tt_error_message());
    outcome *all = tt_alloc(peers->size * (int64_t)sizeof *all);
    if (all == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to hear other ranks");
    tt_status said = tt_peers_collect(peers, what, &mine, sizeof mine, all);
    if (said == TT_OK)
        said = first_failure(peers, all);
    tt_free(all);
    return said;
}

// ---- comparing -----------------------------------------------------------

enum { MAX_FACTS = 8, MESSAGE = 1024 };

typedef struct hashes {
    char of[MAX_FACTS][TT_HASH_CHARS];
} hashes;

// The value behind "key: " in lines of settings, up to the end of its line.
static const char *find_line(const char *text, const char *line, int key_n)
{
    for (const char *p = text; *p != '\0';) {
        if (strncmp(p, line, (size_t)key_n) == 0)
            return p;
        p += strcspn(p, "\n");
        p += *p == '\n';
    }
    return NULL;
}

static void print_value(const char *line, int key_n, tt_str *out)
{
    if (line == NULL)
        tt_str_add(out, "not set");
    else
        tt_str_addf(out, "%.*s", (int)strcspn(line + key_n, "\n"),
                    line + key_n);
}

// The first line of `a` that `b` has not in the same words; key_n_out: bytes of its
// key with ": ". NULL: all are there.
static const char *first_other(const char *a, const char *b, int *key_n_out)
{
    for (const char *p = a; *p != '\0';) {
        const int n = (int)strcspn(p, "\n");
        const char *colon = memchr(p, ':', (size_t)n);
        *key_n_out = colon == NULL ? n : (int)(colon - p) + 2;
        const char *other = find_line(b, p, *key_n_out);
        if (other == NULL || strncmp(other, p, (size_t)n + 1) != 0)
            return p;
        p += n + (p[n] == '\n');
    }
    return NULL;
}

// "optim.lr is 0.1 there and 0.01 here": there is this rank, here is rank 0.
static void print_difference(const char *mine, const char *first, tt_str *out)
{
    int key_n = 0;
    const char *line = first_other(mine, first, &key_n);
    if (line == NULL)
        line = first_other(first, mine, &key_n);
    if (line == NULL)
        return;
    tt_str_addf(out, ": %.*s is ", key_n - 2, line);
    print_value(find_line(mine, line, key_n), key_n, out);
    tt_str_add(out, " there and ");
    print_value(find_line(first, line, key_n), key_n, out);
    tt_str_add(out, " here");
}

// The rank that differs learns what rank 0 has and tells all what is wrong.
static tt_status explain(const tt_peers *peers, const tt_peers_fact *fact,
                         int32_t odd)
{
    tt_str first = {0}, text = {0};
    char message[MESSAGE] = "";
    tt_str_addf(&text, "rank %d has another %s than rank 0", odd, fact->name);
    tt_str_add(&first, fact->text);
    tt_status status = TT_OK;
    if (fact->has_settings)
        status = tt_peers_share_text(peers, "comparison", &first);
    if (status == TT_OK && fact->has_settings && peers->rank == odd)
        print_difference(fact->text, tt_str_text(&first), &text);
    snprintf(message, sizeof message, "%s", tt_str_text(&text));
    if (status == TT_OK)
        status = broadcast(peers, "comparison", odd, message, MESSAGE);
    tt_str_fini(&first);
    tt_str_fini(&text);
    TT_TRY(status);
    return tell(peers, TT_ERR_ARG, 0, message);
}

static tt_status find_odd(const tt_peers *peers, const tt_peers_fact *fact,
                          int n, const hashes *all)
{
    for (int i = 0; i < n; i++)
        for (int32_t r = 1; r < peers->size; r++)
            if (strcmp(all[r].of[i], all[0].of[i]) != 0)
                return explain(peers, &fact[i], r);
    return TT_OK;
}

tt_status tt_peers_compare(const tt_peers *peers, const tt_peers_fact *fact,
                           int n)
{
    hashes mine = {0};
    if (peers->size == 1)
        return TT_OK;
    hashes *all = tt_alloc(peers->size * (int64_t)sizeof *all);
    if (all == NULL || n > MAX_FACTS) {
        tt_free(all);
        return tt_fail(TT_ERR_NOMEM, "no memory to compare ranks");
    }
    for (int i = 0; i < n; i++)
        tt_hash_text(fact[i].text, (int64_t)strlen(fact[i].text), mine.of[i]);
    tt_status status =
        tt_peers_collect(peers, "comparison", &mine, sizeof mine, all);
    if (status == TT_OK)
        status = find_odd(peers, fact, n, all);
    tt_free(all);
    return status;
}
