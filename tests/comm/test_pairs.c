// Folds in pairs: the order is that of neighbours, of pairs of them, and so on; a
// group whose members each fold an equal power of two of them first has the same
// bits; nothing is allocated that fits into the room there is.

#include "base/alloc.h"
#include "comm/coll/pairs.h"
#include "test.h"

#include <string.h>

enum { MOST = 41, N = 3 };

// Member m's data: sums depend on their order in nearly every bit.
static double value(int32_t m, int i)
{
    return 1.0 / (double)(3 + 7 * m + i) + (m % 3 == 0 ? 1e9 : 0);
}

// The sum of members [first, first + n) by the definition.
static double expected(int32_t first, int32_t n, int i)
{
    if (n == 1)
        return value(first, i);
    int32_t half = 1;
    while (2 * half < n)
        half *= 2;
    return expected(first, half, i) + expected(first + half, n - half, i);
}

static tt_status fold_all(int32_t n, void *room, int64_t bytes, double *to)
{
    tt__coll_pairs p;
    const tt_coll_call call = {.group = {.n = n},
                               .fold = {TT_FOLD_SUM, TT_NUM_F64}};
    tt_comm comm = {0};
    const tt_status status =
        tt__pairs_begin(&p, &call, N, to, (tt__pairs_room){&comm, room, bytes});
    for (int32_t m = 0; m < n && status == TT_OK; m++) {
        double own[N];
        bool adds = false;
        char *at = tt__pairs_next(&p, &adds);
        for (int i = 0; i < N; i++)
            own[i] = value(m, i);
        if (adds)
            tt_fold_into(call.fold, at, own, (int64_t)sizeof own);
        else
            memcpy(at, own, sizeof own);
        tt__pairs_took(&p);
    }
    if (status == TT_OK)
        tt__pairs_finish(&p);
    tt_free(comm.room[TT_ROOM_PAIRS].data);
    return status;
}

TEST(pairs_fold_neighbours_first)
{
    for (int32_t n = 1; n <= MOST; n++) {
        double sum[N] = {0}, room[6 * N];
        CHECK_OK(fold_all(n, room, (int64_t)sizeof room, sum));
        for (int i = 0; i < N; i++)
            CHECK(sum[i] == expected(0, n, i));
        CHECK_OK(fold_all(n, NULL, 0, sum));
        for (int i = 0; i < N; i++)
            CHECK(sum[i] == expected(0, n, i));
    }
}

TEST(pairs_of_larger_members_are_the_same_pairs)
{
    // Three members of four each, two of four, and so on.
    for (int32_t each = 2; each <= 8; each *= 2)
        for (int32_t n = 2; n * each <= MOST; n++) {
            double part[MOST];
            for (int32_t m = 0; m < n; m++)
                part[m] = expected(m * each, each, 0);
            int32_t left = n;
            for (; left > 1; left = (left + 1) / 2)
                for (int32_t m = 0; m < left; m += 2)
                    part[m / 2] =
                        m + 1 < left ? part[m] + part[m + 1] : part[m];
            CHECK(part[0] == expected(0, n * each, 0));
        }
}

// 1 and 2^-9 three times in bf16: rounded after every two, nothing is added to 1.
TEST(pairs_of_short_floats_are_rounded_once)
{
    static const uint16_t one = 0x3f80, tiny = 0x3b00, sum = 0x3f81;
    for (int each = 0; each < 2; each++)
        for (int fits = 0; fits < 2; fits++) {
            tt__coll_pairs p;
            uint16_t to = 0, room[3] = {0};
            const tt_coll_call call = {.group = {.n = 4},
                                       .fold = {TT_FOLD_SUM, TT_NUM_BF16},
                                       .rounds_each = each == 1};
            tt_comm comm = {0};
            CHECK_OK(tt__pairs_begin(
                &p, &call, 1, &to,
                (tt__pairs_room){&comm, room, fits ? sizeof room : 0}));
            CHECK((comm.room[TT_ROOM_PAIRS].data == NULL) == (fits == 1));
            for (int m = 0; m < 4; m++) {
                bool adds = false;
                char *at = tt__pairs_next(&p, &adds);
                const uint16_t own = m == 0 ? one : tiny;
                CHECK(adds == (each == 1 && m % 2 == 1));
                if (adds)
                    tt_fold_into(call.fold, at, &own, 2);
                else
                    memcpy(at, &own, 2);
                tt__pairs_took(&p);
            }
            tt__pairs_finish(&p);
            tt_free(comm.room[TT_ROOM_PAIRS].data);
            CHECK(to == (each == 1 ? one : sum));
        }
}

// More members than the list beside it has room for.
TEST(pairs_of_many_short_floats_are_rounded_once)
{
    enum { MANY = 100 };
    tt__coll_pairs p;
    uint16_t to = 0, room[MANY];
    const tt_coll_call call = {.group = {.n = MANY},
                               .fold = {TT_FOLD_SUM, TT_NUM_BF16}};
    tt_comm comm = {0};
    CHECK_OK(tt__pairs_begin(&p, &call, 1, &to,
                             (tt__pairs_room){&comm, room, sizeof room}));
    for (int m = 0; m < MANY; m++) {
        bool adds = false;
        const uint16_t one = 0x3f80;
        memcpy(tt__pairs_next(&p, &adds), &one, 2);
        CHECK(!adds);
        tt__pairs_took(&p);
    }
    tt__pairs_finish(&p);
    tt_free(comm.room[TT_ROOM_PAIRS].data);
    CHECK(to == 0x42c8);
}

TEST(pairs_take_no_memory_where_there_is_room)
{
    double sum[N], room[3 * N];
    tt__coll_pairs p;
    const tt_coll_call call = {.group = {.n = 16},
                               .fold = {TT_FOLD_SUM, TT_NUM_F64}};
    tt_comm comm = {0};
    tt__pairs_room all = {&comm, room, sizeof room};
    CHECK_OK(tt__pairs_begin(&p, &call, N, sum, all));
    CHECK(comm.room[TT_ROOM_PAIRS].data == NULL && p.n_free == 4);
    all.bytes--;
    CHECK_OK(tt__pairs_begin(&p, &call, N, sum, all));
    const void *more = comm.room[TT_ROOM_PAIRS].data;
    CHECK(more != NULL);
    // The next fold of this size takes the same memory.
    CHECK_OK(tt__pairs_begin(&p, &call, N, sum, all));
    CHECK(comm.room[TT_ROOM_PAIRS].data == more);
    tt_free(comm.room[TT_ROOM_PAIRS].data);
}
