// shares_user - each user's images are one client's: the skew that real data have, since
// everybody writes digits in his own hand.
//
//   images sorted by user    | ann: 3 images | bob: 5 | cyd: 2 | dan: 4 |
//   two clients                client 0        1        0        1
//
// Users are numbered in the order of their names' bytes and dealt to clients in turn; with as
// many users as clients each has one.

#include "data/shares_user.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

typedef struct owned { // an image
    const char *user;
    int64_t n; // bytes of the name
    int64_t index;
    int32_t client;
} owned;

static int compare_users(const owned *x, const owned *y)
{
    const int64_t n = x->n < y->n ? x->n : y->n;
    const int order = memcmp(x->user, y->user, (size_t)n);
    return order != 0 ? order : (x->n > y->n) - (x->n < y->n);
}

static int compare(const void *a, const void *b)
{
    const owned *x = a, *y = b;
    const int order = compare_users(x, y);
    return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

static tt_status ask_users(const tt_source *source, owned *all)
{
    for (int64_t i = 0; i < source->n; i++) {
        all[i].index = i;
        all[i].user = source->def->user(source, i, &all[i].n);
        if (all[i].user == NULL)
            return tt_source_blame(
                source, i,
                tt_fail(TT_ERR_ARG,
                        "exchange.split=user: the sample is nobody's; a folder "
                        "has CLASS/USER/x.png, shards of webdataset have "
                        "USER/x.jpg, and for csv data.user names a column"));
    }
    return TT_OK;
}

// Deals users to clients; how many there are.
static int64_t deal(owned *all, int64_t n, int32_t clients)
{
    int64_t users = 0;
    for (int64_t i = 0; i < n; i++) {
        users += i == 0 || compare_users(&all[i - 1], &all[i]) != 0;
        all[i].client = (int32_t)((users - 1) % clients);
    }
    return users;
}

static void fill(const owned *all, int64_t n, int32_t clients, int64_t *first,
                 int64_t *index)
{
    for (int64_t i = 0; i < n; i++)
        first[all[i].client + 1]++;
    for (int32_t k = 0; k < clients; k++)
        first[k + 1] += first[k];
    for (int64_t i = 0; i < n; i++)
        index[first[all[i].client]++] = all[i].index;
    memmove(first + 1, first, (size_t)clients * sizeof *first); // were moved on
    first[0] = 0;
}

static tt_status share(const tt_source *source, int32_t clients, owned *all,
                       int64_t *first, int64_t *index)
{
    TT_TRY(ask_users(source, all));
    qsort(all, (size_t)source->n, sizeof *all, compare);
    const int64_t users = deal(all, source->n, clients);
    if (users < clients)
        return tt_fail(TT_ERR_ARG,
                       "exchange.split=user: %lld users are too few for %d "
                       "clients; exchange.replicas=%lld would do",
                       (long long)users, clients, (long long)users);
    fill(all, source->n, clients, first, index);
    return TT_OK;
}

tt_status tt__shares_by_user(const tt_source *source,
                             const tt_shares_options *options, int64_t *first,
                             int64_t *index)
{
    if (source->kind != TT_DATA_IMAGES || source->def->user == NULL)
        return tt_fail(TT_ERR_ARG,
                       "exchange.split=user: data=%s does not say whose its "
                       "samples are; folder (CLASS/USER/x.png), webdataset "
                       "(USER/x.jpg) and csv (data.user) do, and "
                       "exchange.split=contiguous would do without",
                       source->def->name);
    owned *all = tt_alloc((source->n + 1) * (int64_t)sizeof *all);
    if (all == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for the data of clients");
    const tt_status status = share(source, options->clients, all, first, index);
    tt_free(all);
    return status;
}
