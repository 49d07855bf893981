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

TEST(floats_of_8_bits_go_there_and_back)
{
    for (int t = TT_E4M3; t <= TT_E5M2; t++) {
        const double most = tt_dtype_largest((tt_dtype)t);
        CHECK(most == (t == TT_E4M3 ? 448 : 57344));
        for (int i = 0; i < 256; i++) {
            const uint8_t byte = (uint8_t)i;
            const double x = tt_dtype_load((tt_dtype)t, &byte, 0);
            uint8_t back = 0;
            tt_dtype_store((tt_dtype)t, &back, 0, x);
            CHECK(isnan(x) || (fabs(x) <= most && back == byte));
        }
    }
}

static double through(tt_dtype dtype, double x)
{
    uint8_t byte = 0;
    tt_dtype_store(dtype, &byte, 0, x);
    return tt_dtype_load(dtype, &byte, 0);
}

TEST(floats_of_8_bits_round_to_even_and_saturate)
{
    CHECK(through(TT_E4M3, 17) == 16 && through(TT_E4M3, 19) == 20);
    CHECK(through(TT_E4M3, 1.99) == 2 && through(TT_E4M3, 0x1p-9) == 0x1p-9);
    CHECK(through(TT_E4M3, 0x1p-10) == 0 &&
          through(TT_E4M3, 0x1.8p-9) == 0x1p-8);
    CHECK(through(TT_E4M3, 449) == 448 && through(TT_E4M3, -1e30) == -448);
    CHECK(through(TT_E5M2, 9) == 8 && through(TT_E5M2, 11) == 12);
    CHECK(through(TT_E5M2, 1e30) == 57344 &&
          through(TT_E5M2, -60000) == -57344);
    CHECK(through(TT_E5M2, 0x1p-16) == 0x1p-16);
    CHECK(isnan(through(TT_E4M3, (double)INFINITY)));
    CHECK(isnan(through(TT_E5M2, (double)NAN)));
}
