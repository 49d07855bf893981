// pipeline - see cuda_pipeline.h.

#include <cuda_runtime.h>

#include <cuda_pipeline.h>

#include <deque>
#include <vector>

namespace
{
struct copy {
    void *to;
    const void *from;
    size_t bytes;
};
typedef std::vector<copy> batch;

struct queue {
    batch open; // not committed yet
    std::deque<batch> closed;
};

queue &of_thread(void)
{
    static queue queues[1024];
    return queues[threadIdx.x +
                  blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)];
}
} // namespace

void __pipeline_memcpy_async(void *shared, const void *global, size_t bytes)
{
    of_thread().open.push_back({shared, global, bytes});
}

void __pipeline_commit(void)
{
    queue &q = of_thread();
    q.closed.push_back(q.open);
    q.open.clear();
}

void __pipeline_wait_prior(size_t n)
{
    queue &q = of_thread();
    for (; q.closed.size() > n; q.closed.pop_front())
        for (const copy &c : q.closed.front())
            memcpy(c.to, c.from, c.bytes);
}
