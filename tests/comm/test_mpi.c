// The MPI transport over a library that does as it is told: pieces, folds, messages
// that are not the expected ones, peers that are silent.

#include "comm/transport/mpi.h"
#include "comm/transport/mpi_state.h"
#include "test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MAX_POSTED = 64 };

typedef struct posted {
    void *data;
    int bytes, tag, peer;
    bool is_out, is_done;
    tt_mpi_arrival arrival;
} posted;

// Rank 0 of 2. What it sends to itself arrives; rank 1 is as the test wants it.
static struct {
    posted post[MAX_POSTED];
    int n;
    int tag_shift;  // of what arrives
    bool is_deaf;   // rank 1 answers nothing
    int asked;      // times that rank 1 was asked for a sign
    int unanswered; // of these
    int answer;     // 0: it works
    int answers;    // so many, then what is received from it arrives
    int most_bytes; // of a piece
    bool is_final;
    int64_t peer_bytes; // that rank 1 sends, as many messages as are received
} fake;

static int init(tt_mpi_fold_fn *fold)
{
    (void)fold;
    return 0;
}

static void about(char text[TT_MPI_TEXT])
{
    snprintf(text, TT_MPI_TEXT, "Fake MPI 1.0");
}

static void host(char text[TT_MPI_TEXT])
{
    snprintf(text, TT_MPI_TEXT, "here");
}

static int zero(void)
{
    return 0;
}

static int two(void)
{
    return 2;
}

static int tag_most(void)
{
    return 32767;
}

static int add(posted p, tt_mpi_request *out)
{
    CHECK(fake.n < MAX_POSTED);
    fake.post[fake.n] = p;
    out->bits = (uint64_t)fake.n++;
    if (p.bytes > fake.most_bytes)
        fake.most_bytes = p.bytes;
    return 0;
}

// The first send to itself that is not taken.
static posted *next_own(void)
{
    for (int i = 0; i < fake.n; i++)
        if (fake.post[i].is_out && fake.post[i].peer == 0 &&
            !fake.post[i].is_done)
            return &fake.post[i];
    return NULL;
}

static int post_send(const void *data, int bytes, int to, int tag,
                     tt_mpi_request *out)
{
    return add((posted){.data = (void *)(uintptr_t)data,
                        .bytes = bytes,
                        .tag = tag,
                        .peer = to,
                        .is_out = true,
                        .is_done = to == 1},
               out);
}

static int post_receive(void *data, int bytes, int from, tt_mpi_request *out)
{
    return add((posted){.data = data, .bytes = bytes, .peer = from}, out);
}

// Of a message of so many bytes with tag 0, as the sender makes it.
static int tag_of(int bytes)
{
    uint64_t h = (uint64_t)bytes * UINT64_C(0xbf58476d1ce4e5b9);
    h ^= h >> 31;
    return (int)(h % 32768);
}

static int test(tt_mpi_request *request, bool *done_out,
                tt_mpi_arrival *arrival_out)
{
    posted *p = &fake.post[request->bits];
    posted *own = p->peer == 0 && !p->is_out && !p->is_done ? next_own() : NULL;
    if (own != NULL) {
        if (own->bytes > p->bytes)
            return 15;
        if (own->bytes > 0)
            memcpy(p->data, own->data, (size_t)own->bytes);
        p->arrival = (tt_mpi_arrival){own->tag + fake.tag_shift, own->bytes};
        p->is_done = own->is_done = true;
    }
    if (p->peer == 1 && fake.answers > 0 && fake.asked > fake.answers) {
        p->is_done = true;
        p->arrival = (tt_mpi_arrival){tag_of(p->bytes), p->bytes};
    }
    *done_out = p->is_done;
    if (p->is_done && arrival_out != NULL)
        *arrival_out = p->arrival;
    return 0;
}

static int collect(const tt_mpi_coll *coll, tt_mpi_request *out)
{
    (void)coll;
    return add((posted){.peer = 1}, out); // rank 1 never takes part
}

static int sign(int to, int tag)
{
    CHECK(to == 1);
    fake.asked += tag == 1;
    fake.unanswered += tag == 1 && !fake.is_deaf;
    return 0;
}

static int next_sign(int *from_out, int *tag_out)
{
    *from_out = fake.unanswered > 0 ? 1 : -1;
    *tag_out = fake.answer > 0 ? fake.answer : 2;
    if (fake.unanswered > 0)
        fake.unanswered--;
    return 0;
}

static bool is_truncated(int code)
{
    return code == 15;
}

static void explain(int code, char text[TT_MPI_TEXT])
{
    snprintf(text, TT_MPI_TEXT, "code %d", code);
}

static int finalize(void)
{
    fake.is_final = true;
    return 0;
}

// The hosts' names come from rank 1, which has no say here: it is as if it had sent
// the same.
static int first_receive(void *data, int bytes, int from, tt_mpi_request *out)
{
    (void)post_receive(data, bytes, from, out);
    posted *p = &fake.post[out->bits];
    if (from != 1 || bytes != 8 || fake.peer_bytes > 0)
        return 0;
    fake.peer_bytes += bytes;
    memset(data, 7, 8);
    p->is_done = true;
    p->arrival.bytes = 8;
    p->arrival.tag = tag_of(8);
    return 0;
}

static const tt_mpi_api api = {
    .version = TT_MPI_API,
    .init = init,
    .about = about,
    .host = host,
    .rank = zero,
    .size = two,
    .tag_most = tag_most,
    .send = post_send,
    .receive = first_receive,
    .test = test,
    .collect = collect,
    .sign = sign,
    .next_sign = next_sign,
    .is_truncated = is_truncated,
    .explain = explain,
    .finalize = finalize,
};

static tt_comm *open_fake(double deadline)
{
    tt_comm *comm = NULL;
    CHECK_OK(tt__mpi_open_api(&api, deadline, &comm));
    fake.n = 0;
    return comm;
}

TEST(mpi_cuts_messages_and_folds_what_arrives)
{
    enum { N = 300001 };
    static float data[N], sum[N];
    tt_comm *comm = open_fake(5);
    int32_t n_hosts = 0;
    CHECK(tt_mpi_hosts(comm, &n_hosts)[1] == 1 && n_hosts == 2);
    CHECK(strcmp(tt_mpi_about(comm), "Fake MPI 1.0") == 0);
    for (int i = 0; i < N; i++) {
        data[i] = (float)i;
        sum[i] = 1;
    }
    tt_msg out = {.tag = 3, .data = data, .bytes = sizeof data};
    tt_msg in = {.tag = 3,
                 .data = sum,
                 .bytes = sizeof sum,
                 .fold = {TT_FOLD_SUM, TT_NUM_F32}};
    CHECK_OK(tt_comm_swap(comm, &out, &in));
    for (int i = 0; i < N; i++)
        CHECK(sum[i] == (float)i + 1);
    CHECK(fake.most_bytes == 1 << 20 && fake.n == 4);
    tt_msg none_out = {.tag = 4}, none_in = {.tag = 4};
    CHECK_OK(tt_comm_swap(comm, &none_out, &none_in));
    tt_comm_close(comm);
    CHECK(fake.is_final);
}

// Rank 0 to itself; the sender's message is another than the receiver's.
static void refuses(tt_msg out, tt_msg in)
{
    char a[64] = "", b[64];
    tt_comm *comm = open_fake(5);
    out.data = a;
    in.data = b;
    CHECK(tt_comm_swap(comm, &out, &in) == TT_ERR_PEER);
    CHECK_MSG(strstr(tt_error_message(), "do different things") != NULL, "%s",
              tt_error_message());
    CHECK(tt_comm_send(comm, &out) == TT_ERR_STATE);
    tt_comm_close(comm);
    CHECK(!fake.is_final); // the launcher ends the others
}

TEST(mpi_refuses_a_longer_message)
{
    refuses((tt_msg){.bytes = 9}, (tt_msg){.bytes = 8});
}

TEST(mpi_refuses_a_shorter_message)
{
    refuses((tt_msg){.bytes = 7}, (tt_msg){.bytes = 8});
}

TEST(mpi_refuses_a_message_of_another_tag)
{
    refuses((tt_msg){.bytes = 8, .tag = 1}, (tt_msg){.bytes = 8, .tag = 2});
}

TEST(mpi_names_a_silent_peer)
{
    char byte = 0;
    tt_comm *comm = open_fake(0.6);
    fake.is_deaf = true;
    tt_msg in = {.peer = 1, .data = &byte, .bytes = 1};
    CHECK(tt_comm_swap(comm, NULL, &in) == TT_ERR_TIMEOUT);
    CHECK_MSG(strstr(tt_error_message(), "rank 1 gave no sign of life") != NULL,
              "%s", tt_error_message());
    CHECK(fake.asked == 1);
    tt_comm_close(comm);
    CHECK(!fake.is_final);
}

// Rank 1, for which this one waits, has given up rank 5: that one is named, not rank 1.
TEST(mpi_names_whom_another_rank_has_given_up)
{
    char byte = 0;
    tt_comm *comm = open_fake(0.6);
    fake.answer = 3 + 2000 + 1 + 5;
    tt_msg in = {.peer = 1, .data = &byte, .bytes = 1};
    CHECK(tt_comm_swap(comm, NULL, &in) == TT_ERR_TIMEOUT);
    CHECK_MSG(strstr(tt_error_message(), "rank 5 gave no sign of life while "
                                         "rank 1 waited") != NULL,
              "%s", tt_error_message());
    tt_comm_close(comm);
}

// Rank 1 says again and again that it works: the wait lasts longer than the deadline.
TEST(mpi_waits_for_a_peer_that_works)
{
    char byte = 0;
    tt_comm *comm = open_fake(0.4);
    comm->deadline = 0.5; // instead of 5.8 s
    fake.answers = 15;
    tt_msg in = {.peer = 1, .data = &byte, .bytes = 1};
    CHECK_OK(tt_comm_swap(comm, NULL, &in));
    CHECK(fake.asked == 16);
    tt_comm_close(comm);
}

// It waits itself, for as long as this rank does.
TEST(mpi_gives_up_when_all_ranks_wait)
{
    char byte = 0;
    tt_comm *comm = open_fake(0.2);
    comm->deadline = 1; // instead of 5.4 s
    fake.answer = 3 + 1500;
    tt_msg in = {.peer = 1, .data = &byte, .bytes = 1};
    CHECK(tt_comm_swap(comm, NULL, &in) == TT_ERR_TIMEOUT);
    CHECK_MSG(strstr(tt_error_message(), "for rank 1") != NULL &&
                  strstr(tt_error_message(), "sign") == NULL,
              "%s", tt_error_message());
    CHECK(fake.asked > 3);
    tt_comm_close(comm);
}

TEST(mpi_ends_its_own_collective_when_a_peer_is_silent)
{
    float x = 1;
    tt_comm *comm = open_fake(0.6);
    fake.is_deaf = true;
    const tt_coll_call call = {.kind = TT_ALL_REDUCE,
                               .group = {.n = 2},
                               .fold = {TT_FOLD_SUM, TT_NUM_F32},
                               .count = 1,
                               .in = &x,
                               .out = &x};
    CHECK(tt_coll_run(tt_coll_find("native"), comm, &call) == TT_ERR_TIMEOUT);
    CHECK_MSG(strstr(tt_error_message(), "rank 1 gave no sign of life") != NULL,
              "%s", tt_error_message());
    tt_comm_close(comm);
}

static const char *only; // the one variable that is set

static const char *get(const char *name)
{
    return only != NULL && strcmp(name, only) == 0 ? "1" : NULL;
}

TEST(mpi_library_is_the_launchers)
{
    static const char *const names[][2] = {
        {"OMPI_COMM_WORLD_RANK", "openmpi"},
        {"PMIX_RANK", "openmpi"},
        {"PMI_RANK", "mpich"},
        {"PMI_FD", "mpich"},
        {"PMI2_FD", "mpich"},
    };
    for (int i = 0; i < 5; i++) {
        only = names[i][0];
        CHECK(strcmp(tt_mpi_flavour(get), names[i][1]) == 0);
    }
    only = NULL;
    CHECK(tt_mpi_flavour(get) == NULL);
}

TEST(mpi_says_where_it_looked_for_the_plug_in)
{
    tt_comm *comm = NULL;
    CHECK(tt_mpi_open("/nowhere:/neither", "openmpi", 1, &comm) ==
          TT_ERR_UNSUPPORTED);
    CHECK(strstr(tt_error_message(), "libtutti-mpi-openmpi.so") != NULL);
    CHECK(strstr(tt_error_message(), "/nowhere:/neither") != NULL);
    CHECK(tt_mpi_open(NULL, "mpich", 1, &comm) == TT_ERR_UNSUPPORTED);
}
