// Every law, as tests: one each, so that they run side by side.

#include "../test.h"
#include "check/law.h"

static void run_law(const char *name)
{
    tt_law_report report = {0};
    const tt_law_def *law = tt_law_find(name);
    CHECK(law != NULL);
    CHECK(law->run(&report) == TT_OK);
    if (report.n_failed > 0)
        tt_test_fail(__FILE__, __LINE__, "%lld of %lld checks failed\n%s",
                     (long long)report.n_failed, (long long)report.n_checks,
                     tt_str_text(&report.failures));
    CHECK(report.n_checks > 0);
    tt_law_report_fini(&report);
}

TEST(law_text_printed_and_read_back_is_the_same_graph)
{
    run_law("text");
}

TEST(law_cost_is_what_was_counted_by_hand)
{
    run_law("cost");
}

TEST(law_gradient_is_the_finite_difference)
{
    run_law("grad");
}

TEST(law_parts_joined_are_the_whole)
{
    run_law("shard");
}

TEST(law_codecs_lose_no_more_than_they_say)
{
    run_law("codec");
}

TEST(law_transports_deliver_in_order_or_refuse)
{
    run_law("transport");
}

TEST(law_collectives_are_right_and_send_what_they_cost)
{
    run_law("coll");
}

TEST_SLOW(law_schedules_are_valid_and_as_published, 120)
{
    run_law("pipe");
}

TEST(law_operators_over_a_transport_are_what_they_are_in_simulation)
{
    run_law("wire");
}

TEST_SLOW(law_ranks_that_overlap_are_like_one_rank, 120)
{
    run_law("flight");
}

TEST_SLOW(law_every_kernel_computes_what_the_reference_computes, 300)
{
    run_law("kernel");
}

TEST(law_a_lowered_graph_computes_what_the_graph_says)
{
    run_law("lower");
}

TEST_SLOW(law_gradients_of_models_are_finite_differences, 300)
{
    run_law("model");
}

TEST_SLOW(law_every_pass_keeps_what_models_compute, 300)
{
    run_law("pass");
}

TEST_SLOW(law_ranks_compute_what_one_rank_computes, 300)
{
    run_law("ranks");
}

TEST_SLOW(law_blocks_have_the_same_bits_on_any_number_of_ranks, 300)
{
    run_law("blocks");
}

TEST_SLOW(law_lowered_models_learn, 300)
{
    run_law("train");
}
