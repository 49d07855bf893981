// check - tutti_check: the laws, run from a program. Broken laws are not a failure of
// the call: the result counts them, and tutti_error() has a line for each.

#include "api/convert.h"
#include "check/law.h"

tutti_status tutti_check(const char *only, tutti_check_result *result_out)
{
    TT_API_NEED(result_out);
    int n = 0;
    const tt_law_def *const *laws = tt_law_all(&n);
    tt_law_report report = {.only = only};
    tt_status status = TT_OK;
    for (int i = 0; i < n && status == TT_OK; i++)
        status = laws[i]->run(&report);
    if (status == TT_OK) {
        *result_out = (tutti_check_result){.checks = report.n_checks,
                                           .failed = report.n_failed};
        if (report.n_failed > 0)
            (void)tt_fail(TT_ERR_STATE, "%s", tt_str_text(&report.failures));
    }
    tt_law_report_fini(&report);
    return tt__api_result(status);
}
