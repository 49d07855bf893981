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

// The message of one record, between its frame's 12 and 4 bytes.
static bool has_hex(const tt_str *s, const char *hex)
{
    char text[1024] = "";
    CHECK(s->n < 500);
    for (int64_t i = 0; i < s->n; i++)
        snprintf(text + 2 * i, 3, "%02x", (unsigned char)s->text[i]);
    return strstr(text, hex) != NULL;
}

// Bytes of the `tensorboard` package: Summary.Value{tag: "s", a string, plugin "text"}.
TEST(events_of_text_are_what_tensorboard_writes)
{
    tt_str s = {0};
    tt_events_text(&s, 2.0, 300, &(tt_report_row){"s", "hi"});
    CHECK(has_hex(&s,
                  "09000000000000004010ac02" // wall time, step
                  "2a1d0a1b"                 // summary, value
                  "0a0173420c0807120412020801420268694a080a060a0474657874"));
    tt_event_record event;
    CHECK(tt_events_next(s.text, s.n, &event));
    CHECK(event.kind == TT_EVENT_SUMMARY && event.step == 300);
    tt_str_clear(&s);
    tt_events_text(&s, 1, 1, &(tt_report_row){"s", "a\xff\xc3\xbc"});
    CHECK(has_hex(&s, "61efbfbdc3bc"));
    tt_str_fini(&s);
    CHECK(tt_alloc_live() == 0);
}

// HParamsPluginData: {a: "x", b: true, lr: 0.5} begun at 1.5 s; ended well at 2.5 s.
TEST(events_of_settings_are_what_the_hparams_plugin_reads)
{
    tt_str s = {0};
    const tt_report_row settings[] = {
        {"b", "true"}, {"lr", "0.5"}, {"a", "x"}, {NULL, NULL}};
    tt_events_settings(&s, 1.5, settings);
    CHECK(has_hex(&s, "0a1c5f68706172616d735f2f73657373696f6e5f73746172745f696e"
                      "666f"
                      "4206080112021200" // a tensor of nothing
                      "4a3c0a3a0a0768706172616d73122f"
                      "1a2d0a070a016212022001"
                      "0a0f0a026c72120911000000000000e03f"
                      "0a080a016112031a0178"
                      "29000000000000f83f"));
    tt_str_clear(&s);
    tt_events_end(&s, 2.5, 7, true);
    CHECK(has_hex(&s, "220b0801110000000000000440"));
    tt_str_clear(&s);
    tt_events_end(&s, 2.5, 7, false);
    CHECK(has_hex(&s, "220b0802110000000000000440"));
    tt_str_fini(&s);
    CHECK(tt_alloc_live() == 0);
}

TEST(events_are_read_back_and_damage_is_seen)
{
    tt_str s = {0};
    tt_event_record event;
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
