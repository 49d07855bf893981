// pairs - see the header. Folds are made into the left of two, so that the first
// member's place, `to`, has the result.

#include "comm/coll/pairs.h"

static tt_status no_room(int64_t bytes)
{
    return tt_fail(TT_ERR_NOMEM, "no %lld bytes to fold in pairs",
                   (long long)bytes);
}

// Member i waits in all[i], the first one where the fold will be.
static tt_status begin_wide(tt__coll_pairs *p, void *to, tt__pairs_room room)
{
    const int32_t n = p->set.n;
    const int64_t data = (n - 1) * p->bytes;
    const int64_t list = n > TT__LEVELS ? n * (int64_t)sizeof *p->all : 0;
    const int64_t more = list + (data > room.bytes ? data : 0);
    char *own = NULL;
    if (list > 0 || data > room.bytes) {
        own = tt_comm_room(room.comm, TT_ROOM_PAIRS, more);
        if (own == NULL)
            return no_room(more);
    }
    p->all = list > 0 ? (char **)(void *)own : p->few;
    char *at = data > room.bytes ? own + list : room.data;
    p->all[0] = to;
    for (int32_t i = 1; i < n; i++)
        p->all[i] = at + (i - 1) * p->bytes;
    p->set.src = (const char *const *)p->all;
    return TT_OK;
}

tt_status tt__pairs_begin(tt__coll_pairs *p, const tt_coll_call *call,
                          int64_t count, void *to, tt__pairs_room room)
{
    const int64_t levels = tt_coll_log2(call->group.n);
    *p = (tt__coll_pairs){.fold = call->fold,
                          .bytes = tt_coll_bytes(call, count)};
    p->set = (tt_fold_set){call->fold, call->rounds_each, call->group.n, NULL};
    p->is_wide = tt_fold_is_wide(&p->set);
    if (p->is_wide)
        return begin_wide(p, to, room);
    const int64_t wanted = levels > 1 ? (levels - 1) * p->bytes : 0;
    char *more = wanted <= room.bytes
                     ? room.data
                     : tt_comm_room(room.comm, TT_ROOM_PAIRS, wanted);
    if (more == NULL && wanted > 0)
        return no_room(wanted);
    for (int64_t l = levels - 1; l > 0; l--)
        p->free[p->n_free++] = more + (l - 1) * p->bytes;
    p->free[p->n_free++] = to;
    return TT_OK;
}

char *tt__pairs_next(tt__coll_pairs *p, bool *adds_out)
{
    *adds_out = !p->is_wide && p->i % 2 == 1;
    if (p->is_wide)
        return p->all[p->i];
    if (!*adds_out)
        p->part[0] = p->free[--p->n_free];
    return p->part[0];
}

static char *merge(tt__coll_pairs *p, char *left, char *right)
{
    tt_fold_into(p->fold, left, right, p->bytes);
    p->free[p->n_free++] = right;
    return left;
}

// The carry of the binary counter: a pair is complete, and meets pairs of the same
// size.
void tt__pairs_took(tt__coll_pairs *p)
{
    if (p->i++ % 2 == 0 || p->is_wide)
        return;
    int level = 1;
    char *sum = p->part[0];
    p->part[0] = NULL;
    for (; p->part[level] != NULL; level++) {
        sum = merge(p, p->part[level], sum);
        p->part[level] = NULL;
    }
    p->part[level] = sum;
}

// When n is no power of two, parts of different sizes are left: the smaller ones, which
// hold the later members, are folded into the larger ones.
void tt__pairs_finish(tt__coll_pairs *p)
{
    char *sum = NULL;
    if (p->is_wide) {
        tt_fold_pairs(&p->set, p->all[0], 0, p->bytes);
        return;
    }
    for (int level = 0; p->i >> level != 0; level++)
        if (p->part[level] != NULL)
            sum = sum == NULL ? p->part[level] : merge(p, p->part[level], sum);
}
