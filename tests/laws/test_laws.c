// Every law of check/list.h is a test, one each, so that they run side by side. A new
// law needs nothing here.

#include "../test.h"
#include "backend/backend.h"
#include "check/law.h"

#include <string.h>

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

// Registered by hand: TEST would give list.h as the file of each.
static const char file[] = __FILE__;

#define TT_LAW(id)                                                             \
    static void test_##id(void)                                                \
    {                                                                          \
        run_law(#id);                                                          \
    }                                                                          \
    __attribute__((constructor)) static void register_##id(void)               \
    {                                                                          \
        static tt_test test = {"law_" #id, file, test_##id, 300, false, NULL}; \
        tt_test_register(&test);                                               \
    }
#include "check/list.h"
#undef TT_LAW

// The failures of a law that is asked about a device.
static void check_absent(const char *law, const char *device)
{
    tt_law_report report = {.device = device, .only = "gelu"};
    CHECK(tt_law_find(law)->run(&report) == TT_OK);
    CHECK(report.n_failed == 1);
    CHECK(strstr(tt_str_text(&report.failures), device) != NULL);
    tt_law_report_fini(&report);
}

TEST(laws_about_a_device_that_is_not_there_do_not_hold)
{
    static const char *const laws[] = {"kernel", "device_coll", "flight",
                                       "wire"};
    const tt_backend_def *cuda = tt_backend_find("cuda");
    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++) {
        check_absent(laws[i], "nowhere");
        if (!cuda->is_here())
            check_absent(laws[i], "cuda");
    }
}
