// nccl - NCCL for emulated devices: ranks are processes or threads of this machine, bytes
// go through memory that they share, and work is done when the stream comes to it.
//
// EMULATED_NCCL_FAIL=RANK:N makes the Nth group of calls of a rank fail;
// EMULATED_NCCL_STUCK=RANK:N makes it stand still.

#include "backend/cuda/dev/common.cuh"
#include "backend/cuda/dev/wire/nccl.cuh"

#include <atomic>
#include <deque>
#include <fcntl.h>
#include <memory>
#include <stdio.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace
{
enum { RING = 1 << 16, FAILED = 6 };

// From one rank to another.
struct ring {
    std::atomic<uint64_t> head, tail;
    char data[RING];
};

struct meeting {
    std::atomic<int> joined;
    ring way[]; // [from][to]
};

struct state {
    std::string name;
    int n, me;
    size_t bytes;
    meeting *all;
    int n_groups;
    int looks_left; // until the last call is taken up
    std::atomic<bool> is_over, has_failed, is_stuck;

    ring &way(int from, int to) { return all->way[from * n + to]; }
    ~state()
    {
        if (all != NULL)
            munmap(all, bytes);
    }
};

// So many bytes to or from a peer.
struct transfer {
    char *at;
    size_t left;
};

struct lanes {
    std::vector<std::deque<transfer>> out, in; // per peer
};

typedef void fold_fn(char *to, const char *from, size_t n, bool is_max);

// What is reduced here when all has arrived: term j of so many bytes after `terms`.
struct fold_job {
    std::shared_ptr<std::vector<char>> terms;
    const char *own;
    char *to;
    size_t count, size;
    fold_fn *fold;
    bool is_max;
};

struct copy_job {
    char *to;
    const char *from;
    size_t n;
};

struct group {
    std::shared_ptr<state> comm;
    cudaStream_t stream;
    lanes lane;
    std::vector<fold_job> folds;
    std::vector<copy_job> copies;
};

thread_local int depth;
thread_local std::vector<std::shared_ptr<group>> groups;

size_t size_of(ncclDataType_t type)
{
    switch (type) {
    case ncclFloat64:
    case ncclInt64:
        return 8;
    case ncclFloat32:
    case ncclInt32:
        return 4;
    case ncclUint8:
        return 1;
    default:
        return 2;
    }
}

float wide(bf16 x) { return __bfloat162float(x); }
float wide(__half x) { return __half2float(x); }
template <typename T> T wide(T x) { return x; }
void narrow(bf16 *to, float x) { *to = __float2bfloat16_rn(x); }
void narrow(__half *to, float x) { *to = __float2half_rn(x); }
template <typename T> void narrow(T *to, T x) { *to = x; }

template <typename T>
void fold(char *to, const char *from, size_t n, bool is_max)
{
    for (size_t i = 0; i < n; i++) {
        const auto a = wide(((T *)to)[i]), b = wide(((const T *)from)[i]);
        typedef decltype(a + b) W;
        const W sum = a + b, most = a > b ? a : b;
        typedef std::remove_const_t<decltype(a)> V;
        narrow(&((T *)to)[i], (V)(is_max ? most : sum));
    }
}

fold_fn *fold_of(ncclDataType_t type)
{
    switch (type) {
    case ncclFloat64:
        return fold<double>;
    case ncclFloat32:
        return fold<float>;
    case ncclBfloat16:
        return fold<bf16>;
    case ncclFloat16:
        return fold<__half>;
    case ncclInt64:
        return fold<int64_t>;
    case ncclInt32:
        return fold<int32_t>;
    default:
        return fold<uint8_t>;
    }
}

// ---- moving ------------------------------------------------------------------

void push(ring &r, std::deque<transfer> &queue)
{
    while (!queue.empty()) {
        transfer &t = queue.front();
        const uint64_t head = r.head;
        size_t n = RING - (size_t)(head - r.tail);
        n = n < t.left ? n : t.left;
        if (n == 0 && t.left > 0)
            return;
        for (size_t i = 0; i < n; i++)
            r.data[(head + i) % RING] = t.at[i];
        r.head = head + n;
        t.at += n;
        t.left -= n;
        if (t.left == 0)
            queue.pop_front();
    }
}

void pull(ring &r, std::deque<transfer> &queue)
{
    while (!queue.empty()) {
        transfer &t = queue.front();
        const uint64_t tail = r.tail;
        size_t n = (size_t)(r.head - tail);
        n = n < t.left ? n : t.left;
        if (n == 0 && t.left > 0)
            return;
        for (size_t i = 0; i < n; i++)
            t.at[i] = r.data[(tail + i) % RING];
        r.tail = tail + n;
        t.at += n;
        t.left -= n;
        if (t.left == 0)
            queue.pop_front();
    }
}

void fold_all(const fold_job &f, int n, int me)
{
    const size_t bytes = f.count * f.size;
    std::vector<char> sum;
    for (int r = 0; r < n; r++) {
        const char *term =
            r == me ? f.own : f.terms->data() + (size_t)r * bytes;
        if (r == 0)
            sum.assign(term, term + bytes);
        else
            f.fold(sum.data(), term, f.count, f.is_max);
    }
    if (bytes > 0)
        memcpy(f.to, sum.data(), bytes);
}

// Moves what can be moved; whether all of it is done.
bool proceed(group &g)
{
    state &c = *g.comm;
    if (c.is_over)
        return true;
    if (c.has_failed || c.is_stuck)
        return false;
    bool is_done = true;
    for (const copy_job &k : g.copies)
        memmove(k.to, k.from, k.n);
    g.copies.clear();
    for (int r = 0; r < c.n; r++) {
        push(c.way(c.me, r), g.lane.out[r]);
        pull(c.way(r, c.me), g.lane.in[r]);
        is_done = is_done && g.lane.out[r].empty() && g.lane.in[r].empty();
    }
    if (!is_done)
        return false;
    for (const fold_job &f : g.folds)
        fold_all(f, c.n, c.me);
    return true;
}

bool is_asked(const char *name, const state &c)
{
    const char *text = getenv(name);
    int rank = -1, number = 0;
    return text != NULL && sscanf(text, "%d:%d", &rank, &number) == 2 &&
           rank == c.me && c.n_groups == number;
}

// A call is taken up some looks later. Until then no other may be made.
void launch(const std::shared_ptr<group> &g)
{
    enum { LOOKS = 50 };
    state &c = *g->comm;
    c.n_groups++;
    if (c.looks_left > 0)
        c.has_failed = true;
    c.looks_left = LOOKS;
    if (is_asked("EMULATED_NCCL_FAIL", c))
        c.has_failed = true;
    if (is_asked("EMULATED_NCCL_STUCK", c))
        c.is_stuck = true;
    emulated::later(g->stream, [g] { return proceed(*g); });
}
} // namespace

struct ncclComm {
    std::shared_ptr<state> s;
};

namespace
{
// The group of calls that is being made, on this communicator.
struct call {
    std::shared_ptr<group> g;
    bool is_alone;

    call(ncclComm_t comm, cudaStream_t stream) : is_alone(depth == 0)
    {
        for (const std::shared_ptr<group> &other : groups)
            if (other->comm == comm->s && other->stream == stream)
                g = other;
        if (g != NULL)
            return;
        g = std::make_shared<group>();
        g->comm = comm->s;
        g->stream = stream;
        g->lane.out.resize((size_t)comm->s->n);
        g->lane.in.resize((size_t)comm->s->n);
        if (!is_alone)
            groups.push_back(g);
    }
    ncclResult_t end()
    {
        if (is_alone)
            launch(g);
        return is_alone ? ncclInProgress : ncclSuccess;
    }
    void send(int to, const void *at, size_t n)
    {
        g->lane.out[to].push_back({(char *)at, n});
    }
    void receive(int from, void *at, size_t n)
    {
        g->lane.in[from].push_back({(char *)at, n});
    }
    void copy(void *to, const void *from, size_t n)
    {
        if (to != from && n > 0)
            g->copies.push_back({(char *)to, (const char *)from, n});
    }
    // All others' terms are received, and folded with this one's.
    void reduce(const void *own, void *to, size_t count, ncclDataType_t type,
                ncclRedOp_t op)
    {
        const size_t bytes = count * size_of(type);
        const state &c = *g->comm;
        auto terms =
            std::make_shared<std::vector<char>>((size_t)c.n * bytes + 1);
        for (int r = 0; r < c.n; r++)
            if (r != c.me)
                receive(r, terms->data() + (size_t)r * bytes, bytes);
        g->folds.push_back({terms, (const char *)own, (char *)to, count,
                            size_of(type), fold_of(type), op == ncclMax});
    }
};
} // namespace

// ---- the interface -----------------------------------------------------------

EXPORTED ncclResult_t ncclGetVersion(int *version)
{
    *version = 22800;
    return ncclSuccess;
}

EXPORTED const char *ncclGetErrorString(ncclResult_t error)
{
    return (int)error == FAILED ? "remote process exited or there was a network "
                                  "error"
                                : "internal error";
}

EXPORTED ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    static std::atomic<int> number;
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "/tutti-nccl-%d-%d",
             (int)getpid(), number++);
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int n,
                                             ncclUniqueId id, int me,
                                             ncclConfig_t *config)
{
    if (config->magic != (unsigned)NCCL_MAGIC || config->blocking != 0)
        return (ncclResult_t)4;
    auto s = std::make_shared<state>();
    s->name = id.internal;
    s->n = n;
    s->me = me;
    s->bytes = sizeof(meeting) + sizeof(ring) * (size_t)n * (size_t)n;
    const int fd = shm_open(id.internal, O_CREAT | O_RDWR, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)s->bytes) != 0)
        return (ncclResult_t)2;
    void *p =
        mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    if (p == MAP_FAILED)
        return (ncclResult_t)2;
    s->all = (meeting *)p;
    if (is_asked("EMULATED_NCCL_STUCK", *s))
        s->is_stuck = true; // before it joins
    else if (++s->all->joined == n)
        shm_unlink(id.internal);
    *comm = new ncclComm{s};
    return ncclInProgress;
}

EXPORTED ncclResult_t ncclCommGetAsyncError(ncclComm_t comm,
                                            ncclResult_t *error)
{
    state &s = *comm->s;
    const bool is_busy = s.all->joined < s.n || s.looks_left > 0;
    s.looks_left -= s.looks_left > 0;
    *error = s.has_failed ? (ncclResult_t)FAILED
             : is_busy    ? ncclInProgress
                          : ncclSuccess;
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommFinalize(ncclComm_t)
{
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    comm->s->is_over = true;
    shm_unlink(comm->s->name.c_str());
    delete comm;
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    return ncclCommAbort(comm);
}

EXPORTED ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclGroupEnd(void)
{
    if (--depth > 0)
        return ncclSuccess;
    for (const std::shared_ptr<group> &g : groups)
        launch(g);
    groups.clear();
    return ncclInProgress;
}

EXPORTED ncclResult_t ncclSend(const void *in, size_t count,
                               ncclDataType_t type, int peer, ncclComm_t comm,
                               cudaStream_t stream)
{
    call k(comm, stream);
    k.send(peer, in, count * size_of(type));
    return k.end();
}

EXPORTED ncclResult_t ncclRecv(void *out, size_t count, ncclDataType_t type,
                               int peer, ncclComm_t comm, cudaStream_t stream)
{
    call k(comm, stream);
    k.receive(peer, out, count * size_of(type));
    return k.end();
}

EXPORTED ncclResult_t ncclBroadcast(const void *in, void *out, size_t count,
                                    ncclDataType_t type, int root,
                                    ncclComm_t comm, cudaStream_t stream)
{
    call k(comm, stream);
    const size_t bytes = count * size_of(type);
    if (comm->s->me != root)
        k.receive(root, out, bytes);
    for (int r = 0; r < comm->s->n && comm->s->me == root; r++)
        if (r != root)
            k.send(r, in, bytes);
    if (comm->s->me == root)
        k.copy(out, in, bytes);
    return k.end();
}

EXPORTED ncclResult_t ncclAllGather(const void *in, void *out, size_t count,
                                    ncclDataType_t type, ncclComm_t comm,
                                    cudaStream_t stream)
{
    call k(comm, stream);
    const size_t bytes = count * size_of(type);
    for (int r = 0; r < comm->s->n; r++) {
        char *at = (char *)out + (size_t)r * bytes;
        if (r == comm->s->me) {
            k.copy(at, in, bytes);
            continue;
        }
        k.send(r, in, bytes);
        k.receive(r, at, bytes);
    }
    return k.end();
}

EXPORTED ncclResult_t ncclAllReduce(const void *in, void *out, size_t count,
                                    ncclDataType_t type, ncclRedOp_t op,
                                    ncclComm_t comm, cudaStream_t stream)
{
    call k(comm, stream);
    for (int r = 0; r < comm->s->n; r++)
        if (r != comm->s->me)
            k.send(r, in, count * size_of(type));
    k.reduce(in, out, count, type, op);
    return k.end();
}

EXPORTED ncclResult_t ncclReduce(const void *in, void *out, size_t count,
                                 ncclDataType_t type, ncclRedOp_t op, int root,
                                 ncclComm_t comm, cudaStream_t stream)
{
    call k(comm, stream);
    if (comm->s->me == root)
        k.reduce(in, out, count, type, op);
    else
        k.send(root, in, count * size_of(type));
    return k.end();
}

EXPORTED ncclResult_t ncclReduceScatter(const void *in, void *out,
                                        size_t count, ncclDataType_t type,
                                        ncclRedOp_t op, ncclComm_t comm,
                                        cudaStream_t stream)
{
    call k(comm, stream);
    const size_t bytes = count * size_of(type);
    for (int r = 0; r < comm->s->n; r++)
        if (r != comm->s->me)
            k.send(r, (const char *)in + (size_t)r * bytes, bytes);
    k.reduce((const char *)in + (size_t)comm->s->me * bytes, out, count, type,
             op);
    return k.end();
}
