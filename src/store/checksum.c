// checksum - see the header.
//
// The mixing function is that of splitmix64. It is a bijection, so for a given
// index two different elements never have the same value; the index enters by a
// multiple of the golden ratio, so exchanging two elements changes the sum.
// Addition modulo 2^64 is associative and commutative: that is what lets ranks sum
// their parts in any order.

#include "store/checksum.h"

#include "store/safetensors.h"

#include <string.h>

static inline uint64_t mix(uint64_t element, int64_t index)
{
    uint64_t z = element ^ ((uint64_t)index + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

#define SUM_OF(type)                                                           \
    static uint64_t sum_##type(const char *data, int64_t n, int64_t first)     \
    {                                                                          \
        uint64_t sum = 0;                                                      \
        for (int64_t i = 0; i < n; i++) {                                      \
            type x;                                                            \
            memcpy(&x, data + i * (int64_t)sizeof x, sizeof x);                \
            sum += mix(x, first + i);                                          \
        }                                                                      \
        return sum;                                                            \
    }

SUM_OF(uint8_t)
SUM_OF(uint16_t)
SUM_OF(uint32_t)
SUM_OF(uint64_t)

uint64_t tt_checksum(const void *data, int64_t n, int64_t size, int64_t first)
{
    switch (size) {
    case 8:
        return sum_uint64_t(data, n, first);
    case 4:
        return sum_uint32_t(data, n, first);
    case 2:
        return sum_uint16_t(data, n, first);
    default:
        return sum_uint8_t(data, n, first);
    }
}

int64_t tt_checksum_size(const char *dtype)
{
    const int64_t bits = tt_safetensors_bits(dtype);
    return bits == 16 || bits == 32 || bits == 64 ? bits / 8 : 1;
}
