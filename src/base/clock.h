// clock - seconds since an arbitrary start; monotonic.

#ifndef TT_BASE_CLOCK_H
#define TT_BASE_CLOCK_H

double tt_clock_seconds(void);

#endif
