// peak - what a device can compute at most, by its name.

#ifndef TT_BACKEND_PEAK_H
#define TT_BACKEND_PEAK_H

#include <stdbool.h>

// Operations a second, of dense products of 16 bits; 0: the name is not known.
double tt_peak_flops(const char *name);

#endif
