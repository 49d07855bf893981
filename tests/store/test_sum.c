// Sums of parts add up to the sum of the whole, and tell any change.

#include "store/checksum.h"
#include "test.h"

enum { N = 96 };

static const int64_t sizes[] = {1, 2, 4, 8};

static void fill(unsigned char *data)
{
    for (int i = 0; i < 8 * N; i++)
        data[i] = (unsigned char)(i * 37 + 11);
}

TEST(sum_of_parts_is_that_of_the_whole)
{
    unsigned char data[8 * N];
    fill(data);
    for (int s = 0; s < 4; s++) {
        const int64_t size = sizes[s];
        const uint64_t whole = tt_checksum(data, N, size, 0);
        for (int64_t run = 1; run <= N; run += 7) {
            uint64_t parts = 0;
            for (int64_t at = 0; at < N; at += run)
                parts += tt_checksum(data + at * size,
                                     at + run > N ? N - at : run, size, at);
            CHECK(parts == whole);
        }
        CHECK(tt_checksum(data, 0, size, 5) == 0);
    }
}

TEST(sum_tells_every_bit_and_every_place)
{
    unsigned char data[8 * N];
    fill(data);
    for (int s = 0; s < 4; s++) {
        const int64_t size = sizes[s];
        const uint64_t whole = tt_checksum(data, N, size, 0);
        CHECK(tt_checksum(data, N, size, 1) != whole);
        for (int64_t bit = 0; bit < 8 * size * N; bit++) {
            data[bit / 8] ^= (unsigned char)(1 << bit % 8);
            CHECK(tt_checksum(data, N, size, 0) != whole);
            data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
        for (int64_t i = 1; i < N; i++) { // two that change places
            unsigned char other[8 * N];
            fill(other);
            for (int64_t k = 0; k < size; k++) {
                other[k] = data[i * size + k];
                other[i * size + k] = data[k];
            }
            const bool is_same = tt_checksum(data, 1, size, 0) ==
                                 tt_checksum(data + i * size, 1, size, 0);
            CHECK(is_same == (tt_checksum(other, N, size, 0) == whole));
        }
    }
    unsigned char zeros[8 * N] = {0};
    CHECK(tt_checksum(zeros, N, 8, 0) != tt_checksum(zeros, N - 1, 8, 0));
}

TEST(sum_takes_types_of_odd_sizes_as_bytes)
{
    CHECK(tt_checksum_size("F64") == 8 && tt_checksum_size("F32") == 4);
    CHECK(tt_checksum_size("BF16") == 2 && tt_checksum_size("U8") == 1);
    CHECK(tt_checksum_size("F4") == 1 && tt_checksum_size("what") == 1);
}
