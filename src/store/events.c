// events - see events.h.
//
// TensorBoard's format is protocol buffers in records with checksums. The few
// messages that are needed are written by hand, field by field, so that no protobuf
// library is needed. This is what is written (field numbers of the .proto files):
//
//   u64 length | u32 masked CRC of it | message | u32 masked CRC of that
//   Event    wall_time 1: double, step 2: varint, file_version 3: string,
//            summary 5: message, session_log 7: message
//   Summary  value 1: message { tag 1: string, simple_value 2: float,
//            tensor 8: message, metadata 9: message }
//   tensor   type 1: varint, shape 2: { dimension 2: { size 1: varint } },
//            string 8: bytes
//   metadata plugin 1: { name 1: string, content 2: bytes }; the content of hparams is
//            { start 3: { settings 1: map, seconds 5: double },
//              end 4: { status 1: varint, seconds 2: double } }; a map's entry is
//            { key 1: string, value 2: { number 2: double, string 3, truth 4 } }

#include "store/events.h"

#include "base/utf8.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 8, CRC = 4, FRAME = LENGTH + CRC + CRC };

enum { // tags of fields: number << 3 | wire type
    EVENT_WALL = 1 << 3 | 1,
    EVENT_STEP = 2 << 3,
    EVENT_VERSION = 3 << 3 | 2,
    EVENT_SUMMARY = 5 << 3 | 2,
    EVENT_SESSION = 7 << 3 | 2,
    SUMMARY_VALUE = 1 << 3 | 2,
    VALUE_TAG = 1 << 3 | 2,
    VALUE_FLOAT = 2 << 3 | 5,
    VALUE_TENSOR = 8 << 3 | 2,
    VALUE_METADATA = 9 << 3 | 2,
    TENSOR_TYPE = 1 << 3,
    TENSOR_SHAPE = 2 << 3 | 2,
    TENSOR_STRING = 8 << 3 | 2,
    SHAPE_DIM = 2 << 3 | 2,
    DIM_SIZE = 1 << 3,
    TYPE_FLOAT = 1,
    TYPE_STRING = 7,
    METADATA_PLUGIN = 1 << 3 | 2,
    PLUGIN_NAME = 1 << 3 | 2,
    PLUGIN_CONTENT = 2 << 3 | 2,
    HPARAMS_START = 3 << 3 | 2,
    HPARAMS_END = 4 << 3 | 2,
    START_SETTING = 1 << 3 | 2,
    START_SECONDS = 5 << 3 | 1,
    END_STATUS = 1 << 3,
    END_SECONDS = 2 << 3 | 1,
    STATUS_GOOD = 1,
    STATUS_BAD = 2,
    ENTRY_KEY = 1 << 3 | 2,
    ENTRY_VALUE = 2 << 3 | 2,
    IS_NUMBER = 2 << 3 | 1,
    IS_TEXT = 3 << 3 | 2,
    IS_TRUTH = 4 << 3,
    SESSION_STATUS = 1 << 3,
    SESSION_START = 1,
};

uint32_t tt_crc32c(const void *bytes, int64_t n)
{
    const unsigned char *p = bytes;
    uint32_t crc = 0xffffffffU;
    for (int64_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78U : 0);
    }
    return ~crc;
}

// The CRC as files hold it. TensorFlow masks it, because a CRC of data that contain
// CRCs is weak.
static uint32_t masked(const void *bytes, int64_t n)
{
    const uint32_t crc = tt_crc32c(bytes, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

// ---- writing -------------------------------------------------------------

static void add_fixed(tt_str *out, uint64_t value, int bytes)
{
    char text[8];
    for (int i = 0; i < bytes; i++)
        text[i] = (char)(value >> (8 * i) & 0xff);
    tt_str_add_bytes(out, text, bytes);
}

static void add_varint(tt_str *out, uint64_t value)
{
    for (; value > 127; value >>= 7)
        add_fixed(out, (value & 127) | 128, 1);
    add_fixed(out, value, 1);
}

static void add_text(tt_str *out, uint64_t field, const char *text, int64_t n)
{
    add_varint(out, field);
    add_varint(out, (uint64_t)n);
    tt_str_add_bytes(out, text, n);
}

static void add_str(tt_str *out, uint64_t field, const tt_str *text)
{
    if (tt_str_status(text) != TT_OK)
        out->status = text->status;
    add_text(out, field, tt_str_text(text), text->n);
}

static void add_f64(tt_str *out, uint64_t field, double value)
{
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(bits));
    add_varint(out, field);
    add_fixed(out, bits, 8);
}

static void add_f32(tt_str *out, uint64_t field, double value)
{
    const float f = (float)value;
    uint32_t bits = 0;
    memcpy(&bits, &f, sizeof(bits));
    add_varint(out, field);
    add_fixed(out, bits, 4);
}

static void add_record(tt_str *out, tt_str *message)
{
    tt_str frame = {0};
    add_fixed(&frame, (uint64_t)message->n, LENGTH);
    if (tt_str_status(&frame) == TT_OK && tt_str_status(message) == TT_OK) {
        add_fixed(&frame, masked(frame.text, LENGTH), CRC);
        tt_str_add_bytes(out, tt_str_text(&frame), frame.n);
        tt_str_add_bytes(out, message->text, message->n);
        add_fixed(out, masked(message->text, message->n), CRC);
    } else {
        out->status = TT_ERR_NOMEM;
    }
    tt_str_fini(&frame);
    tt_str_fini(message);
}

void tt_events_version(tt_str *out, double wall)
{
    static const char version[] = "brain.Event:2";
    tt_str event = {0};
    add_f64(&event, EVENT_WALL, wall);
    add_text(&event, EVENT_VERSION, version, (int64_t)strlen(version));
    add_record(out, &event);
}

void tt_events_restart(tt_str *out, double wall, int64_t step)
{
    static const char session[] = {SESSION_STATUS, SESSION_START};
    tt_str event = {0};
    add_f64(&event, EVENT_WALL, wall);
    add_varint(&event, EVENT_STEP);
    add_varint(&event, (uint64_t)step);
    add_text(&event, EVENT_SESSION, session, sizeof(session));
    add_record(out, &event);
}

void tt_events_scalars(tt_str *out, double wall, int64_t step,
                       const tt_metric *metrics, int n)
{
    tt_str event = {0}, summary = {0}, value = {0};
    for (int i = 0; i < n; i++) {
        const char *name = metrics[i].name;
        tt_str_clear(&value);
        add_text(&value, VALUE_TAG, name, (int64_t)strlen(name));
        add_f32(&value, VALUE_FLOAT, metrics[i].value);
        add_str(&summary, SUMMARY_VALUE, &value);
    }
    add_f64(&event, EVENT_WALL, wall);
    add_varint(&event, EVENT_STEP);
    add_varint(&event, (uint64_t)step);
    add_str(&event, EVENT_SUMMARY, &summary);
    add_record(out, &event);
    tt_str_fini(&value);
    tt_str_fini(&summary);
}

// ---- what other plugins show ---------------------------------------------

static void add_number(tt_str *out, uint64_t field, uint64_t value)
{
    add_varint(out, field);
    add_varint(out, value);
}

// Adds a message as a field of another one, and empties it.
static void add_message(tt_str *out, uint64_t field, tt_str *message)
{
    add_str(out, field, message);
    tt_str_clear(message);
}

typedef struct plugged { // a summary's value for a plugin
    const char *tag, *plugin;
    tt_str tensor, content;
} plugged;

static void add_plugged(tt_str *out, double wall, int64_t step, plugged *p)
{
    tt_str inner = {0}, outer = {0}, value = {0}, event = {0};
    add_text(&value, VALUE_TAG, p->tag, (int64_t)strlen(p->tag));
    add_message(&value, VALUE_TENSOR, &p->tensor);
    add_text(&inner, PLUGIN_NAME, p->plugin, (int64_t)strlen(p->plugin));
    if (p->content.n > 0 || p->content.status != TT_OK)
        add_message(&inner, PLUGIN_CONTENT, &p->content);
    add_message(&outer, METADATA_PLUGIN, &inner);
    add_message(&value, VALUE_METADATA, &outer);
    add_message(&outer, SUMMARY_VALUE, &value);
    add_f64(&event, EVENT_WALL, wall);
    add_number(&event, EVENT_STEP, (uint64_t)step);
    add_message(&event, EVENT_SUMMARY, &outer);
    add_record(out, &event);
    tt_str_fini(&inner);
    tt_str_fini(&outer);
    tt_str_fini(&value);
    tt_str_fini(&p->tensor);
    tt_str_fini(&p->content);
}

// One dimension; no `size` is 0.
static void add_shape(tt_str *tensor, int64_t size)
{
    tt_str dim = {0}, shape = {0};
    if (size > 0)
        add_number(&dim, DIM_SIZE, (uint64_t)size);
    add_message(&shape, SHAPE_DIM, &dim);
    add_message(tensor, TENSOR_SHAPE, &shape);
    tt_str_fini(&dim);
    tt_str_fini(&shape);
}

static void add_characters(tt_str *out, const char *text)
{
    for (int64_t left = (int64_t)strlen(text); left > 0;) {
        const int n = tt_utf8_read(text, left, NULL);
        if (n > 0)
            tt_str_add_bytes(out, text, n);
        else
            tt_str_add(out, "\xef\xbf\xbd");
        text += n > 0 ? n : 1;
        left -= n > 0 ? n : 1;
    }
}

void tt_events_text(tt_str *out, double wall, int64_t step,
                    const tt_report_row *text)
{
    plugged p = {.tag = text->name, .plugin = "text"};
    tt_str clean = {0};
    add_characters(&clean, text->value);
    add_number(&p.tensor, TENSOR_TYPE, TYPE_STRING);
    add_shape(&p.tensor, 1);
    add_message(&p.tensor, TENSOR_STRING, &clean);
    add_plugged(out, wall, step, &p);
    tt_str_fini(&clean);
}

// A setting as a number, a truth value or a text, whatever its text looks like.
static void add_value(tt_str *out, const char *text)
{
    char *end = NULL;
    const double number = strtod(text, &end);
    const bool is_true = strcmp(text, "true") == 0;
    if (is_true || strcmp(text, "false") == 0)
        add_number(out, IS_TRUTH, is_true);
    else if (end != text && *end == '\0' && isfinite(number))
        add_f64(out, IS_NUMBER, number);
    else {
        tt_str clean = {0};
        add_characters(&clean, text);
        add_message(out, IS_TEXT, &clean);
        tt_str_fini(&clean);
    }
}

static void add_hparams(tt_str *out, double wall, int64_t step, plugged *p)
{
    p->plugin = "hparams";
    add_number(&p->tensor, TENSOR_TYPE, TYPE_FLOAT);
    add_shape(&p->tensor, 0);
    add_plugged(out, wall, step, p);
}

void tt_events_settings(tt_str *out, double wall, const tt_report_row *settings)
{
    plugged p = {.tag = "_hparams_/session_start_info"};
    tt_str start = {0}, entry = {0}, value = {0};
    for (; settings != NULL && settings->name != NULL; settings++) {
        add_text(&entry, ENTRY_KEY, settings->name,
                 (int64_t)strlen(settings->name));
        add_value(&value, settings->value);
        add_message(&entry, ENTRY_VALUE, &value);
        add_message(&start, START_SETTING, &entry);
    }
    add_f64(&start, START_SECONDS, wall);
    add_message(&p.content, HPARAMS_START, &start);
    add_hparams(out, wall, 0, &p);
    tt_str_fini(&start);
    tt_str_fini(&entry);
    tt_str_fini(&value);
}

void tt_events_end(tt_str *out, double wall, int64_t step, bool is_good)
{
    plugged p = {.tag = "_hparams_/session_end_info"};
    tt_str end = {0};
    add_number(&end, END_STATUS, is_good ? STATUS_GOOD : STATUS_BAD);
    add_f64(&end, END_SECONDS, wall);
    add_message(&p.content, HPARAMS_END, &end);
    add_hparams(out, wall, step, &p);
    tt_str_fini(&end);
}

// ---- reading -------------------------------------------------------------

typedef struct cursor {
    const unsigned char *at, *end;
    bool is_bad;
} cursor;

static uint64_t read_fixed(const void *bytes, int n)
{
    const unsigned char *p = bytes;
    uint64_t value = 0;
    for (int i = 0; i < n; i++)
        value |= (uint64_t)p[i] << (8 * i);
    return value;
}

static uint64_t read_varint(cursor *c)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (c->at == c->end)
            break;
        const unsigned char byte = *c->at++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return value;
    }
    c->is_bad = true;
    return 0;
}

static void skip(cursor *c, uint64_t n)
{
    if (n > (uint64_t)(c->end - c->at))
        c->is_bad = true;
    else
        c->at += n;
}

// Finds step and kind and skips all other fields; false: this is no message.
static bool read_message(const char *text, int64_t n, tt_event_record *event)
{
    cursor c = {(const unsigned char *)text, (const unsigned char *)text + n,
                false};
    while (c.at < c.end && !c.is_bad) {
        const uint64_t field = read_varint(&c);
        if (field == EVENT_STEP) {
            event->step = (int64_t)read_varint(&c);
            continue;
        }
        if (field == EVENT_SUMMARY)
            event->kind = TT_EVENT_SUMMARY;
        switch (field & 7) {
        case 0:
            (void)read_varint(&c);
            break;
        case 1:
            skip(&c, 8);
            break;
        case 2:
            skip(&c, read_varint(&c));
            break;
        case 5:
            skip(&c, 4);
            break;
        default:
            c.is_bad = true;
        }
    }
    return !c.is_bad;
}

bool tt_events_next(const char *text, int64_t n, tt_event_record *out)
{
    if (n < FRAME)
        return false;
    const uint64_t length = read_fixed(text, LENGTH);
    if (length > (uint64_t)(n - FRAME))
        return false;
    const char *message = text + LENGTH + CRC;
    if (masked(text, LENGTH) != read_fixed(text + LENGTH, CRC) ||
        masked(message, (int64_t)length) != read_fixed(message + length, CRC))
        return false;
    tt_event_record event = {.record = text, .bytes = (int64_t)length + FRAME};
    if (!read_message(message, (int64_t)length, &event))
        return false;
    *out = event;
    return true;
}
