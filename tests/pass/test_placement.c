// What a change of placement costs: the formulas of the collectives that do it.

#include "pass/partition/placement.h"
#include "test.h"

static const tt_place whole = {.kind = TT_REPLICATE};
static const tt_place sum = {.kind = TT_PARTIAL, .reduce = TT_SUM};
static const tt_place largest = {.kind = TT_PARTIAL, .reduce = TT_MAX};
static const tt_place by_a = {.kind = TT_SPLIT, .factor = 0};
static const tt_place by_b = {.kind = TT_SPLIT, .factor = 1};
static const tt_place turned = {.kind = TT_SPLIT, .factor = 1, .rotate = 1};
static const tt_place window = {
    .kind = TT_SPLIT, .factor = 1, .window = {7, 3, 1, 1, 1}};

static double cost(tt_place from, tt_place to)
{
    return tt_placement_bytes(&from, &to, 160, 4);
}

TEST(changes_of_placement_cost_what_their_collectives_send)
{
    CHECK(cost(by_a, by_a) == 0 && cost(window, window) == 0);
    CHECK(cost(whole, by_a) == 0 && cost(whole, sum) == 0);
    CHECK(cost(by_a, whole) == 120);
    CHECK(cost(sum, whole) == 240 && cost(largest, whole) == 240);
    CHECK(cost(sum, by_b) == 120);
    CHECK(cost(by_a, by_b) == 30);
    CHECK(cost(by_b, turned) == 40);
    CHECK(cost(by_b, window) == 2.5 && cost(window, by_b) == 2.5);
    CHECK(cost(window, whole) == 122.5);
}

TEST(impossible_changes_of_placement_cost_nothing_but_a_sign)
{
    CHECK(cost(whole, largest) < 0 && cost(by_a, sum) < 0);
    CHECK(cost(largest, by_a) < 0 && cost(sum, turned) < 0);
    CHECK(cost(sum, window) < 0);
    CHECK(cost(turned, whole) < 0 && cost(turned, by_a) < 0);
    CHECK(cost(by_a, window) < 0);
}

TEST(bytes_of_a_type_count_its_elements)
{
    tt_type type = {.dtype = TT_BF16};
    CHECK_OK(tt_shape_parse("a:3 b:5", &type.shape));
    CHECK(tt_type_bytes(&type) == 30);
}
