// stream - copying past this core's caches: for memory that another core reads next,
// or has read last. A plain store would first fetch each line from that core.

#ifndef TT_COMM_STREAM_H
#define TT_COMM_STREAM_H

#include <stdint.h>

// The areas do not overlap. Stores that follow are seen after these.
void tt_stream(void *dst, const void *src, int64_t bytes);

#endif
