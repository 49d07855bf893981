// device_radix_sort - as the plug-in uses it: pairs, sorted by key, stable.

#ifndef EMULATED_CUB_DEVICE_RADIX_SORT_CUH
#define EMULATED_CUB_DEVICE_RADIX_SORT_CUH

#include <cuda_runtime.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace cub
{
struct DeviceRadixSort {
    template <typename K, typename V>
    static cudaError_t SortPairs(void *temporary, size_t &bytes, const K *keys,
                                 K *keys_out, const V *values, V *values_out,
                                 int n, int first_bit, int end_bit,
                                 cudaStream_t stream = nullptr)
    {
        if (temporary == nullptr) {
            bytes = 256;
            return cudaSuccess;
        }
        emulated::queue(stream, [=] {
            std::vector<int> order((size_t)n);
            std::iota(order.begin(), order.end(), 0);
            const uint64_t mask = ((uint64_t)1 << (end_bit - first_bit)) - 1;
            std::stable_sort(order.begin(), order.end(), [=](int a, int b) {
                return ((uint64_t)keys[a] >> first_bit & mask) <
                       ((uint64_t)keys[b] >> first_bit & mask);
            });
            for (int i = 0; i < n; i++) {
                keys_out[i] = keys[order[(size_t)i]];
                values_out[i] = values[order[(size_t)i]];
            }
        });
        return cudaSuccess;
    }
};
} // namespace cub

#endif
