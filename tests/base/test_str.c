// Growing text and the JSON written into it.

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

TEST(str_starts_empty_and_grows)
{
    tt_str s = {0};
    CHECK(strcmp(tt_str_text(&s), "") == 0);
    for (int i = 0; i < 1000; i++)
        tt_str_addf(&s, "%04d", i);
    CHECK(s.n == 4000 && strlen(s.text) == 4000);
    CHECK(memcmp(s.text + 3996, "0999", 4) == 0);
    tt_str_clear(&s);
    tt_str_add(&s, "");
    CHECK(s.n == 0 && s.text[0] == '\0' && tt_str_status(&s) == TT_OK);
    tt_str_add_bytes(&s, "a\0b", 3);
    CHECK(s.n == 3 && memcmp(s.text, "a\0b", 4) == 0);
    tt_str_fini(&s);
    CHECK(tt_alloc_live() == 0);
}

TEST(str_failure_is_sticky)
{
    tt_str s = {0};
    tt_str_add(&s, "kept");
    tt_alloc_fail_at(1);
    for (int i = 0; i < 100; i++)
        tt_str_add(&s, " more");
    tt_alloc_fail_at(0);
    CHECK(tt_str_status(&s) == TT_ERR_NOMEM);
    CHECK(strncmp(tt_str_text(&s), "kept", 4) == 0 && s.n < 64);
    tt_str_clear(&s);
    CHECK(tt_str_status(&s) == TT_OK);
    tt_str_fini(&s);
}

TEST(doubles_print_short_and_read_back)
{
    const double values[] = {0,       -0.0,    1,       0.1,      1e6,
                             1.0 / 3, DBL_MAX, DBL_MIN, 5e-324,   -2.5e-10,
                             6.02e23, 1 << 30, M_PI,    1e21 + 7, 100};
    for (int i = 0; i < (int)(sizeof(values) / sizeof(values[0])); i++) {
        tt_str s = {0};
        tt_str_add_f64(&s, values[i]);
        const double back = strtod(tt_str_text(&s), NULL);
        CHECK(memcmp(&back, &values[i], sizeof(back)) == 0);
        tt_str_fini(&s);
    }
    tt_str s = {0};
    tt_str_add_f64(&s, 0.1);
    tt_str_add(&s, " ");
    tt_str_add_f64(&s, 30);
    tt_str_add(&s, " ");
    tt_str_add_f64(&s, -999999999999999);
    tt_str_add(&s, " ");
    tt_str_add_f64(&s, 1e15);
    CHECK(strcmp(tt_str_text(&s), "0.1 30 -999999999999999 1e+15") == 0);
    tt_str_fini(&s);
}

TEST(json_puts_commas_and_escapes)
{
    tt_str s = {0};
    tt_json j = {.out = &s};
    tt_json_open(&j, NULL, '{');
    tt_json_str(&j, "a\"b", "x\\\n\t\001");
    tt_json_open(&j, "list", '[');
    tt_json_i64(&j, NULL, INT64_MIN);
    tt_json_f64(&j, NULL, 0.5);
    tt_json_f64(&j, NULL, (double)NAN);
    tt_json_open(&j, NULL, '{');
    tt_json_close(&j, '}');
    tt_json_close(&j, ']');
    tt_json_bool(&j, "yes", true);
    tt_json_str(&j, "none", NULL);
    tt_json_close(&j, '}');
    CHECK(strcmp(tt_str_text(&s),
                 "{\"a\\\"b\": \"x\\\\\\n\\t\\u0001\", \"list\": "
                 "[-9223372036854775808, 0.5, null, {}], \"yes\": true, "
                 "\"none\": null}") == 0);
    tt_str_fini(&s);
}

TEST(clock_does_not_go_back)
{
    const double first = tt_clock_seconds();
    double last = first;
    for (int i = 0; i < 1000; i++) {
        const double now = tt_clock_seconds();
        CHECK(now >= last);
        last = now;
    }
    CHECK(last - first < 10);
}
