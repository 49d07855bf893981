// meet - hellos to rank 0, and the memory's descriptor back.
//
// Messages in place are addresses, so the memory must lie at the same address in
// every process. Each rank says at which of a few places, far from where anything
// usually is, it has room; rank 0 takes the first that all have.

#include "comm/transport/meet.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "comm/transport/shm_world.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { MAGIC = 0x74757431, PLACES = 8, RETRY_MS = 20 };

typedef struct hello {
    int32_t magic, rank, size;
    uint32_t places; // bit k: there is room at place k
    int64_t rank_bytes;
} hello;

typedef struct meeting {
    const tt_meet_options *o;
    double until;
    struct sockaddr_un name;
    socklen_t name_bytes;
} meeting;

// ---- where ---------------------------------------------------------------

static void *place(int k)
{
    return (void *)(uintptr_t)(UINT64_C(0x200000000000) +
                               (uint64_t)k * UINT64_C(0x040000000000));
}

static uint32_t free_places(int64_t bytes)
{
    uint32_t mask = 0;
    for (int k = 0; k < PLACES; k++) {
        void *at = mmap(place(k), (size_t)bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
                            MAP_FIXED_NOREPLACE,
                        -1, 0);
        if (at == place(k))
            mask |= 1u << k;
        if (at != MAP_FAILED)
            (void)munmap(at, (size_t)bytes);
    }
    return mask;
}

static hello hello_of(const tt_meet_options *o)
{
    const int64_t bytes = tt_shm_world_bytes(o->size, o->rank_bytes);
    return (hello){.magic = MAGIC,
                   .rank = o->rank,
                   .size = o->size,
                   .places = free_places(bytes),
                   .rank_bytes = o->rank_bytes};
}

// ---- the socket ----------------------------------------------------------

// An abstract name (it begins with a zero byte), the same for all ranks of a job of
// one user.
static void name_job(meeting *m)
{
    static const char *const parts[] = {
        "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR",
        "MASTER_PORT", "TUTTI_JOB"};
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const char *text = m->o->get(parts[i]);
        for (; text != NULL && *text != '\0'; text++)
            h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
        h = (h ^ 0xff) * UINT64_C(0x100000001b3);
    }
    m->name.sun_family = AF_UNIX;
    const int n =
        snprintf(m->name.sun_path + 1, sizeof m->name.sun_path - 1,
                 "tutti-%u-%016llx", (unsigned)getuid(), (unsigned long long)h);
    m->name_bytes =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static tt_status broken(const char *what)
{
    return tt_fail(TT_ERR_IO, "the ranks cannot meet: %s: %s", what,
                   strerror(errno));
}

static tt_status too_late(const meeting *m, int32_t missing)
{
    return tt_fail(TT_ERR_TIMEOUT, "rank %d waited %.0f s for rank %d to start",
                   m->o->rank, m->o->deadline, missing);
}

static tt_status wait_readable(const meeting *m, int fd, int32_t missing)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        const double left = m->until - tt_clock_seconds();
        const int ready = poll(&p, 1, left > 0 ? (int)(left * 1000) + 1 : 0);
        if (ready > 0)
            return TT_OK;
        if (ready < 0 && errno != EINTR)
            return broken("poll");
        if (left <= 0)
            return too_late(m, missing);
    }
}

// Somebody else's process may know the name.
static bool is_own(int fd)
{
    struct ucred who = {0};
    socklen_t n = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 &&
           who.uid == getuid();
}

// ---- the descriptor ------------------------------------------------------

typedef union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
} control;

static tt_status give(int to, int32_t where, int memory)
{
    control c = {0};
    struct iovec part = {&where, sizeof where};
    struct msghdr msg = {.msg_iov = &part,
                         .msg_iovlen = 1,
                         .msg_control = c.bytes,
                         .msg_controllen = sizeof c.bytes};
    struct cmsghdr *h = CMSG_FIRSTHDR(&msg);
    h->cmsg_level = SOL_SOCKET;
    h->cmsg_type = SCM_RIGHTS;
    h->cmsg_len = CMSG_LEN(sizeof memory);
    memcpy(CMSG_DATA(h), &memory, sizeof memory);
    return sendmsg(to, &msg, MSG_NOSIGNAL) == (ssize_t)sizeof where
               ? TT_OK
               : broken("sendmsg");
}

static tt_status take(int from, int32_t *where_out, int *memory_out)
{
    control c = {0};
    struct iovec part = {where_out, sizeof *where_out};
    struct msghdr msg = {.msg_iov = &part,
                         .msg_iovlen = 1,
                         .msg_control = c.bytes,
                         .msg_controllen = sizeof c.bytes};
    const ssize_t n = recvmsg(from, &msg, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *h = CMSG_FIRSTHDR(&msg);
    if (n < 0)
        return broken("recvmsg");
    if (n != (ssize_t)sizeof *where_out || h == NULL ||
        h->cmsg_type != SCM_RIGHTS)
        return tt_fail(TT_ERR_PEER,
                       "rank 0 ended before all ranks had started");
    memcpy(memory_out, CMSG_DATA(h), sizeof *memory_out);
    return TT_OK;
}

// ---- rank 0 --------------------------------------------------------------

static tt_status check_hello(const meeting *m, const hello *h, const int *peer)
{
    if (h->magic != MAGIC || h->rank < 1 || h->rank >= m->o->size ||
        h->size != m->o->size || h->rank_bytes != m->o->rank_bytes)
        return tt_fail(TT_ERR_PEER,
                       "a rank %d of %d came to a meeting of %d: another job "
                       "or other settings; give jobs at the same time "
                       "different MASTER_PORTs",
                       h->rank, h->size, m->o->size);
    if (peer[h->rank] >= 0)
        return tt_fail(TT_ERR_PEER,
                       "rank %d came twice: give jobs at the same "
                       "time different MASTER_PORTs",
                       h->rank);
    return TT_OK;
}

static int32_t first_missing(const meeting *m, const int *peer)
{
    int32_t r = 1;
    while (r < m->o->size - 1 && peer[r] >= 0)
        r++;
    return r;
}

static tt_status greet(const meeting *m, int fd, int *peer, uint32_t *places)
{
    hello h = {0};
    if (!is_own(fd))
        return tt_fail(TT_ERR_PEER, "another user's process came to meet");
    TT_TRY(wait_readable(m, fd, first_missing(m, peer)));
    if (recv(fd, &h, sizeof h, 0) != (ssize_t)sizeof h)
        return broken("recv");
    TT_TRY(check_hello(m, &h, peer));
    peer[h.rank] = fd;
    *places &= h.places;
    return TT_OK;
}

static tt_status receive_all(const meeting *m, int listener, int *peer,
                             uint32_t *places)
{
    for (int32_t n = 1; n < m->o->size; n++) {
        TT_TRY(wait_readable(m, listener, first_missing(m, peer)));
        const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return broken("accept");
        const tt_status status = greet(m, fd, peer, places);
        if (status != TT_OK) {
            (void)close(fd);
            return status;
        }
    }
    return TT_OK;
}

static tt_status share(const meeting *m, const int *peer, uint32_t places,
                       tt_shm_world **world_out)
{
    const tt_meet_options *o = m->o;
    if (places == 0)
        return tt_fail(TT_ERR_NOMEM,
                       "no address is free in all ranks for %lld bytes to "
                       "share",
                       (long long)tt_shm_world_bytes(o->size, o->rank_bytes));
    const int32_t where = __builtin_ctz(places);
    const int memory = memfd_create("tutti", MFD_CLOEXEC);
    if (memory < 0)
        return broken("memfd_create");
    tt_shm_world *world = NULL;
    tt_status status =
        tt_shm_world_map(memory, place(where), o->size, o->rank_bytes, &world);
    for (int32_t r = 1; r < o->size && status == TT_OK; r++)
        status = give(peer[r], where, memory);
    (void)close(memory);
    if (status != TT_OK)
        tt_shm_world_destroy(world);
    else
        *world_out = world;
    return status;
}

static tt_status listen_as(const meeting *m, int fd)
{
    if (fd < 0)
        return broken("socket");
    if (bind(fd, (const struct sockaddr *)&m->name, m->name_bytes) != 0)
        return tt_fail(TT_ERR_PEER,
                       "another job of the same name is just starting (%s): "
                       "give it another MASTER_PORT",
                       strerror(errno));
    return listen(fd, m->o->size) == 0 ? TT_OK : broken("listen");
}

static tt_status be_host(const meeting *m, tt_shm_world **world_out)
{
    const int32_t n = m->o->size;
    int *peer = tt_alloc(n * (int64_t)sizeof *peer);
    if (peer == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %d ranks", n);
    for (int32_t r = 0; r < n; r++)
        peer[r] = -1;
    uint32_t places = hello_of(m->o).places;
    const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    tt_status status = listen_as(m, listener);
    if (status == TT_OK)
        status = receive_all(m, listener, peer, &places);
    if (status == TT_OK)
        status = share(m, peer, places, world_out);
    for (int32_t r = 0; r < n; r++)
        if (peer[r] >= 0)
            (void)close(peer[r]);
    if (listener >= 0)
        (void)close(listener);
    tt_free(peer);
    return status;
}

// ---- the others ----------------------------------------------------------

// Rank 0 may not have started yet.
static tt_status reach(const meeting *m, int fd)
{
    const struct timespec pause = {.tv_nsec = RETRY_MS * 1000000L};
    while (connect(fd, (const struct sockaddr *)&m->name, m->name_bytes) != 0) {
        if (errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR)
            return broken("connect");
        if (tt_clock_seconds() > m->until)
            return too_late(m, 0);
        (void)nanosleep(&pause, NULL);
    }
    return is_own(fd) ? TT_OK
                      : tt_fail(TT_ERR_PEER,
                                "another user's process pretends to be rank 0");
}

static tt_status be_guest(const meeting *m, int fd, tt_shm_world **world_out)
{
    const hello h = hello_of(m->o);
    int32_t where = 0;
    int memory = -1;
    TT_TRY(reach(m, fd));
    if (send(fd, &h, sizeof h, MSG_NOSIGNAL) != (ssize_t)sizeof h)
        return broken("send");
    TT_TRY(wait_readable(m, fd, 0));
    TT_TRY(take(fd, &where, &memory));
    const tt_status status =
        tt_shm_world_attach(memory, place(where), world_out);
    (void)close(memory);
    return status;
}

tt_status tt_meet(const tt_meet_options *options, tt_shm_world **world_out)
{
    meeting m = {.o = options, .until = tt_clock_seconds() + options->deadline};
    name_job(&m);
    if (options->rank == 0)
        return be_host(&m, world_out);
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return broken("socket");
    const tt_status status = be_guest(&m, fd, world_out);
    (void)close(fd);
    return status;
}
