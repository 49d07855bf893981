// What ranks say to each other between steps. The ranks are processes: a failed
// check in one is the launcher's message.

#include "comm/launch.h"
#include "config/distribution.h"
#include "peers/peers.h"
#include "test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef tt_status say_fn(const tt_peers *peers);

static tt_status be_rank(const tt_launch_rank *rank, void *user)
{
    say_fn *const *say = user;
    tt_peers peers = {
        .rank = rank->rank, .size = rank->n_ranks, .on_host = rank->n_ranks};
    TT_TRY(tt_shm_open(rank->world, rank->rank, rank->deadline, &peers.comm));
    TT_TRY(tt_comm_wire_open(peers.comm, &(tt_wire_options){0}, &peers.wire));
    const tt_status status = (*say)(&peers);
    tt_comm_wire_close(peers.wire);
    tt_comm_close(peers.comm);
    return status;
}

static void on_ranks(int32_t n, say_fn *say)
{
    const tt_launch_options options = {.n_ranks = n, .rank_bytes = 1 << 20};
    CHECK_OK(tt_launch(&options, be_rank, &say));
}

static tt_status expect(bool holds, const char *what)
{
    return holds ? TT_OK : tt_fail(TT_ERR_STATE, "not so: %s", what);
}

// ---- texts and bytes -----------------------------------------------------

static tt_status share(const tt_peers *peers)
{
    tt_str text = {0};
    int64_t number = peers->rank, all[4] = {0};
    tt_str_addf(&text, "%s", peers->rank == 0 ? "what rank 0 says" : "?");
    TT_TRY(tt_peers_share_text(peers, "share", &text));
    TT_TRY(expect(strcmp(tt_str_text(&text), "what rank 0 says") == 0, "text"));
    tt_str_clear(&text);
    TT_TRY(tt_peers_share_text(peers, "share", &text));
    TT_TRY(expect(text.n == 0, "no text"));
    tt_str_fini(&text);
    TT_TRY(tt_peers_collect(peers, "collect", &number, sizeof number, all));
    for (int32_t r = 0; r < peers->size; r++)
        TT_TRY(expect(all[r] == r, "collected"));
    number += 5;
    TT_TRY(tt_peers_broadcast(peers, "broadcast", &number, sizeof number));
    return expect(number == 5, "broadcast");
}

TEST(ranks_hear_what_rank_0_says)
{
    on_ranks(1, share);
    on_ranks(4, share);
}

// ---- failing together ----------------------------------------------------

static tt_status fail_alone(const tt_peers *peers)
{
    const bool is_first = tt_peers_is_first(peers);
    tt_status mine = TT_OK;
    TT_TRY(tt_peers_agree(peers, "agree", TT_OK));
    TT_TRY(tt_peers_follow(peers, "follow", TT_OK));
    if (is_first)
        mine = tt_fail(TT_ERR_IO, "the disk is full");
    tt_status status = tt_peers_follow(peers, "saving", mine);
    TT_TRY(expect(status == (is_first ? TT_ERR_IO : TT_ERR_PEER), "followed"));
    TT_TRY(expect(strstr(tt_error_message(),
                         is_first ? "the disk is full"
                                  : "saving: it failed on rank 0") != NULL,
                  tt_error_message()));
    mine = peers->rank == 2 ? tt_fail(TT_ERR_ARG, "no such file") : TT_OK;
    status = tt_peers_agree(peers, "opening", mine);
    TT_TRY(expect(status == (is_first ? TT_ERR_ARG : TT_ERR_PEER), "agreed"));
    return expect(strcmp(tt_error_message(), "rank 2: no such file") == 0,
                  tt_error_message());
}

TEST(ranks_fail_together)
{
    on_ranks(3, fail_alone);
}

// Rank 1 has failed and comes to where all will meet; the others are elsewhere yet.
static tt_status miss(const tt_peers *peers, int distribution)
{
    const bool is_first = tt_peers_is_first(peers);
    const tt_peers_fact fact = {"another graph", "g", NULL};
    int64_t number = 5, all[3];
    tt_str text = {0};
    tt_status status = TT_OK;
    tt_str_add(&text, "five");
    if (peers->rank == 1)
        status = tt_fail(TT_ERR_IO, "words.txt: no such file");
    else if (distribution == 0)
        status = tt_peers_collect(peers, "devices", &number, 8, all);
    else if (distribution == 1)
        status = tt_peers_broadcast(peers, "number", &number, 8);
    else if (distribution == 2)
        status = tt_peers_follow(peers, "folder", TT_OK);
    else if (distribution == 3)
        status = tt_peers_share_text(peers, "text", &text);
    else if (distribution == 4)
        status = tt_peers_compare(peers, &fact, 1);
    else
        status = tt_peers_meet(peers, "order");
    tt_str_fini(&text);
    status = tt_peers_agree(peers, "opening", status);
    TT_TRY(expect(status == (is_first ? TT_ERR_IO : TT_ERR_PEER),
                  tt_error_message()));
    return expect(
        strcmp(tt_error_message(), "rank 1: words.txt: no such file") == 0,
        tt_error_message());
}

static tt_status miss_collect(const tt_peers *peers)
{
    return miss(peers, 0);
}

static tt_status miss_broadcast(const tt_peers *peers)
{
    return miss(peers, 1);
}

static tt_status miss_follow(const tt_peers *peers)
{
    return miss(peers, 2);
}

static tt_status miss_text(const tt_peers *peers)
{
    return miss(peers, 3);
}

static tt_status miss_compare(const tt_peers *peers)
{
    return miss(peers, 4);
}

static tt_status miss_meet(const tt_peers *peers)
{
    return miss(peers, 5);
}

TEST(ranks_understand_one_that_failed_earlier)
{
    say_fn *const all[] = {miss_collect, miss_broadcast, miss_follow,
                           miss_text,    miss_compare,   miss_meet};
    for (int i = 0; i < 6; i++)
        on_ranks(3, all[i]);
}

static tt_status go_apart(const tt_peers *peers)
{
    const bool is_odd = peers->rank == 2;
    const tt_status status =
        tt_peers_follow(peers, is_odd ? "the checkpoint" : "the sample", TT_OK);
    TT_TRY(expect(status == (peers->rank == 0 ? TT_ERR_STATE : TT_ERR_PEER),
                  tt_error_message()));
    return expect(strstr(tt_error_message(),
                         "rank 2: it comes to \"the checkpoint\" when") != NULL,
                  tt_error_message());
}

TEST(ranks_that_do_different_things_say_so)
{
    on_ranks(4, go_apart);
}

// ---- comparing -----------------------------------------------------------

static tt_status check_compared(const tt_peers *peers, const char *config,
                                const char *graph, const char *message)
{
    const tt_peers_fact facts[] = {
        {"another program", "0.1", NULL},
        {"another configuration", config, tt_peers_explain_lines},
        {"another graph", graph, NULL}};
    const tt_status status = tt_peers_compare(peers, facts, 3);
    if (message == NULL)
        return status;
    TT_TRY(expect(status == (peers->rank == 0 ? TT_ERR_ARG : TT_ERR_PEER),
                  message));
    return expect(strcmp(tt_error_message(), message) == 0, tt_error_message());
}

static tt_status compare(const tt_peers *peers)
{
    const bool is_odd = peers->rank == 2;
    TT_TRY(check_compared(peers, "a: 1\nb: 2\n", "g", NULL));
    TT_TRY(check_compared(peers, is_odd ? "a: 1\nb: 3\n" : "a: 1\nb: 2\n", "g",
                          "rank 2 has another configuration than rank 0: b is "
                          "3 there and 2 here"));
    TT_TRY(check_compared(peers, is_odd ? "a: 1\nc: 3\n" : "a: 1\n", "g",
                          "rank 2 has another configuration than rank 0: c is "
                          "3 there and not set here"));
    TT_TRY(check_compared(peers, is_odd ? "b: \"\"\n" : "a: 1\nb: \"\"\n", "g",
                          "rank 2 has another configuration than rank 0: a is "
                          "not set there and 1 here"));
    return check_compared(peers, "a: 1\n", peers->rank > 0 ? "h" : "g",
                          "rank 1 has another graph than rank 0");
}

// Of several hosts the rank's own is named.
static tt_status compare_hosts(const tt_peers *peers)
{
    char host[256] = "", message[512];
    tt_peers apart = *peers;
    apart.on_host = 1;
    TT_TRY(expect(gethostname(host, sizeof host - 1) == 0, "a name"));
    snprintf(message, sizeof message,
             "rank 1 (host %s) has another graph than rank 0", host);
    return check_compared(&apart, "a: 1\n", peers->rank == 1 ? "h" : "g",
                          message);
}

TEST(ranks_that_differ_are_named)
{
    on_ranks(3, compare);
    on_ranks(3, compare_hosts);
}

// ---- settings ------------------------------------------------------------

TEST(settings_that_decide_only_where_and_when_are_known_by_name)
{
    CHECK(tt_distribution_has("zero"));
    CHECK(tt_distribution_has("mesh.data"));
    CHECK(tt_distribution_has("exchange.bucket"));
    CHECK(tt_distribution_has("exchange.order"));
    CHECK(!tt_distribution_has("exchange.policy"));
    CHECK(!tt_distribution_has("exchange.codec"));
    CHECK(tt_distribution_has("comm.deadline"));
    CHECK(!tt_distribution_has("meshes.data"));
    CHECK(!tt_distribution_has("bn.group"));
    CHECK(!tt_distribution_has("optim.lr"));
}
