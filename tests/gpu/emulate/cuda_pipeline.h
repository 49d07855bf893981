// cuda_pipeline - copies into shared memory that go on beside their thread; here they
// are done when the thread waits for them and not before.

#ifndef EMULATED_CUDA_PIPELINE_H
#define EMULATED_CUDA_PIPELINE_H

#include <cstddef>

void __pipeline_memcpy_async(void *shared, const void *global, size_t bytes);
void __pipeline_commit(void);
void __pipeline_wait_prior(size_t n);

#endif
