#include "runs_describe.h"

#include "base/file.h"
#include "store/events.h"
#include "store/hash.h"
#include "test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Leaves out the values of keys that hold times.
void runs_metrics(const char *folder, tt_str *out)
{
    char path[512];
    tt_str text = {0};
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    CHECK_OK(tt_file_read(path, 1 << 20, &text));
    for (char *p = text.text; p != NULL && *p != '\0';) {
        const size_t n = strcspn(p, ",}");
        char *second = strstr(p, "second");
        if (second == NULL || second > p + n)
            tt_str_add_bytes(out, p, (int64_t)n);
        p += n;
        if (*p != '\0')
            tt_str_add_bytes(out, p++, 1);
    }
    tt_str_fini(&text);
}

// A tag and, unless it is a time, its bytes.
static void add_value(const unsigned char *p, int64_t n, tt_str *out)
{
    const int64_t tag = n > 2 && p[0] == 0x0a && p[1] < 128 ? p[1] : 0;
    CHECK(tag > 0 && 2 + tag <= n);
    tt_str_addf(out, " %.*s", (int)tag, (const char *)p + 2);
    if (memmem(p + 2, (size_t)tag, "second", 6) != NULL)
        return;
    tt_str_add(out, "=");
    if (memcmp(p + 2, "_hparams_", 9) == 0) // they end with a time
        n -= 8;
    for (int64_t i = 2 + tag; i < n; i++)
        tt_str_addf(out, "%02x", p[i]);
}

static void add_event(const tt_event_record *e, tt_str *out)
{
    const unsigned char *p = (const unsigned char *)e->record + 12 + 9;
    const unsigned char *end = (const unsigned char *)e->record + e->bytes - 4;
    tt_str_addf(out, "event %lld", (long long)e->step);
    while (p < end && *p != 0x2a) // the step
        p++;
    for (p++; p < end && *p >= 128; p++) // its length
        ;
    for (p++; p + 2 <= end && *p == 0x0a;) {
        int64_t n = p[1] & 127, head = 2;
        if (p[1] >= 128)
            n |= (int64_t)p[head++] << 7;
        CHECK(p + head + n <= end);
        add_value(p + head, n, out);
        p += head + n;
    }
    tt_str_add(out, "\n");
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void add_file(const char *folder, const char *name, bool is_text,
                     tt_str *out)
{
    char path[1024], hash[TT_HASH_CHARS];
    tt_str text = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!tt_file_exists(path))
        return;
    CHECK_OK(tt_file_read(path, 1 << 26, &text));
    tt_hash_text(tt_str_text(&text), text.n, hash);
    tt_str_addf(out, "%s %s\n", name, is_text ? tt_str_text(&text) : hash);
    tt_str_fini(&text);
}

static void add_events(const char *folder, tt_str *out)
{
    struct dirent **list = NULL;
    const int n = scandir(folder, &list, NULL, by_name);
    int n_files = 0;
    for (int i = 0; i < n; i++) {
        char path[1024];
        tt_str text = {0};
        tt_event_record e;
        snprintf(path, sizeof path, "%s/%s", folder, list[i]->d_name);
        if (strncmp(list[i]->d_name, "events.", 7) == 0) {
            n_files++;
            CHECK_OK(tt_file_read(path, 1 << 26, &text));
            for (int64_t at = 0;
                 tt_events_next(tt_str_text(&text) + at, text.n - at, &e);
                 at += e.bytes)
                if (e.kind == TT_EVENT_SUMMARY)
                    add_event(&e, out);
        }
        tt_str_fini(&text);
        free(list[i]);
    }
    free(list);
    tt_str_addf(out, "%d files of events\n", n_files);
}

void runs_describe(const char *folder, tt_str *out)
{
    struct dirent **list = NULL;
    char store[512], path[1024];
    runs_metrics(folder, out);
    add_events(folder, out);
    snprintf(store, sizeof store, "%s/checkpoints", folder);
    add_file(store, "best", true, out);
    add_file(store, "latest", true, out);
    const int n = scandir(store, &list, NULL, by_name);
    for (int i = 0; i < n; i++) {
        const char *name = list[i]->d_name;
        if (strncmp(name, "step-", 5) == 0 || strncmp(name, ".tmp", 4) == 0) {
            snprintf(path, sizeof path, "%s/%s", store, name);
            tt_str_addf(out, "%s\n", name);
            add_file(path, "model.safetensors", false, out);
            add_file(path, "optim.safetensors", false, out);
        }
        free(list[i]);
    }
    free(list);
    CHECK_OK(tt_str_status(out));
}
