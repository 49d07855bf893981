// What crosses the network does so once per host, shared by its members.

#include "comm/coll/coll.h"
#include "test.h"

// Members on hosts: `q` on each of `h`, neighbours or in turn.
static tt_coll_cost cost_of(int32_t q, int32_t h, bool in_turn, int64_t count)
{
    static int32_t host[64];
    for (int32_t i = 0; i < q * h; i++)
        host[i] = in_turn ? i % h : i / q;
    const tt_coll_call call = {.kind = TT_ALL_REDUCE,
                               .group = {.n = q * h, .me = 1, .host = host},
                               .fold = {TT_FOLD_SUM, TT_NUM_F32},
                               .count = count};
    return tt_coll_find("hierarchical")->way[TT_ALL_REDUCE].cost(&call);
}

TEST(hierarchical_sends_what_its_formula_says)
{
    const int64_t count = 5040; // of which all parts are whole
    for (int32_t q = 1; q <= 4; q++)
        for (int32_t h = 1; h <= 5; h++)
            for (int in_turn = 0; in_turn < 2 && q * h > 1; in_turn++) {
                const tt_coll_cost cost = cost_of(q, h, in_turn, count);
                const int64_t near = 2 * (q - 1) * count / q;
                const int64_t far = 2 * (h - 1) * (count / q) / h;
                CHECK_MSG(cost.bytes == 4 * (near + far) &&
                              cost.messages == 2 * (q - 1) + 2 * (h - 1),
                          "%d on each of %d hosts: %lld bytes, %lld messages",
                          q, h, (long long)cost.bytes,
                          (long long)cost.messages);
            }
}

TEST(hierarchical_on_one_host_or_on_as_many_as_members_is_a_ring)
{
    const tt_coll_def *ring = tt_coll_find("ring");
    for (int32_t n = 2; n <= 9; n++) {
        const tt_coll_call call = {.kind = TT_ALL_REDUCE,
                                   .group = {.n = n, .me = 1},
                                   .fold = {TT_FOLD_SUM, TT_NUM_F32},
                                   .count = 5040 * 3};
        const tt_coll_cost want = ring->way[TT_ALL_REDUCE].cost(&call);
        CHECK(cost_of(n, 1, false, call.count).bytes == want.bytes);
        CHECK(cost_of(1, n, false, call.count).bytes == want.bytes);
    }
}
