// Rounds of a federation: who is asked, who answers, and that all of it is a function of
// the seed.

#include "exchange/rounds.h"
#include "test.h"

#include <string.h>

enum { CLIENTS = 100, ROUNDS = 200 };

static int64_t steps[CLIENTS];

static tt_round_rules usual(void)
{
    for (int i = 0; i < CLIENTS; i++)
        steps[i] = 5;
    return (tt_round_rules){.pace = {.workers = CLIENTS,
                                     .seed = 7,
                                     .spread = 0.5,
                                     .jitter = 0.1,
                                     .delay = 0.05},
                            .fraction = 0.1,
                            .over = 1,
                            .steps = steps};
}

static tt_arena *begin(const tt_round_rules *rules, tt_round *round)
{
    tt_arena *arena = tt_arena_create();
    CHECK(arena != NULL);
    CHECK_OK(tt_round_init(round, rules, arena));
    return arena;
}

TEST(a_round_asks_a_part_and_all_get_their_turn)
{
    const tt_round_rules rules = usual();
    tt_round round;
    tt_arena *arena = begin(&rules, &round);
    int times[CLIENTS] = {0};
    for (int64_t r = 0; r < ROUNDS; r++) {
        tt_round_draw(&round, &rules, r);
        CHECK(round.n == 10 && round.taken == 10);
        for (int32_t i = 0; i < round.n; i++) {
            CHECK(i == 0 ||
                  round.client[i].client > round.client[i - 1].client);
            times[round.client[i].client]++;
        }
    }
    for (int i = 0; i < CLIENTS; i++) // 20 on average
        CHECK(times[i] > 4 && times[i] < 40);
    tt_arena_destroy(arena);
}

TEST(a_round_is_the_same_whenever_it_is_drawn)
{
    tt_round_rules rules = usual();
    tt_round a, b;
    rules.over = 1.5;
    rules.drop = 0.2;
    tt_arena *one = begin(&rules, &a), *two = begin(&rules, &b);
    for (int64_t r = 0; r < 20; r++)
        tt_round_draw(&a, &rules, r);
    tt_round_draw(&b, &rules, 19);
    CHECK(a.n == b.n && a.taken == b.taken && a.seconds == b.seconds);
    for (int32_t i = 0; i < a.n; i++)
        CHECK(a.client[i].client == b.client[i].client &&
              a.client[i].fate == b.client[i].fate &&
              a.client[i].due == b.client[i].due);
    tt_arena_destroy(one);
    tt_arena_destroy(two);
}

TEST(clients_without_data_are_not_asked)
{
    const tt_round_rules rules = usual();
    tt_round round;
    tt_arena *arena = begin(&rules, &round);
    for (int i = 0; i < CLIENTS; i += 2)
        steps[i] = 0;
    for (int64_t r = 0; r < ROUNDS; r++) {
        tt_round_draw(&round, &rules, r);
        CHECK(round.n == 5);
        for (int32_t i = 0; i < round.n; i++)
            CHECK(round.client[i].client % 2 == 1);
    }
    tt_arena_destroy(arena);
}

// The first who are wanted are taken; asking more makes rounds shorter.
TEST(asking_more_than_wanted_makes_rounds_shorter)
{
    tt_round_rules rules = usual();
    tt_round round;
    tt_arena *arena = begin(&rules, &round);
    double plain = 0, over = 0;
    for (int64_t r = 0; r < ROUNDS; r++) {
        rules.over = 1;
        tt_round_draw(&round, &rules, r);
        plain += round.seconds;
        rules.over = 1.3;
        tt_round_draw(&round, &rules, r);
        over += round.seconds;
        CHECK(round.n == 13 && round.taken == 10);
        for (int32_t i = 0; i < round.n; i++)
            CHECK((round.client[i].due <= round.seconds) ==
                  (round.client[i].fate == TT_FATE_TAKEN));
    }
    CHECK(over < 0.85 * plain);
    tt_arena_destroy(arena);
}

TEST(who_is_late_or_gone_is_left_out)
{
    tt_round_rules rules = usual();
    tt_round round;
    tt_arena *arena = begin(&rules, &round);
    int dropped = 0, late = 0;
    rules.drop = 0.25;
    rules.deadline = 6;
    for (int64_t r = 0; r < ROUNDS; r++) {
        int taken = 0;
        tt_round_draw(&round, &rules, r);
        for (int32_t i = 0; i < round.n; i++) {
            const tt_round_client *c = &round.client[i];
            dropped += c->fate == TT_FATE_DROPPED;
            late += c->fate == TT_FATE_LATE;
            taken += c->fate == TT_FATE_TAKEN;
            CHECK(c->fate != TT_FATE_TAKEN || c->due <= 6);
            CHECK(c->fate != TT_FATE_LATE || c->due > 6);
        }
        CHECK(taken == round.taken);
        CHECK(round.taken == round.wanted || round.seconds == 6);
    }
    CHECK(dropped > 400 && dropped < 600); // of 2000
    CHECK(late > 200);
    tt_arena_destroy(arena);
}

TEST(by_chance_a_client_is_asked_by_itself)
{
    tt_round_rules rules = usual();
    tt_round round;
    tt_arena *arena = begin(&rules, &round);
    double sum = 0, squares = 0;
    rules.is_poisson = true;
    for (int64_t r = 0; r < ROUNDS; r++) {
        tt_round_draw(&round, &rules, r);
        CHECK(round.taken == round.n);
        sum += round.n;
        squares += (double)round.n * round.n;
    }
    const double mean = sum / ROUNDS;
    const double variance = squares / ROUNDS - mean * mean;
    CHECK(mean > 9 && mean < 11);
    CHECK(variance > 6 && variance < 13); // 9
    tt_arena_destroy(arena);
}
