// test.h - how a test is written.
//
//   TEST(gelu_of_zero_is_zero)
//   {
//       CHECK(gelu(0) == 0);
//   }
//
// Each test registers itself and runs in its own process with a deadline, so it
// may crash, hang or leak without hurting others. The first CHECK that does not
// hold ends the test. A test prints nothing when it passes.

#ifndef TT_TESTS_TEST_H
#define TT_TESTS_TEST_H

#include "base/status.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

// True under a sanitizer that makes everything take several times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { TT_TEST_SANITIZED = 1 };
#else
enum { TT_TEST_SANITIZED = 0 };
#endif

typedef void tt_test_fn(void);

typedef struct tt_test {
    const char *name;
    const char *file; // a source file, or the script to run
    tt_test_fn *run;  // null for a script
    int seconds;      // killed after this long, five times that if sanitized
    bool all_only;    // runs only under --all
    struct tt_test *next;
} tt_test;

// Adds a test to the runner's list; `test` must live until exit.
void tt_test_register(tt_test *test);

// Says why a check failed and ends the test. Never returns.
_Noreturn void tt_test_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Ends the test as skipped. Never returns.
_Noreturn void tt_test_skip(const char *reason);

#define TT_TEST_DEFINE(id, limit, only)                                        \
    static void test_##id(void);                                               \
    __attribute__((constructor)) static void register_##id(void)               \
    {                                                                          \
        static tt_test test = {#id, __FILE__, test_##id, limit, only, NULL};   \
        tt_test_register(&test);                                               \
    }                                                                          \
    static void test_##id(void)

// A test that takes seconds at most; the deadline is a minute.
#define TEST(id) TT_TEST_DEFINE(id, 60, false)

// A test with its own deadline, in seconds.
#define TEST_SLOW(id, seconds) TT_TEST_DEFINE(id, seconds, false)

// A test that only `make test-all` runs; the deadline is half an hour.
#define TEST_ALL(id) TT_TEST_DEFINE(id, 1800, true)

#define CHECK(cond)                                                            \
    do {                                                                       \
        if (!(cond))                                                           \
            tt_test_fail(__FILE__, __LINE__, "not so: %s", #cond);             \
    } while (0)

// CHECK with a printf-style explanation.
#define CHECK_MSG(cond, ...)                                                   \
    do {                                                                       \
        if (!(cond))                                                           \
            tt_test_fail(__FILE__, __LINE__, __VA_ARGS__);                     \
    } while (0)

// The call returns TT_OK; otherwise its message is shown.
#define CHECK_OK(call)                                                         \
    do {                                                                       \
        const tt_status status_ = (call);                                      \
        if (status_ != TT_OK)                                                  \
            tt_test_fail(__FILE__, __LINE__, "%s: %s", #call,                  \
                         tt_error_message());                                  \
    } while (0)

// |a - b| <= tol * max(1, |b|); a NaN on either side fails.
#define CHECK_CLOSE(a, b, tol)                                                 \
    do {                                                                       \
        const double got_ = (double)(a);                                       \
        const double want_ = (double)(b);                                      \
        if (!(fabs(got_ - want_) <= (double)(tol)*fmax(1.0, fabs(want_))))     \
            tt_test_fail(__FILE__, __LINE__, "%s is %.17g, not %s = %.17g",    \
                         #a, got_, #b, want_);                                 \
    } while (0)

#define SKIP(reason) tt_test_skip(reason)

#endif
