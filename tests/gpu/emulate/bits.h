// bits - what looks at the bits of a number, for kernels on the host.

#ifndef EMULATED_BITS_H
#define EMULATED_BITS_H

#include <stdint.h>
#include <string.h>

// Byte i of the result is the byte that nibble i of `which` names, of y and x.
inline uint32_t __byte_perm(uint32_t x, uint32_t y, uint32_t which)
{
    const uint64_t both = (uint64_t)y << 32 | x;
    uint32_t out = 0;
    for (int i = 0; i < 4; i++)
        out |= (uint32_t)(both >> 8 * (which >> 4 * i & 7) & 0xff) << 8 * i;
    return out;
}
// The bits in the opposite order.
inline uint32_t __brev(uint32_t x)
{
    uint32_t out = 0;
    for (int i = 0; i < 32; i++)
        out |= (x >> i & 1) << (31 - i);
    return out;
}
inline unsigned __float_as_uint(float x)
{
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
inline float __uint_as_float(unsigned bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
inline int __float_as_int(float x)
{
    int y;
    memcpy(&y, &x, sizeof y);
    return y;
}

#endif
