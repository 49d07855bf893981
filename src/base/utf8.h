// utf8 - characters in bytes that may be anything.

#ifndef TT_BASE_UTF8_H
#define TT_BASE_UTF8_H

#include <stdint.h>

// Bytes of the character at `text`, of which `n` bytes are there, or 0 when none
// begins there: surrogates, overlong forms and codes above 10FFFF are no
// characters. `code_out` may be NULL.
int tt_utf8_read(const char *text, int64_t n, uint32_t *code_out);

// Writes the bytes of a code below 110000 (hexadecimal); returns how many.
int tt_utf8_write(uint32_t code, char out[4]);

// Bytes from the start that are whole characters: `n` when all are.
int64_t tt_utf8_valid(const char *text, int64_t n);

#endif
