// Messages: recorded per thread, prefixed in place, never overrun.

#include "base/status.h"
#include "test.h"

#include <pthread.h>
#include <string.h>

TEST(fail_records_the_message_and_returns_the_code)
{
    CHECK(tt_fail(TT_ERR_IO, "%s: %d", "file", 3) == TT_ERR_IO);
    CHECK(strcmp(tt_error_message(), "file: 3") == 0);
}

TEST(context_goes_in_front)
{
    tt_fail(TT_ERR_ARG, "bad shape");
    CHECK(tt_fail_context(TT_ERR_ARG, "node %d", 7) == TT_ERR_ARG);
    CHECK(strcmp(tt_error_message(), "node 7: bad shape") == 0);
}

TEST(the_old_message_may_be_an_argument)
{
    tt_fail(TT_ERR_ARG, "inner");
    tt_fail(TT_ERR_ARG, "outer (%s)", tt_error_message());
    CHECK(strcmp(tt_error_message(), "outer (inner)") == 0);
}

TEST(long_messages_are_cut)
{
    static char text[10000];
    memset(text, 'x', sizeof(text) - 1);
    tt_fail(TT_ERR_ARG, "%s", text);
    tt_fail_context(TT_ERR_ARG, "%s", text);
    CHECK(strlen(tt_error_message()) < sizeof(text));
    CHECK(strlen(tt_error_message()) > 1000);
}

static void *fail_elsewhere(void *arg)
{
    tt_fail(TT_ERR_PEER, "other thread");
    return arg;
}

TEST(messages_are_per_thread)
{
    pthread_t thread;
    tt_fail(TT_ERR_ARG, "mine");
    CHECK(pthread_create(&thread, NULL, fail_elsewhere, NULL) == 0);
    pthread_join(thread, NULL);
    CHECK(strcmp(tt_error_message(), "mine") == 0);
}

static tt_status try_it(tt_status inner, bool *reached)
{
    TT_TRY(inner);
    *reached = true;
    return TT_OK;
}

TEST(try_passes_failures_up)
{
    bool reached = false;
    CHECK(try_it(TT_ERR_TIMEOUT, &reached) == TT_ERR_TIMEOUT && !reached);
    CHECK(try_it(TT_OK, &reached) == TT_OK && reached);
}

TEST(every_status_has_a_name)
{
    for (int code = TT_ERR_STATE; code <= TT_OK; code++)
        CHECK(strcmp(tt_status_name((tt_status)code), "unknown status") != 0);
    CHECK(strcmp(tt_status_name((tt_status)-99), "unknown status") == 0);
}
