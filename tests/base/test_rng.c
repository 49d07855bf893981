// Random numbers: the published Philox vectors, and moments.

#include "base/rng.h"
#include "test.h"

#include <string.h>

typedef struct vector {
    uint32_t counter[4];
    uint32_t key[2];
    uint32_t want[4];
} vector;

TEST(philox_gives_the_published_numbers)
{
    static const vector vectors[] = {
        {{0, 0, 0, 0},
         {0, 0},
         {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int i = 0; i < 3; i++) {
        const vector *v = &vectors[i];
        const uint64_t key = (uint64_t)v->key[1] << 32 | v->key[0];
        uint32_t out[4];
        tt_rng_philox_counter(key, v->counter, out);
        CHECK(memcmp(out, v->want, sizeof(out)) == 0);
    }
}

TEST(philox_blocks_are_the_low_half_of_the_counter)
{
    const uint64_t key = 0x299f31d0a4093822;
    const uint32_t counter[4] = {0x243f6a88, 0x85a308d3, 0, 0};
    uint32_t a[4], b[4];
    tt_rng_philox(key, 0x85a308d3243f6a88, a);
    tt_rng_philox_counter(key, counter, b);
    CHECK(memcmp(a, b, sizeof(a)) == 0);
    for (uint64_t i = 0; i < 4; i++)
        CHECK(tt_rng_u32(key, 0x85a308d3243f6a88 % (1ull << 62) * 4 + i) ==
              tt_rng_u32(key, 0x05a308d3243f6a88 * 4 + i));
}

TEST(words_are_taken_in_order)
{
    uint32_t out[4];
    tt_rng_philox(5, 10, out);
    for (uint64_t i = 0; i < 4; i++)
        CHECK(tt_rng_u32(5, 40 + i) == out[i]);
}

TEST(keys_depend_on_seed_origin_and_step)
{
    const uint64_t key = tt_rng_key(1, "h.0.attn", 2);
    CHECK(key == tt_rng_key(1, "h.0.attn", 2));
    CHECK(key == tt_rng_key_step(tt_hash("h.0.attn", 8), 1, 2));
    CHECK(key != tt_rng_key(2, "h.0.attn", 1));
    CHECK(key != tt_rng_key(2, "h.0.attn", 2));
    CHECK(key != tt_rng_key(1, "h.0.attn", 3));
    CHECK(key != tt_rng_key(1, "h.1.attn", 2));
}

TEST(hash_sees_every_byte_and_the_length)
{
    unsigned char bytes[40] = {0};
    for (int64_t n = 0; n < 40; n++) {
        const uint64_t base = tt_hash(bytes, n);
        CHECK(base != tt_hash(bytes, n + 1 < 40 ? n + 1 : 0));
        for (int64_t i = 0; i < n; i++) {
            bytes[i] ^= 0x80;
            CHECK(tt_hash(bytes, n) != base);
            bytes[i] ^= 0x80;
        }
    }
    CHECK(tt_hash(NULL, 0) == tt_hash("", 0));
}

TEST(uniform_and_normal_have_their_moments)
{
    const uint64_t key = tt_rng_key(42, "moments", 0);
    const int n = 200000;
    double sum = 0, squares = 0, normals = 0, normal_squares = 0, fourth = 0;
    for (int i = 0; i < n; i++) {
        const double u = tt_rng_uniform(key, (uint64_t)i);
        const double z = tt_rng_normal(key, (uint64_t)i);
        CHECK(u >= 0 && u < 1 && isfinite(z));
        sum += u;
        squares += u * u;
        normals += z;
        normal_squares += z * z;
        fourth += z * z * z * z;
    }
    CHECK(fabs(sum / n - 0.5) < 0.005);
    CHECK(fabs(squares / n - 1.0 / 3) < 0.005);
    CHECK(fabs(normals / n) < 0.01);
    CHECK(fabs(normal_squares / n - 1) < 0.02);
    CHECK(fabs(fourth / n - 3) < 0.1);
}
