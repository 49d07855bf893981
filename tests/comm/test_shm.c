// Waits end: when a peer is gone, when it is late, when it does something else.

#include "base/clock.h"
#include "comm/transport/shm.h"
#include "test.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

typedef struct pair {
    tt_shm_world *world;
    tt_comm *a, *b;
} pair;

static pair open_pair(double deadline)
{
    pair p = {0};
    CHECK_OK(tt_shm_world_create(2, 1 << 20, &p.world));
    CHECK_OK(tt_shm_open(p.world, 0, deadline, &p.a));
    CHECK_OK(tt_shm_open(p.world, 1, deadline, &p.b));
    return p;
}

static void close_pair(pair *p)
{
    tt_comm_close(p->a);
    tt_comm_close(p->b);
    tt_shm_world_destroy(p->world);
}

static tt_msg message(int32_t peer, void *data, int64_t bytes)
{
    return (tt_msg){.peer = peer, .tag = 1, .data = data, .bytes = bytes};
}

TEST(shm_waits_no_longer_than_its_deadline)
{
    char byte = 0;
    pair p = open_pair(0.2);
    tt_msg in = message(1, &byte, 1);
    CHECK(tt_comm_swap(p.a, NULL, &in) == TT_ERR_TIMEOUT);
    CHECK_MSG(strstr(tt_error_message(), "for rank 1") != NULL, "%s",
              tt_error_message());
    close_pair(&p);
}

TEST(shm_names_the_rank_that_failed)
{
    char byte = 0;
    pair p = open_pair(30);
    tt_msg in = message(1, &byte, 1);
    tt_shm_world_fail(p.world, 1);
    CHECK(tt_comm_swap(p.a, NULL, &in) == TT_ERR_PEER);
    CHECK(strstr(tt_error_message(), "rank 1 failed") != NULL);
    close_pair(&p);
}

TEST(shm_does_not_wait_for_a_rank_that_left)
{
    char byte = 0;
    pair p = open_pair(30);
    tt_msg in = message(1, &byte, 1);
    tt_comm_close(p.b);
    p.b = NULL;
    CHECK(tt_comm_swap(p.a, NULL, &in) == TT_ERR_PEER);
    CHECK(strstr(tt_error_message(), "left") != NULL);
    close_pair(&p);
}

TEST(shm_delivers_what_was_sent_before_leaving)
{
    char out[] = "last words", in[sizeof out];
    pair p = open_pair(30);
    tt_msg send = message(0, out, sizeof out);
    tt_msg receive = message(1, in, sizeof in);
    CHECK_OK(tt_comm_swap(p.b, &send, NULL));
    tt_comm_close(p.b);
    p.b = NULL;
    CHECK_OK(tt_comm_swap(p.a, NULL, &receive));
    CHECK(strcmp(in, "last words") == 0);
    close_pair(&p);
}

TEST(shm_notices_ranks_that_do_different_things)
{
    char data[16] = {0};
    pair p = open_pair(5);
    tt_msg send = message(1, data, 16), receive = message(0, data, 12);
    CHECK_OK(tt_comm_swap(p.a, &send, NULL));
    CHECK(tt_comm_swap(p.b, NULL, &receive) == TT_ERR_PEER);
    CHECK(strstr(tt_error_message(), "different things") != NULL);
    close_pair(&p);
}

TEST(shm_carries_messages_longer_than_its_ring_to_itself)
{
    enum { N = 300007 };
    static char from[N], to[N];
    pair p = open_pair(5);
    for (int i = 0; i < N; i++)
        from[i] = (char)(i * 7);
    tt_msg send = message(0, from, N), receive = message(0, to, N);
    CHECK_OK(tt_comm_swap(p.a, &send, &receive));
    CHECK(memcmp(from, to, N) == 0);
    close_pair(&p);
}

static void *wake_soon(void *user)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    (void)nanosleep(&pause, NULL);
    tt_comm_wake(user);
    return NULL;
}

// Before it begins, so that no post can be missed, and while it lasts.
TEST(shm_another_thread_ends_a_doze)
{
    pair p = open_pair(1);
    pthread_t thread;
    const double start = tt_clock_seconds();
    tt_comm_wake(p.a);
    p.a->def->doze(p.a, 30);
    CHECK(pthread_create(&thread, NULL, wake_soon, p.a) == 0);
    p.a->def->doze(p.a, 30);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(tt_clock_seconds() - start < 15);
    const double again = tt_clock_seconds();
    p.a->def->doze(p.a, 0.1); // a wake ends one doze, not the next
    CHECK(tt_clock_seconds() - again > 0.05);
    close_pair(&p);
}
