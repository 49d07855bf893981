// meet - ranks say hello to rank 0 and get the memory's descriptor back.
//
// Ranks that torchrun started have no common parent that could give them shared memory.
// They have a few environment variables in common (MASTER_PORT, ...). These are hashed
// to the name of an abstract Unix socket, which exists in no folder and vanishes with
// its owner. Rank 0 listens there; the others connect.
//
//   rank r   hello: my rank, how many we are, which addresses are free here
//   rank 0   waits for all, makes the memory, and sends each the address and the
//            descriptor (SCM_RIGHTS)
//
// All programs see the socket's name and can connect. Rank 0 serves all connections at
// a time and accepts those of its own user that know the job's word. Others are
// dropped, and so are those that say nothing for some seconds.
//
// Messages in place are addresses, so the memory must lie at the same address in every
// process. Each rank says which of a few addresses, far from usual mappings, are free;
// rank 0 takes the first that is free in all.

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

enum { MAGIC = 0x74757432, PLACES = 8, RETRY_MS = 20, MOST_GUESTS = 64 };
static const double quiet = 5; // seconds that a guest may say nothing

typedef struct hello {
    int32_t magic, rank, size;
    uint32_t places; // bit k: there is room at place k
    int64_t rank_bytes;
    uint64_t word; // made of what the job is called by, as the socket's name is
} hello;

typedef struct meeting {
    const tt_meet_options *o;
    double until;
    struct sockaddr_un name;
    socklen_t name_bytes;
    uint64_t word;
} meeting;

// ---- where ---------------------------------------------------------------

static void *place(int k)
{
    return (void *)(uintptr_t)(UINT64_C(0x200000000000) +
                               (uint64_t)k * UINT64_C(0x040000000000));
}

// Tries each address by mapping it for a moment.
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

static hello hello_of(const meeting *m)
{
    const tt_meet_options *o = m->o;
    const int64_t bytes = tt_shm_world_bytes(o->size, o->rank_bytes);
    return (hello){.magic = MAGIC,
                   .rank = o->rank,
                   .size = o->size,
                   .places = free_places(bytes),
                   .rank_bytes = o->rank_bytes,
                   .word = m->word};
}

// ---- the socket ----------------------------------------------------------

static uint64_t hash_job(const meeting *m, uint64_t h)
{
    static const char *const parts[] = {
        "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR",
        "MASTER_PORT", "TUTTI_JOB"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const char *text = m->o->get(parts[i]);
        for (; text != NULL && *text != '\0'; text++)
            h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
        h = (h ^ 0xff) * UINT64_C(0x100000001b3);
    }
    return h ^ h >> 31;
}

// An abstract name (it begins with a zero byte), the same for all ranks of a job of
// one user. The word cannot be told from the name.
static void name_job(meeting *m)
{
    const uint64_t h = hash_job(m, UINT64_C(0xcbf29ce484222325));
    m->word = hash_job(m, UINT64_C(0x9ae16a3b2f90404f));
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

// A descriptor travels as control data of a message; the kernel makes one in the
// receiver that stands for the same memory.
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
    if (h->rank < 1 || h->rank >= m->o->size || h->size != m->o->size ||
        h->rank_bytes != m->o->rank_bytes)
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

// Everybody who has come and is not known yet.
typedef struct crowd {
    struct pollfd *poll; // the listener, the ranks, the guests
    int *peer;           // per rank; -1: not here
    double until[MOST_GUESTS];
    int n_guests;
} crowd;

static struct pollfd *guest_of(const meeting *m, crowd *c, int i)
{
    return &c->poll[m->o->size + i];
}

// Keeps the descriptor open when it is a rank's now.
static void drop_guest(const meeting *m, crowd *c, int i, bool is_rank)
{
    if (!is_rank)
        (void)close(guest_of(m, c, i)->fd);
    c->n_guests--;
    for (; i < c->n_guests; i++) {
        *guest_of(m, c, i) = *guest_of(m, c, i + 1);
        c->until[i] = c->until[i + 1];
    }
}

static void accept_guest(const meeting *m, crowd *c)
{
    const int fd =
        accept4(c->poll[0].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return; // it went away
    if (!is_own(fd)) {
        (void)close(fd);
        return;
    }
    if (c->n_guests == MOST_GUESTS)
        drop_guest(m, c, 0, false); // the one that has been quiet for longest
    *guest_of(m, c, c->n_guests) = (struct pollfd){.fd = fd, .events = POLLIN};
    c->until[c->n_guests++] = tt_clock_seconds() + quiet;
}

// A rank that has gone may come again: somebody started it anew.
static void forget_gone(crowd *c, int32_t r)
{
    struct pollfd p = {.fd = c->peer[r]};
    if (p.fd < 0 || poll(&p, 1, 0) <= 0)
        return;
    (void)close(p.fd);
    c->peer[r] = c->poll[r].fd = -1;
}

// A guest that is no rank of any job of ours is dropped; a rank of another one is told
// of.
static tt_status hear_guest(const meeting *m, crowd *c, int i, bool *is_rank,
                            uint32_t *places)
{
    hello h = {0};
    char more;
    struct iovec part[] = {{&h, sizeof h}, {&more, 1}};
    struct msghdr msg = {.msg_iov = part, .msg_iovlen = 2};
    const int fd = guest_of(m, c, i)->fd;
    const ssize_t n = recvmsg(fd, &msg, 0);
    *is_rank = n == (ssize_t)sizeof h && h.magic == MAGIC && h.word == m->word;
    if (!*is_rank)
        return TT_OK;
    if (h.rank > 0 && h.rank < m->o->size)
        forget_gone(c, h.rank);
    const tt_status status = check_hello(m, &h, c->peer);
    if (status == TT_OK) {
        c->peer[h.rank] = fd;
        c->poll[h.rank] = (struct pollfd){.fd = fd};
        *places &= h.places;
    }
    *is_rank = status == TT_OK;
    return status;
}

static tt_status hear_guests(const meeting *m, crowd *c, uint32_t *places)
{
    const double now = tt_clock_seconds();
    tt_status status = TT_OK;
    for (int i = 0; i < c->n_guests && status == TT_OK;) {
        const bool speaks = guest_of(m, c, i)->revents != 0;
        bool is_rank = false;
        if (speaks)
            status = hear_guest(m, c, i, &is_rank, places);
        if (speaks || now > c->until[i])
            drop_guest(m, c, i, is_rank);
        else
            i++;
    }
    return status;
}

static int32_t count_ranks(const meeting *m, crowd *c)
{
    int32_t n = 0;
    for (int32_t r = 1; r < m->o->size; r++) {
        forget_gone(c, r);
        n += c->peer[r] >= 0;
    }
    return n;
}

// Waits for all ranks. `places` keeps the addresses that are free in everyone so far.
static tt_status receive_all(const meeting *m, crowd *c, uint32_t *places)
{
    while (count_ranks(m, c) < m->o->size - 1) {
        const double left = m->until - tt_clock_seconds();
        const int wait = left > 0.1 ? 100
                         : left > 0 ? (int)(left * 1000) + 1
                                    : 0;
        const nfds_t n = (nfds_t)(m->o->size + c->n_guests);
        if (left <= 0)
            return too_late(m, first_missing(m, c->peer));
        if (poll(c->poll, n, wait) < 0 && errno != EINTR)
            return broken("poll");
        TT_TRY(hear_guests(m, c, places));
        if ((c->poll[0].revents & POLLIN) != 0)
            accept_guest(m, c);
    }
    return TT_OK;
}

// Makes the memory at the first address that is free everywhere, and hands it out.
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
    return listen(fd, m->o->size + MOST_GUESTS) == 0 ? TT_OK : broken("listen");
}

static tt_status meet_all(const meeting *m, crowd *c, tt_shm_world **world_out)
{
    uint32_t places = hello_of(m).places;
    TT_TRY(listen_as(m, c->poll[0].fd));
    TT_TRY(receive_all(m, c, &places));
    return share(m, c->peer, places, world_out);
}

static tt_status be_host(const meeting *m, tt_shm_world **world_out)
{
    const int32_t n = m->o->size;
    crowd c = {.peer = tt_alloc(n * (int64_t)sizeof *c.peer),
               .poll = tt_alloc((n + MOST_GUESTS) * (int64_t)sizeof *c.poll)};
    tt_status status = c.peer == NULL || c.poll == NULL
                           ? tt_fail(TT_ERR_NOMEM, "no memory for %d ranks", n)
                           : TT_OK;
    if (status == TT_OK) {
        for (int32_t r = 0; r < n; r++)
            c.peer[r] = c.poll[r].fd = -1;
        c.poll[0] = (struct pollfd){
            .fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0),
            .events = POLLIN};
        status = meet_all(m, &c, world_out);
        while (c.n_guests > 0)
            drop_guest(m, &c, 0, false);
        for (int32_t r = 0; r < n; r++)
            if (c.poll[r].fd >= 0)
                (void)close(c.poll[r].fd);
    }
    tt_free(c.peer);
    tt_free(c.poll);
    return status;
}

// ---- the others ----------------------------------------------------------

// Rank 0 may not have started yet; until then another may have taken its name.
static tt_status reach(const meeting *m, int *fd_out)
{
    const struct timespec pause = {.tv_nsec = RETRY_MS * 1000000L};
    bool is_other = false;
    while (tt_clock_seconds() <= m->until) {
        // A blocking connect would wait while the listener's queue is full.
        const int fd =
            socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
            return broken("socket");
        const bool is_there =
            connect(fd, (const struct sockaddr *)&m->name, m->name_bytes) == 0;
        const int error = errno;
        if (is_there && is_own(fd)) {
            *fd_out = fd;
            return TT_OK;
        }
        (void)close(fd);
        is_other = is_there;
        errno = error;
        if (!is_there && error != ECONNREFUSED && error != EAGAIN &&
            error != EINTR)
            return broken("connect");
        (void)nanosleep(&pause, NULL);
    }
    return is_other ? tt_fail(TT_ERR_PEER,
                              "another user's process pretends to be rank 0: "
                              "choose another MASTER_PORT")
                    : too_late(m, 0);
}

static tt_status ask_in(const meeting *m, int fd, tt_shm_world **world_out)
{
    const hello h = hello_of(m);
    int32_t where = 0;
    int memory = -1;
    if (send(fd, &h, sizeof h, MSG_NOSIGNAL) != (ssize_t)sizeof h)
        return broken("send");
    TT_TRY(wait_readable(m, fd, 0));
    TT_TRY(take(fd, &where, &memory));
    const tt_status status =
        where < 0 || where >= PLACES
            ? tt_fail(TT_ERR_PEER, "who answers as rank 0 is none")
            : tt_shm_world_attach(memory, place(where), world_out);
    (void)close(memory);
    return status;
}

static tt_status be_guest(const meeting *m, tt_shm_world **world_out)
{
    int fd = -1;
    TT_TRY(reach(m, &fd));
    const tt_status status = ask_in(m, fd, world_out);
    (void)close(fd);
    return status;
}

tt_status tt_meet(const tt_meet_options *options, tt_shm_world **world_out)
{
    meeting m = {.o = options, .until = tt_clock_seconds() + options->deadline};
    name_job(&m);
    return options->rank == 0 ? be_host(&m, world_out)
                              : be_guest(&m, world_out);
}
