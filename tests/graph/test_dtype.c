// Elements of every type go there and back.

#include "graph/dtype.h"
#include "test.h"

TEST(small_whole_numbers_survive_in_every_type)
{
    for (int t = 0; t < TT_N_DTYPES; t++) {
        double room[4];
        for (int i = 0; i < 4; i++)
            tt_dtype_store((tt_dtype)t, room, i, i);
        for (int i = 0; i < 4; i++)
            CHECK_MSG(tt_dtype_load((tt_dtype)t, room, i) == i, "%s: %d",
                      tt_dtype_name((tt_dtype)t), i);
    }
}

TEST(halves_keep_zero_subnormals_and_the_sign)
{
    static const double values[] = {0, -0.0, 0x1p-24, -0x1p-15, 0x1p-14, 1.5};
    double room;
    for (int i = 0; i < 6; i++) {
        tt_dtype_store(TT_F16, &room, 0, values[i]);
        const double got = tt_dtype_load(TT_F16, &room, 0);
        CHECK(got == values[i] && signbit(got) == signbit(values[i]));
    }
}
