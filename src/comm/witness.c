// witness - see the header.
//
// A process that is killed cannot say so itself. So each rank forks a child before it
// starts, with one end of a socket each and the journal in shared memory. When the rank
// ends properly it sends a byte first. When the socket closes without that byte, the
// rank was killed or crashed, and the child says what it did last.

#include "comm/witness.h"

#include "base/alloc.h"
#include "base/str.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct tt_witness {
    tt_journal *journal; // memory that both processes see
    int socket;          // the rank's end
    pid_t pid;           // of the witness
};

// ---- the witness ---------------------------------------------------------

typedef struct voice {
    tt_witness_fn *say;
    void *user;
} voice;

static _Noreturn void watch(const tt_journal *journal, int socket,
                            const tt_world *world, pid_t rank, const voice *to)
{
    char host[65] = "?", bye = 0;
    tt_str text = {0};
    ssize_t n = 0;
    do
        n = recv(socket, &bye, 1, 0);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        _exit(0);
    (void)gethostname(host, sizeof host - 1);
    tt_str_addf(&text, "rank %d (host %s, pid %d) stopped", world->rank, host,
                (int)rank);
    tt_journal_print_last(journal, &text);
    tt_str_add(&text, ": it was killed, or it crashed");
    to->say(to->user, tt_str_text(&text));
    _exit(0);
}

// ---- the rank ------------------------------------------------------------

static tt_status cannot(const char *what)
{
    return tt_fail(TT_ERR_NOMEM, "no witness for this rank: %s: %s", what,
                   strerror(errno));
}

static tt_status start(tt_witness *w, const tt_world *world, const voice *to)
{
    int ends[2];
    const pid_t rank = getpid();
    w->journal = mmap(NULL, sizeof *w->journal, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (w->journal == MAP_FAILED)
        return cannot("mmap");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return cannot("socketpair");
    w->pid = fork();
    if (w->pid == 0) {
        (void)close(ends[0]);
        watch(w->journal, ends[1], world, rank, to);
    }
    (void)close(ends[1]);
    w->socket = ends[0];
    return w->pid > 0 ? TT_OK : cannot("fork");
}

tt_status tt_witness_start(const tt_world *world, tt_witness_fn *say,
                           void *user, tt_witness **witness_out)
{
    tt_witness *w = tt_alloc(sizeof *w);
    if (w == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a witness");
    *w = (tt_witness){.journal = MAP_FAILED, .socket = -1, .pid = -1};
    const tt_status status = start(w, world, &(voice){say, user});
    if (status != TT_OK) {
        tt_witness_stop(w);
        return status;
    }
    *witness_out = w;
    return TT_OK;
}

tt_journal *tt_witness_journal(tt_witness *witness)
{
    return witness->journal;
}

void tt_witness_stop(tt_witness *w)
{
    if (w == NULL)
        return;
    if (w->socket >= 0) {
        (void)send(w->socket, "", 1, MSG_NOSIGNAL);
        (void)close(w->socket);
    }
    if (w->pid > 0)
        (void)waitpid(w->pid, NULL, 0);
    if (w->journal != MAP_FAILED)
        (void)munmap(w->journal, sizeof *w->journal);
    tt_free(w);
}
