// device - the emulated device: memory is the host's, work is done when it is asked
// for, threads of a block are fibers that change places at barriers and shuffles.
//
// Blocks, warps and lanes run in one order in one launch and in the other in the next,
// so that results which depend on it differ from run to run.

#include <cuda_runtime.h>

#include <deque>
#include <mutex>
#include <setjmp.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#include <ucontext.h>
#include <vector>

dim3 threadIdx, blockIdx, blockDim, gridDim;

// The device's clock counts launches and products, so that what is measured on it is
// the same every time.
static int64_t ticks;

namespace
{
enum { MOST = 1024, LANES = 32, STACK = 64 << 10, BARRIERS = 16 };
enum state { READY, AT_WARP, AT_BLOCK, AT_BARRIER, DONE };

struct fiber {
    bool is_made;
    state is;
    unsigned barrier, n_meet; // where it waits, and for how many
    dim3 index;
    jmp_buf at;
};

fiber fibers[MOST];
int n_fibers, current;
jmp_buf scheduler;
char *stacks;
emulated::body_fn *body;
void *body_context;
bool is_backward;
alignas(128) char shared_room[227 << 10];

// What lanes give each other, and what all threads do, by turns.
uint64_t slot[MOST / LANES][2][LANES];
int turn_of[MOST];
int vote_or[2], vote_and[2], vote_turn[MOST];

[[noreturn]] void give_up(const char *why)
{
    fprintf(stderr, "emulated device: %s (block %u %u %u, thread %d)\n", why,
            blockIdx.x, blockIdx.y, blockIdx.z, current);
    abort();
}

void leave(state why)
{
    const int me = current;
    fibers[me].is = why;
    if (_setjmp(fibers[me].at) == 0)
        _longjmp(scheduler, 1);
}

// A fiber is made once and comes back for the thread of the next block.
void entry(void)
{
    for (;;) {
        body(body_context);
        leave(DONE);
    }
}

void start(int i)
{
    static ucontext_t context, back;
    getcontext(&context);
    context.uc_stack.ss_sp = stacks + (size_t)i * STACK;
    context.uc_stack.ss_size = STACK;
    context.uc_link = &back;
    makecontext(&context, entry, 0);
    setcontext(&context);
}

void resume(int i)
{
    current = i;
    threadIdx = fibers[i].index;
    if (_setjmp(scheduler) != 0)
        return;
    fibers[i].is = READY;
    if (!fibers[i].is_made) {
        fibers[i].is_made = true;
        start(i);
    }
    _longjmp(fibers[i].at, 1);
}

int in_order(int i, int first, int n)
{
    return is_backward ? first + n - 1 - i : first + i;
}

// Until all lanes are through or wait for the block.
void run_warp(int first, int n)
{
    for (;;) {
        int waiting = 0;
        for (int i = 0; i < n; i++) {
            const int t = in_order(i, first, n);
            if (fibers[t].is == READY)
                resume(t);
        }
        for (int t = first; t < first + n; t++)
            waiting += fibers[t].is == AT_WARP;
        if (waiting == 0)
            return;
        if (waiting != n)
            give_up("a shuffle waits for lanes that are elsewhere");
        for (int t = first; t < first + n; t++)
            fibers[t].is = READY;
    }
}

// Goes on where all have come who meet; says how many.
int open_barriers(void)
{
    unsigned waiting[BARRIERS] = {0};
    int n = 0;
    for (int t = 0; t < n_fibers; t++)
        if (fibers[t].is == AT_BARRIER)
            waiting[fibers[t].barrier]++;
    for (int t = 0; t < n_fibers; t++)
        if (fibers[t].is == AT_BARRIER &&
            waiting[fibers[t].barrier] == fibers[t].n_meet) {
            fibers[t].is = READY;
            n++;
        }
    return n;
}

void run_block(void)
{
    for (int i = 0; i < n_fibers; i++) {
        fibers[i].is = READY;
        fibers[i].index = dim3(i % blockDim.x, i / blockDim.x % blockDim.y,
                               i / (blockDim.x * blockDim.y));
        turn_of[i] = vote_turn[i] = 0;
    }
    vote_or[0] = vote_or[1] = 0;
    vote_and[0] = vote_and[1] = 1;
    for (int left = n_fibers; left > 0;) {
        const int warps = (n_fibers + LANES - 1) / LANES;
        for (int w = 0; w < warps; w++) {
            const int first = in_order(w, 0, warps) * LANES;
            run_warp(first, n_fibers - first < LANES ? n_fibers - first
                                                     : (int)LANES);
        }
        left = open_barriers();
        for (int t = 0; t < n_fibers && left == 0; t++)
            if (fibers[t].is == AT_BARRIER)
                give_up("a barrier waits for threads that are elsewhere");
        const bool is_open = left == 0;
        for (int t = 0; t < n_fibers && is_open; t++)
            if (fibers[t].is == AT_BLOCK) {
                fibers[t].is = READY;
                left++;
            }
    }
}
} // namespace

void *emulated::shared(void)
{
    return shared_room;
}

void emulated::run(body_fn *run_body, void *context, dim3 grid, dim3 block,
                   size_t shared_bytes)
{
    static std::mutex one_at_a_time; // threads launch, into streams of their own
    const std::lock_guard<std::mutex> guard(one_at_a_time);
    if (shared_bytes > sizeof shared_room)
        give_up("a launch with more shared memory than there is");
    memset(shared_room, 0xff, sizeof shared_room);
    if (stacks == NULL)
        stacks = (char *)mmap(NULL, (size_t)MOST * STACK,
                              PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                              0);
    body = run_body;
    body_context = context;
    gridDim = grid;
    blockDim = block;
    n_fibers = (int)(block.x * block.y * block.z);
    if (n_fibers < 1 || n_fibers > MOST || grid.x * grid.y * grid.z < 1 ||
        grid.y > 65535 || grid.z > 65535)
        give_up("a launch of impossible size");
    is_backward = !is_backward;
    emulated::tick();
    const int64_t blocks = (int64_t)grid.x * grid.y * grid.z;
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t at = is_backward ? blocks - 1 - i : i;
        blockIdx = dim3((unsigned)(at % grid.x),
                        (unsigned)(at / grid.x % grid.y),
                        (unsigned)(at / grid.x / grid.y));
        run_block();
    }
}

void emulated::tick(void)
{
    ticks++;
}

int emulated::lane(void)
{
    return current % LANES;
}

uint64_t emulated::exchange(uint64_t mine, int from)
{
    const int warp = current / LANES, turn = turn_of[current]++ & 1;
    slot[warp][turn][current % LANES] = mine;
    leave(AT_WARP);
    return slot[warp][turn][from];
}

unsigned emulated::ballot(bool mine)
{
    const int warp = current / LANES, turn = turn_of[current] & 1;
    unsigned all = 0;
    (void)exchange(mine ? 1 : 0, current % LANES);
    for (int lane = 0; lane < LANES && warp * LANES + lane < n_fibers; lane++)
        all |= slot[warp][turn][lane] != 0 ? 1u << lane : 0;
    return all;
}

void __syncwarp(unsigned)
{
    (void)emulated::exchange(0, 0);
}

void __syncthreads(void)
{
    leave(AT_BLOCK);
}

void __barrier_sync_count(unsigned id, unsigned n)
{
    if (id >= BARRIERS || n % LANES != 0)
        give_up("a barrier that there is not");
    fibers[current].barrier = id;
    fibers[current].n_meet = n;
    leave(AT_BARRIER);
}

// The other turn's votes begin anew when this one's are all in.
int __syncthreads_or(int x)
{
    const int turn = vote_turn[current]++ & 1;
    vote_or[turn] |= x != 0;
    leave(AT_BLOCK);
    vote_or[!turn] = 0;
    return vote_or[turn];
}

int __syncthreads_and(int x)
{
    const int turn = vote_turn[current]++ & 1;
    vote_and[turn] &= x != 0;
    leave(AT_BLOCK);
    vote_and[!turn] = 1;
    return vote_and[turn];
}

// ---- the runtime ---------------------------------------------------------------

struct emulated_graph {
    std::vector<std::function<void()>> work;
};

// Work in a stream with a priority is done as late as CUDA allows: when somebody waits
// for an event after it. All other work is done at once.
struct emulated_stream {
    bool is_late;
    std::deque<std::function<bool()>> queued;
    int64_t n_done, n_all;
    emulated_graph *recording; // NULL: what is queued is done
};
struct emulated_event {
    int64_t at;
    emulated_stream *stream; // late, and what must be done of it
    int64_t after;
};

// While a thread records, it may not wait, and no memory comes or goes.
static thread_local emulated_stream *recorder;
static bool is_spoilt;

static bool is_forbidden(void)
{
    is_spoilt = is_spoilt || recorder != NULL;
    return recorder != NULL;
}

#define REFUSE_WHILE_RECORDING()                                               \
    do {                                                                       \
        if (is_forbidden())                                                    \
            return cudaErrorStreamCaptureUnsupported;                          \
    } while (0)

bool emulated::is_recorded(cudaStream_t stream,
                           const std::function<void()> &work)
{
    if (stream == NULL || stream->recording == NULL)
        return false;
    stream->recording->work.push_back(work);
    return true;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode)
{
    REFUSE_WHILE_RECORDING();
    stream->recording = new emulated_graph();
    recorder = stream;
    is_spoilt = false;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    *graph = stream->recording;
    stream->recording = NULL;
    recorder = NULL;
    if (!is_spoilt)
        return cudaSuccess;
    delete *graph;
    *graph = NULL;
    return cudaErrorStreamCaptureUnsupported;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long)
{
    *exec = new emulated_graph(*graph);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t)
{
    for (const auto &work : exec->work)
        work();
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    delete exec;
    return cudaSuccess;
}

static std::recursive_mutex streams_lock;

// Does what is next, if it can be done now.
static bool do_next(emulated_stream *s)
{
    const std::lock_guard<std::recursive_mutex> guard(streams_lock);
    if (s->queued.empty() || !s->queued.front()())
        return false;
    s->queued.pop_front();
    s->n_done++;
    return true;
}

static bool is_done(emulated_stream *s, int64_t n)
{
    const std::lock_guard<std::recursive_mutex> guard(streams_lock);
    return s == NULL || s->n_done >= n;
}

static cudaError_t do_until(emulated_stream *s, int64_t n)
{
    while (!is_done(s, n))
        if (!do_next(s))
            usleep(100);
    return cudaSuccess;
}

bool emulated::is_late(cudaStream_t stream)
{
    return stream != NULL && stream->is_late;
}

void emulated::later(cudaStream_t stream, std::function<bool()> work)
{
    const std::lock_guard<std::recursive_mutex> guard(streams_lock);
    stream->queued.push_back(work);
    stream->n_all++;
}

void emulated::catch_up(cudaStream_t stream)
{
    if (stream != NULL)
        (void)do_until(stream, stream->n_all);
}

// As many devices, with as much memory, as the environment says.
static long long asked(const char *name, long long otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? atoll(text) : otherwise;
}

cudaError_t cudaGetDeviceCount(int *n)
{
    *n = (int)asked("EMULATED_GPUS", 1);
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int)
{
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device)
{
    *p = cudaDeviceProp();
    memcpy(p->uuid.bytes, "emulated", 8);
    memcpy(p->uuid.bytes + 8, &device, sizeof device);
    snprintf(p->name, sizeof p->name, "emulated");
    p->major = 9;
    p->multiProcessorCount = 2;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = *total_bytes = (size_t)asked("EMULATED_BYTES", 8LL << 30);
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t status)
{
    return status == cudaSuccess ? "no error" : "out of memory";
}

const char *cudaGetErrorName(cudaError_t status)
{
    return status == cudaSuccess ? "cudaSuccess" : "cudaErrorMemoryAllocation";
}

// Not zeroed: what reads before it writes shall differ.
cudaError_t cudaMalloc(void **out, size_t bytes)
{
    REFUSE_WHILE_RECORDING();
    if (posix_memalign(out, 256, bytes) != 0)
        return cudaErrorMemoryAllocation;
    memset(*out, 0xa5, bytes < (1 << 20) ? bytes : 1 << 20);
    return cudaSuccess;
}

cudaError_t cudaFree(void *p)
{
    REFUSE_WHILE_RECORDING();
    free(p);
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned)
{
    return cudaMalloc(out, bytes);
}

cudaError_t cudaHostGetDevicePointer(void **out, void *host, unsigned)
{
    *out = host;
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *p)
{
    return cudaFree(p);
}

cudaError_t cudaHostRegister(void *, size_t, unsigned)
{
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *)
{
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *p, int byte, size_t n, cudaStream_t stream)
{
    emulated::queue(stream, [=] { memset(p, byte, n); });
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n,
                            cudaMemcpyKind, cudaStream_t stream)
{
    if (n > 0)
        emulated::queue(stream, [=] { memcpy(to, from, n); });
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
    *stream = new emulated_stream();
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -1;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned,
                                         int priority)
{
    *stream = new emulated_stream();
    (*stream)->is_late = priority < 0;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    emulated::catch_up(stream);
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    REFUSE_WHILE_RECORDING();
    emulated::catch_up(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    return event->stream == stream ? cudaSuccess
                                   : do_until(event->stream, event->after);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
    *event = new emulated_event();
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    const std::lock_guard<std::recursive_mutex> guard(streams_lock);
    event->at = ticks;
    event->stream = stream != NULL && stream->is_late ? stream : NULL;
    event->after = event->stream != NULL ? stream->n_all : 0;
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    REFUSE_WHILE_RECORDING();
    return do_until(event->stream, event->after);
}

// One thing at a time, so that who asks has to ask again.
cudaError_t cudaEventQuery(cudaEvent_t event)
{
    const std::lock_guard<std::recursive_mutex> guard(streams_lock);
    if (is_done(event->stream, event->after))
        return cudaSuccess;
    (void)do_next(event->stream);
    return cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    *ms = (float)(end->at - start->at) * 1e-3f;
    return cudaSuccess;
}
