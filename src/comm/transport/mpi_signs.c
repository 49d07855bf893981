// mpi_signs - signs of life between ranks of MPI.
//
// A rank that waits for another and sees nothing move asks it whether it still runs. A
// thread answers, so that a rank in a long kernel or a slow checkpoint does not look
// like a stopped one. Nothing is asked while messages move. The thread calls MPI a few
// times a second, under the transport's lock.
//
// The answer also says whether that rank works, or for how long it has waited itself. A
// rank that has waited long asks everybody: as long as one works, the wait goes on.
// Clocks of hosts differ, so times are sent as durations, in parts of the deadline.
//
// A rank that gives another one up says so to all before it fails (LOST). Else those who
// wait for the rank that failed, not for the one that is silent, would name the wrong one; or
// rank 0, whose words the user reads, would be ended by the launcher before it knows.

#include "base/clock.h"
#include "base/thread.h"
#include "comm/transport/mpi_state.h"

#include <time.h>

enum {
    ASK = 1,
    WORKS = 2,
    WAITS = 3,
    PARTS = 1000,
    MOST_PARTS = 2 * PARTS,
    LOST = WAITS + MOST_PARTS + 1, // and the rank that is
};
static const double look_every = 0.05; // seconds, of a rank that waits
static const double answer_every =
    0.2; // of one that does not, if silence is long

// What this rank answers.
static int answer_of(const tt__mpi *m, double now)
{
    if (m->waits_since == 0)
        return WORKS;
    const double parts = PARTS * (now - m->waits_since) / m->base.deadline;
    return WAITS + (parts < MOST_PARTS ? (int)parts : MOST_PARTS);
}

static tt_status take_signs(tt__mpi *m, double now)
{
    for (;;) {
        int from = -1, tag = 0;
        int code = m->api->next_sign(&from, &tag);
        if (code == 0 && from < 0)
            return TT_OK;
        if (code == 0 && tag == ASK)
            code = m->api->sign(from, answer_of(m, now));
        if (code != 0)
            return tt__mpi_fail(m, code, "give a sign of life");
        tt__mpi_pulse *p = &m->pulse[from];
        p->heard_at = now;
        p->asked_at = 0;
        if (tag >= LOST && m->lost_by < 0) {
            m->lost = tag - LOST;
            m->lost_by = from;
        }
        if (tag == ASK || tag >= LOST)
            continue;
        p->told_at = now;
        p->waits =
            tag == WORKS ? 0 : (tag - WAITS) * m->base.deadline / PARTS + 1e-9;
    }
}

// A rank that waited when it last answered has perhaps worked since; but then it
// answers so before its time is up.
double tt__mpi_idle(tt_comm *comm, double since)
{
    tt__mpi *m = (tt__mpi *)comm;
    (void)pthread_mutex_lock(&m->lock);
    const double now = tt_clock_seconds();
    double idle = now - since;
    m->waits_since = since;
    for (int32_t r = 0; r < comm->size && since > 0; r++) {
        const tt__mpi_pulse *p = &m->pulse[r];
        const double known = p->waits > 0 ? p->waits : now - p->told_at;
        if (r != comm->rank && p->told_at > 0 && known < idle)
            idle = known;
    }
    (void)pthread_mutex_unlock(&m->lock);
    return idle;
}

static bool is_awaited(const tt__mpi *m, int32_t r)
{
    return r != m->base.rank &&
           (m->is_collecting || tt__mpi_is_busy(&m->in[r]) ||
            tt__mpi_is_busy(&m->out[r]));
}

// Whoever cannot be told will find out.
static void tell_lost(const tt__mpi *m, int32_t lost)
{
    for (int32_t r = 0; r < m->base.size; r++)
        if (r != m->base.rank && r != lost)
            (void)m->api->sign(r, LOST + lost);
}

static tt_status hear_lost(tt__mpi *m)
{
    if (m->lost_by < 0 || m->lost == m->base.rank)
        return TT_OK;
    m->has_lost_first = m->has_lost_first || m->lost == 0;
    return tt_fail(TT_ERR_TIMEOUT,
                   "rank %d gave no sign of life while rank %d waited for it",
                   m->lost, m->lost_by);
}

// Asks after a quarter of the allowed silence and gives up when no answer has come for
// seven tenths of it. Together that stays below the limit that the user set.
static tt_status ask(tt__mpi *m, int32_t r, double now)
{
    tt__mpi_pulse *p = &m->pulse[r];
    const double since =
        p->heard_at > m->idle_since ? p->heard_at : m->idle_since;
    // One that nobody waits for may have left.
    const bool is_lost = p->asked_at > 0 && is_awaited(m, r) &&
                         now - p->asked_at > 0.7 * m->silence;
    m->has_lost_first = m->has_lost_first || (is_lost && r == 0);
    if (is_lost)
        tell_lost(m, r);
    if (is_lost)
        return tt_fail(TT_ERR_TIMEOUT,
                       "rank %d gave no sign of life for %.1f s while rank %d "
                       "waited for it",
                       r, now - since, m->base.rank);
    if (p->asked_at > 0 || now - since < 0.25 * m->silence)
        return TT_OK;
    p->asked_at = now;
    const int code = m->api->sign(r, ASK);
    return code == 0 ? TT_OK : tt__mpi_fail(m, code, "ask for a sign of life");
}

// Called only while nothing moves, so signs cost nothing while messages do.
tt_status tt__mpi_listen(tt__mpi *m)
{
    const double now = tt_clock_seconds();
    if (m->idle_since == 0) {
        m->idle_since = m->listened_at = now;
        for (int32_t r = 0; r < m->base.size; r++)
            m->pulse[r] = (tt__mpi_pulse){0};
    }
    if (now - m->listened_at < look_every)
        return TT_OK;
    m->listened_at = now;
    TT_TRY(take_signs(m, now));
    TT_TRY(hear_lost(m));
    const bool asks_all = now - m->idle_since > m->silence;
    for (int32_t r = 0; r < m->base.size; r++)
        if (is_awaited(m, r) || (asks_all && r != m->base.rank))
            TT_TRY(ask(m, r, now));
    return TT_OK;
}

static void *answer(void *user)
{
    tt__mpi *m = user;
    (void)pthread_mutex_lock(&m->lock);
    while (!m->is_over) {
        const double rest = 0.05 * m->silence;
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec +=
            (long)(1e9 * (rest < answer_every ? rest : answer_every));
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        (void)pthread_cond_timedwait(&m->wake, &m->lock, &until);
        if (!m->is_over)
            (void)take_signs(m, tt_clock_seconds()); // waits report failures
    }
    (void)pthread_mutex_unlock(&m->lock);
    return NULL;
}

tt_status tt__mpi_start_answering(tt__mpi *m)
{
    return tt_thread_start(&m->thread, answer, m, "signs of life over MPI");
}

void tt__mpi_stop_answering(tt__mpi *m)
{
    (void)pthread_mutex_lock(&m->lock);
    m->is_over = true;
    (void)pthread_cond_signal(&m->wake);
    (void)pthread_mutex_unlock(&m->lock);
    (void)pthread_join(m->thread, NULL);
}
