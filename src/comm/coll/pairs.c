// pairs - see the header. Folds are made into the left of two, so that the first
// member's place, `to`, has the result.

#include "comm/coll/pairs.h"

#include "base/alloc.h"

tt_status tt__pairs_begin(tt__pairs *p, const tt_coll_call *call, int64_t count,
                          void *to, void *room, int64_t room_bytes)
{
    const int64_t levels = tt_coll_log2(call->group.n);
    *p = (tt__pairs){.fold = call->fold, .bytes = tt_coll_bytes(call, count)};
    char *more = room;
    if (levels > 1 && (levels - 1) * p->bytes > room_bytes) {
        more = p->own = tt_alloc((levels - 1) * p->bytes);
        if (more == NULL)
            return tt_fail(TT_ERR_NOMEM, "no %lld bytes to fold in pairs",
                           (long long)((levels - 1) * p->bytes));
    }
    for (int64_t l = levels - 1; l > 0; l--)
        p->free[p->n_free++] = more + (l - 1) * p->bytes;
    p->free[p->n_free++] = to;
    return TT_OK;
}

void tt__pairs_end(tt__pairs *p)
{
    tt_free(p->own);
}

char *tt__pairs_next(tt__pairs *p, bool *adds_out)
{
    *adds_out = p->i % 2 == 1;
    if (!*adds_out)
        p->part[0] = p->free[--p->n_free];
    return p->part[0];
}

static char *merge(tt__pairs *p, char *left, char *right)
{
    tt_fold_into(p->fold, left, right, p->bytes);
    p->free[p->n_free++] = right;
    return left;
}

void tt__pairs_took(tt__pairs *p)
{
    if (p->i++ % 2 == 0)
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

void tt__pairs_finish(tt__pairs *p)
{
    char *sum = NULL;
    for (int level = 0; p->i >> level != 0; level++)
        if (p->part[level] != NULL)
            sum = sum == NULL ? p->part[level] : merge(p, p->part[level], sum);
}
