// What the laws about models say of one that is registered while they run.

#include "check/law.h"
#include "model/model.h"
#include "test.h"

#include <string.h>

static tt_status build(tt_builder *b, const void *params, tt_model_io *io)
{
    (void)params, (void)io;
    return tt_builder_status(b);
}

TEST(a_model_without_samples_is_a_failure_that_says_what_is_missing)
{
    static const tt_model_def bare = {
        .name = "test_bare", .doc = "Has no samples.", .build = build};
    tt_law_report report = {.only = "test_bare"};
    CHECK_OK(tt_model_register(&bare));
    CHECK_OK(tt_law_find("model")->run(&report));
    CHECK(report.n_failed == 1);
    CHECK(strstr(tt_str_text(&report.failures),
                 "test_bare has no samples: small configurations") != NULL);
    tt_law_report_fini(&report);
}

// The law about passes can be asked for one pass, and for one model.
TEST(the_law_about_passes_looks_at_a_pass_or_a_model)
{
    tt_law_report all = {0}, pass = {.only = "recompute"},
                  model = {.only = "mlp"};
    CHECK_OK(tt_law_find("pass")->run(&pass));
    CHECK_OK(tt_law_find("pass")->run(&model));
    CHECK_OK(tt_law_find("pass")->run(&all));
    CHECK(pass.n_failed + model.n_failed + all.n_failed == 0);
    CHECK(pass.n_checks > 0 && model.n_checks > 0);
    CHECK(all.n_checks > pass.n_checks && all.n_checks > model.n_checks);
}
