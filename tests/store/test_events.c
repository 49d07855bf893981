// TensorBoard's records: the published bytes, and files that were damaged.

#include "base/alloc.h"
#include "store/events.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_hex(const tt_str *s, const char *hex)
{
    char text[512] = "";
    CHECK(s->n < 200);
    for (int64_t i = 0; i < s->n; i++)
        snprintf(text + 2 * i, 3, "%02x", (unsigned char)s->text[i]);
    return strcmp(text, hex) == 0;
}

TEST(events_crc32c_of_the_standard_text)
{
    CHECK(tt_crc32c("123456789", 9) == 0xe3069283U);
    CHECK(tt_crc32c("", 0) == 0);
}

TEST(events_are_the_published_bytes)
{
    tt_str s = {0};
    tt_events_version(&s, 1.0);
    CHECK(is_hex(&s, "1800000000000000a37f4b2209000000000000f03f1a0d62726169"
                     "6e2e4576656e743a3286bf577a"));
    tt_str_clear(&s);
    const tt_metric loss = {"train/loss", 2.5};
    tt_events_scalars(&s, 2.0, 300, &loss, 1);
    CHECK(is_hex(&s, "2100000000000000017becf609000000000000004010ac022a130a11"
                     "0a0a747261696e2f6c6f7373150000204019eb1e89"));
    tt_str_fini(&s);
    CHECK(tt_alloc_live() == 0);
}

TEST(events_are_read_back_and_damage_is_seen)
{
    tt_str s = {0};
    tt_event event;
    const tt_metric metrics[] = {{"a", (double)NAN}, {"b", 1e300}};
    tt_events_version(&s, 1);
    tt_events_restart(&s, 1, 7);
    tt_events_scalars(&s, 1, ((int64_t)1 << 62) + 5, metrics, 2);
    int64_t at = 0;
    CHECK(tt_events_next(s.text, s.n, &event));
    CHECK(event.kind == TT_EVENT_OTHER && event.step == 0);
    at += event.bytes;
    CHECK(tt_events_next(s.text + at, s.n - at, &event));
    CHECK(event.kind == TT_EVENT_OTHER && event.step == 7);
    at += event.bytes;
    CHECK(tt_events_next(s.text + at, s.n - at, &event));
    CHECK(event.kind == TT_EVENT_SUMMARY);
    CHECK(event.step == ((int64_t)1 << 62) + 5);
    CHECK(event.bytes == s.n - at && event.record == s.text + at);
    for (int64_t n = 0; n < event.bytes; n++)
        CHECK(!tt_events_next(s.text + at, n, &event));
    for (int64_t i = 0; i < (s.n - at) * 8; i++) {
        s.text[at + i / 8] ^= (char)(1 << i % 8);
        CHECK(!tt_events_next(s.text + at, s.n - at, &event));
        s.text[at + i / 8] ^= (char)(1 << i % 8);
    }
    tt_str_fini(&s);
}

TEST(events_survive_every_allocation_failure)
{
    const tt_metric loss = {"train/loss", 2.5};
    for (int64_t k = 1;; k++) {
        tt_str s = {0};
        tt_alloc_fail_at(k);
        tt_events_scalars(&s, 2.0, 300, &loss, 1);
        const bool is_done = tt_alloc_count() < k;
        tt_alloc_fail_at(0);
        CHECK((tt_str_status(&s) == TT_OK) == is_done);
        tt_str_fini(&s);
        CHECK(tt_alloc_live() == 0);
        if (is_done)
            break;
    }
}
