// What the law about kernels says of operators that are registered while it runs.

#include "backend/kernel.h"
#include "check/law.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "test.h"

#include <string.h>

static const tt_sample samples[] = {{"", {"f a:3 b:5"}, 15}, {0}};

static tt_law_report look(const tt_op_def *op)
{
    tt_law_report report = {.only = op->name};
    CHECK_OK(tt_op_register(op));
    CHECK_OK(tt_law_find("kernel")->run(&report));
    return report;
}

static const tt_op_def orphan = {
    .name = "test_orphan",
    .doc = "Has no kernel at all.",
    .infer = tt_infer_unary,
    .cost = tt_cost_each,
    .flops_each = 1,
    .samples = samples,
};

TEST(an_operator_without_a_reference_kernel_is_one_failure_that_says_where)
{
    tt_law_report report = look(&orphan);
    CHECK(report.n_failed == 1);
    CHECK(strstr(tt_str_text(&report.failures), "test_orphan") != NULL);
    CHECK(strstr(tt_str_text(&report.failures), "src/backend/ref") != NULL);
    tt_law_report_fini(&report);
}

static tt_status infer_codes(tt_op_io *io)
{
    tt_infer_add(io, TT_U8, &io->in[0].shape);
    return TT_OK;
}

// Codes whose sum over two micro-batches is no u8 any more.
static tt_status run_codes(void *state, const tt_site *site,
                           const tt_args *args)
{
    (void)state;
    memset(args->out[0], 200, (size_t)tt_operand_count(&site->out[0]));
    return TT_OK;
}

static const tt_op_def codes;
static const tt_kernel_def kernel = {
    .name = "test.codes", .op = &codes, .run = run_codes};
static const tt_op_def codes = {
    .name = "test_codes",
    .doc = "Its first output holds codes.",
    .infer = infer_codes,
    .cost = tt_cost_each,
    .flops_each = 1,
    .kernel = &kernel,
    .samples = samples,
};

TEST(codes_of_a_first_output_are_not_added_up)
{
    tt_law_report report = look(&codes);
    CHECK_MSG(report.n_failed == 0, "%s", tt_str_text(&report.failures));
    CHECK(report.n_checks > 0);
    tt_law_report_fini(&report);
}
