// Numbers for people.

#include "base/figures.h"
#include "test.h"

#include <string.h>

TEST(figures_of_bytes_have_decimal_units)
{
    static const struct {
        int64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {999, "999 B"},
        {1000, "1.00 kB"},
        {1536, "1.54 kB"},
        {80000000000, "80.0 GB"},
        {999600, "1.00 MB"},
        {3000000000000, "3.00 TB"},
        {(int64_t)4 << 60, "4.61 EB"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tt_str s = {0};
        tt_add_bytes(&s, cases[i].bytes);
        CHECK_MSG(strcmp(tt_str_text(&s), cases[i].text) == 0, "%s",
                  tt_str_text(&s));
        tt_str_fini(&s);
    }
}

TEST(figures_are_grouped)
{
    tt_str s = {0};
    tt_add_grouped(&s, 12460889600);
    tt_str_add(&s, " ");
    tt_add_grouped(&s, -999);
    tt_str_add(&s, " ");
    tt_add_count(&s, 26400);
    CHECK_MSG(strcmp(tt_str_text(&s), "12,460,889,600 -999 26.4 k") == 0, "%s",
              tt_str_text(&s));
    tt_str_fini(&s);
}
