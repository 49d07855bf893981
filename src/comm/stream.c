// stream - copies by stores that bypass the cache (non-temporal stores); elsewhere
// than on x86 a plain copy.
//
// An ordinary store first loads the cache line and, when another core has that line,
// takes it away from there. For memory that this core writes and another one reads
// next, both are wasted. A non-temporal store writes whole lines straight to memory.
// Below 8 KiB the cache is faster. The fence at the end orders these stores before the
// flag that says that the data are there.

#include "comm/stream.h"

#include <string.h>

#if defined(__SSE2__)

#    include <emmintrin.h>

enum { VECTOR = 16, LINE = 64, LEAST = 8192 };

static void stream_line(char *dst, const char *src)
{
    for (int i = 0; i < LINE; i += VECTOR)
        _mm_stream_si128((__m128i *)(dst + i),
                         _mm_loadu_si128((const __m128i *)(src + i)));
}

void tt_stream(void *dst, const void *src, int64_t bytes)
{
    char *to = dst;
    const char *from = src;
    int64_t at = 0;
    if (bytes >= LEAST) {
        at = -(int64_t)((uintptr_t)to % LINE) & (LINE - 1);
        memcpy(to, from, (size_t)at);
        for (; at + LINE <= bytes; at += LINE)
            stream_line(to + at, from + at);
        _mm_sfence();
    }
    if (at < bytes)
        memcpy(to + at, from + at, (size_t)(bytes - at));
}

#else

void tt_stream(void *dst, const void *src, int64_t bytes)
{
    if (bytes > 0)
        memcpy(dst, src, (size_t)bytes);
}

#endif
