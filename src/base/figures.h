// figures - numbers for people, the same in every table: thousands with commas,
// decimal units with three digits.

#ifndef TT_BASE_FIGURES_H
#define TT_BASE_FIGURES_H

#include "base/str.h"

#include <stdint.h>

void tt_add_grouped(tt_str *out, int64_t value);               // 1,003,854
void tt_add_count(tt_str *out, double value);                  // 26.4 k
void tt_add_unit(tt_str *out, double value, const char *unit); // 3.90 GFLOP
void tt_add_bytes(tt_str *out, int64_t bytes);                 // 131 MB

#endif
