// memo - choices that were measured (which algorithm is fastest for a shape), kept from
// process to process. The library gives the plug-in two functions, find and keep; where
// the choices are stored is its business.
//
// Two reasons: measuring takes seconds, and algorithms differ in the order of their
// sums. Runs that choose alike have the same bits. A key has all that a choice depends
// on: the kind of device, the version of the library, the shape.

#ifndef TT_BACKEND_CUDA_DEV_MEMO_CUH
#define TT_BACKEND_CUDA_DEV_MEMO_CUH

#include "backend/cuda/dev/common.cuh"

#include <stdio.h>
#include <string>
#include <vector>

// Of `what`, by a library of that version, for these numbers.
static inline std::string memo_key(const tt_cuda *cuda, const char *what,
                                   size_t version,
                                   const std::vector<int64_t> &numbers)
{
    const tt_cuda_info &i = cuda->info;
    char text[160];
    snprintf(text, sizeof text, "%s %d.%d %d %s %zu", i.name, i.major, i.minor,
             i.cores, what, version);
    std::string key = text;
    for (const int64_t number : numbers) {
        snprintf(text, sizeof text, " %lld", (long long)number);
        key += text;
    }
    return key;
}

static inline bool memo_find(const tt_cuda *cuda, const std::string &key,
                             unsigned long long *value_out)
{
    const tt_cuda_memo &m = cuda->memo;
    const char *value = m.find == NULL ? NULL : m.find(m.ctx, key.c_str());
    return value != NULL && sscanf(value, "%llx", value_out) == 1;
}

static inline void memo_keep(const tt_cuda *cuda, const std::string &key,
                             unsigned long long value)
{
    const tt_cuda_memo &m = cuda->memo;
    char text[32];
    snprintf(text, sizeof text, "%llx", value);
    if (m.keep != NULL)
        m.keep(m.ctx, key.c_str(), text);
}

#endif
