// Every law of check/list.h is a test, one each, so that they run side by side. A new
// law needs nothing here.

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
    if (report.n_checks == 0 && law->needs_devices)
        tt_test_skip("there are no devices that reach each other");
    CHECK(report.n_checks > 0);
    tt_law_report_fini(&report);
}

#define TT_LAW(name)                                                           \
    TEST_SLOW(law_##name, 300)                                                 \
    {                                                                          \
        run_law(#name);                                                        \
    }
#include "check/list.h"
#undef TT_LAW
