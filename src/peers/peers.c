// peers - small collectives on the host, over the wire that steps use too.
//
// The problem: between steps ranks open files, read settings and save checkpoints.
// Any of them may fail alone: a disk is full, a file is missing. If it just
// returned its error, the others would wait for it, or take its next message for
// another one.
//
// The idea: before any real exchange, ranks take a turn. Each tells all others what
// it is about to do (a hash of name, kind and size) and its status:
//
//   rank 0   broadcast "data", ok     +
//   rank 1   broadcast "data", ok     +> all equal: the broadcast follows
//   rank 2   broadcast "data", ok     +
//
//   rank 0   broadcast "data", ok
//   rank 1   agree "open", FAILED     -> not equal: nobody broadcasts; rank 1 sends
//   rank 2   broadcast "data", ok        its sentence, and all ranks end with it
//
// If nobody has failed and turns differ all the same, the ranks run different
// programs or settings; the message says so. Rank 0 prints errors, so the last
// thing before the end is a message from it: no rank ends before rank 0 knows why.
//
// The cost is one all-gather of 16 bytes per rank and call, between steps only.

#include "peers/peers.h"

#include "base/alloc.h"
#include "store/hash.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

static tt_status collect(const tt_peers *peers, const char *what,
                         const void *mine, int64_t bytes, void *all_out)
{
    return tt_comm_wire_call(peers->wire, what,
                             &(tt_coll_call){.kind = TT_ALL_GATHER,
                                             .fold = {TT_FOLD_COPY, TT_NUM_U8},
                                             .count = bytes * peers->size,
                                             .in = mine,
                                             .out = all_out});
}

// Makes an error that all ranks know. Only rank 0 reports it; elsewhere it is
// TT_ERR_PEER. The broadcast keeps every rank alive until rank 0 has the message.
static tt_status tell(const tt_peers *peers, tt_status status, int32_t of,
                      const char *message)
{
    int32_t bye = 0;
    (void)broadcast(peers, "end", 0, &bye, sizeof bye);
    if (!tt_peers_is_first(peers))
        status = TT_ERR_PEER;
    return of == 0 ? tt_fail(status, "%s", message)
                   : tt_fail(status, "rank %d: %s", of, message);
}

// ---- turns ---------------------------------------------------------------

enum { MESSAGE = 1024 };

typedef struct turn {
    uint64_t what;
    int64_t status;
} turn;

typedef struct turns {
    tt_status mine; // how this rank comes to it
    turn *all;
    bool is_told; // all ranks know the failure of one of them
} turns;

// FNV-1a over the name, begun with size and kind: 8 bytes stand for the whole call.
static uint64_t hash_of(const char *what, char kind, int64_t bytes)
{
    uint64_t h =
        ((uint64_t)bytes ^ (uint64_t)kind << 56) * UINT64_C(0x9e3779b97f4a7c15);
    for (; *what != '\0'; what++)
        h = (h ^ (unsigned char)*what) * UINT64_C(0x100000001b3);
    return h;
}

// The first rank that has failed; size: none has.
static int32_t first_failed(const tt_peers *peers, const turns *t)
{
    int32_t r = 0;
    while (r < peers->size && t->all[r].status == TT_OK)
        r++;
    return r;
}

// The first rank that is about to do something else than rank 0; size: none is.
static int32_t first_elsewhere(const tt_peers *peers, const turns *t)
{
    int32_t r = 0;
    while (r < peers->size && t->all[r].what == t->all[0].what)
        r++;
    return r;
}

// Broadcasts the sentence of rank `of`; all ranks fail with it.
static tt_status end_with(const tt_peers *peers, const turns *t, int32_t of,
                          const char *mine)
{
    char message[MESSAGE] = "";
    if (peers->rank == of)
        snprintf(message, sizeof message, "%s", mine);
    TT_TRY(broadcast(peers, "end", of, message, sizeof message));
    const tt_status status = (tt_status)t->all[of].status;
    return tell(peers, status != TT_OK ? status : TT_ERR_STATE, of, message);
}

// Ends a job whose ranks are at different places. The wire is closed with the same
// message, so that no later call waits.
static tt_status part(const tt_peers *peers, const char *what, const turns *t,
                      const char *mine)
{
    char text[MESSAGE];
    const int32_t failed = first_failed(peers, t);
    const int32_t of =
        failed < peers->size ? failed : first_elsewhere(peers, t);
    snprintf(text, sizeof text,
             "it comes to \"%s\" when rank 0 is elsewhere: are program, "
             "settings and data the same on all ranks?",
             what);
    const tt_status status =
        end_with(peers, t, of, failed < peers->size ? mine : text);
    snprintf(text, sizeof text, "%s", tt_error_message());
    tt_comm_wire_fail(peers->wire, status, text);
    return tt_fail(status, "%s", text);
}

// Exchanges turns. Fails on all ranks if they are not about to do the same.
static tt_status take_turn(const tt_peers *peers, const char *what, char kind,
                           int64_t bytes, turns *t)
{
    char message[MESSAGE];
    const turn own = {hash_of(what, kind, bytes), t->mine};
    snprintf(message, sizeof message, "%s", tt_error_message());
    TT_TRY(collect(peers, what, &own, sizeof own, t->all));
    if (first_elsewhere(peers, t) == peers->size)
        return TT_OK;
    t->is_told = true;
    return part(peers, what, t, message);
}

static tt_status make_turns(const tt_peers *peers, tt_status mine, turns *t)
{
    *t = (turns){mine, tt_alloc(peers->size * (int64_t)sizeof *t->all), false};
    return t->all != NULL
               ? TT_OK
               : tt_fail(TT_ERR_NOMEM, "no memory to hear other ranks");
}

// A turn of a rank that has not failed.
static tt_status meet(const tt_peers *peers, const char *what, char kind,
                      int64_t bytes)
{
    turns t;
    TT_TRY(make_turns(peers, TT_OK, &t));
    const tt_status status = take_turn(peers, what, kind, bytes, &t);
    tt_free(t.all);
    return status;
}

tt_status tt_peers_meet(const tt_peers *peers, const char *what)
{
    return peers->size == 1 ? TT_OK : meet(peers, what, 'm', 0);
}

// ---- bytes and texts -----------------------------------------------------

tt_status tt_peers_broadcast(const tt_peers *peers, const char *what,
                             void *data, int64_t bytes)
{
    if (peers->size == 1 || bytes == 0)
        return TT_OK;
    TT_TRY(meet(peers, what, 'b', bytes));
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

tt_status tt_peers_collect(const tt_peers *peers, const char *what,
                           const void *mine, int64_t bytes, void *all_out)
{
    if (peers->size == 1) {
        memcpy(all_out, mine, (size_t)bytes);
        return TT_OK;
    }
    TT_TRY(meet(peers, what, 'c', bytes));
    return collect(peers, what, mine, bytes, all_out);
}

// ---- outcomes ------------------------------------------------------------

static tt_status follow(const tt_peers *peers, const char *what, turns *t)
{
    TT_TRY(take_turn(peers, what, 'f', 0, t));
    return t->all[0].status == TT_OK
               ? TT_OK
               : tt_fail(TT_ERR_PEER, "%s: it failed on rank 0", what);
}

static tt_status agree(const tt_peers *peers, const char *what, turns *t)
{
    char message[MESSAGE];
    snprintf(message, sizeof message, "%s", tt_error_message());
    TT_TRY(take_turn(peers, what, 'a', 0, t));
    const int32_t failed = first_failed(peers, t);
    if (failed == peers->size)
        return TT_OK;
    t->is_told = true;
    return end_with(peers, t, failed, message);
}

typedef tt_status outcome_fn(const tt_peers *peers, const char *what, turns *t);

// Takes a turn with this rank's status. Its own error is restored afterwards,
// unless all ranks have been told already.
static tt_status share_outcome(const tt_peers *peers, const char *what,
                               outcome_fn *fn, tt_status status)
{
    char message[2048];
    turns t;
    snprintf(message, sizeof message, "%s", tt_error_message());
    TT_TRY(make_turns(peers, status, &t));
    const tt_status said = fn(peers, what, &t);
    tt_free(t.all);
    return status == TT_OK || t.is_told ? said : tt_fail(status, "%s", message);
}

tt_status tt_peers_follow(const tt_peers *peers, const char *what,
                          tt_status status)
{
    return peers->size == 1 ? status
                            : share_outcome(peers, what, follow, status);
}

tt_status tt_peers_agree(const tt_peers *peers, const char *what,
                         tt_status status)
{
    return peers->size == 1 ? status
                            : share_outcome(peers, what, agree, status);
}

// ---- comparing -----------------------------------------------------------

enum { MAX_FACTS = 8 };

typedef struct hashes {
    char of[MAX_FACTS][TT_HASH_CHARS];
} hashes;

// The line of `text` that begins with the same key; NULL: there is none.
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

// The first line of `a` that `b` lacks or has with another value. key_n_out: bytes
// of its key with ": ". NULL: there is none.
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

void tt_peers_explain_lines(const char *mine, const char *first, tt_str *out)
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

// "rank 2", of several hosts "rank 2 (host b)".
static void print_rank(const tt_peers *peers, tt_str *out)
{
    char host[256] = "";
    tt_str_addf(out, "rank %d", peers->rank);
    if (peers->on_host < peers->size &&
        gethostname(host, sizeof host - 1) == 0 && host[0] != '\0')
        tt_str_addf(out, " (host %s)", host);
}

// The rank that differs learns what rank 0 has and tells all what is wrong.
static tt_status explain(const tt_peers *peers, const tt_peers_fact *fact,
                         int32_t odd)
{
    tt_str first = {0}, text = {0};
    char message[MESSAGE] = "";
    print_rank(peers, &text);
    tt_str_addf(&text, " has %s than rank 0", fact->name);
    tt_str_add(&first, fact->text);
    tt_status status = TT_OK;
    if (fact->explain != NULL)
        status = tt_peers_share_text(peers, "comparison", &first);
    if (status == TT_OK && fact->explain != NULL && peers->rank == odd)
        fact->explain(fact->text, tt_str_text(&first), &text);
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
