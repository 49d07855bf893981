// Peaks by name: the longer name is the one that is meant, and unknown ones are 0.

#include "backend/peak.h"
#include "test.h"

TEST(peak_is_known_by_the_whole_name)
{
    CHECK(tt_peak_flops("NVIDIA H200") == 989e12);
    CHECK(tt_peak_flops("NVIDIA H100 80GB HBM3") == 989e12);
    CHECK(tt_peak_flops("NVIDIA H100 PCIe") == 756e12);
    CHECK(tt_peak_flops("NVIDIA A100-SXM4-80GB") == 312e12);
    CHECK(tt_peak_flops("NVIDIA L40S") == 362e12);
    CHECK(tt_peak_flops("NVIDIA L4") == 121e12);
    CHECK(tt_peak_flops("Tesla V100-PCIE-16GB") == 112e12);
    CHECK(tt_peak_flops("Tesla V100-SXM2-16GB") == 125e12);
    CHECK(tt_peak_flops("NVIDIA GeForce RTX 4090") == 165e12);
    CHECK(tt_peak_flops("NVIDIA GeForce RTX 4090D") == 0);
    CHECK(tt_peak_flops("AMD EPYC") == 0 && tt_peak_flops("") == 0);
}
