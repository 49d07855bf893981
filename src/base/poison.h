// poison - what lies in memory that nobody has written yet, and in guards: memory
// that nobody may write.

#ifndef TT_BASE_POISON_H
#define TT_BASE_POISON_H

#include <stdint.h>

enum { TT_POISON = 0xff }; // NaN in every float type

// Byte `at` of a guard that begins at an even place. It is NaN too, so that reading
// it shows; in double a signalling one, which arithmetic does not leave as it is;
// and another one from place to place, so that copies show.
static inline unsigned char tt_guard_byte(int64_t at)
{
    const uint32_t mixed = (uint32_t)(at / 2) * 2654435761u >> 16;
    if (at % 2 == 0)
        return (unsigned char)(0xf1 + mixed % 7);
    return mixed & 0x800 ? 0xff : 0x7f;
}

#endif
