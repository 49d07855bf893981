// json - see json.h. Numbers are the shortest text that reads back the same. Control
// characters are escaped, also those above 0x7f, since a file may be shown in a
// terminal and they are commands to it.

#include "base/json.h"

#include <math.h>
#include <stddef.h>

static void add_escaped(tt_str *out, const char *text)
{
    tt_str_add(out, "\"");
    for (const char *p = text; *p != '\0'; p++) {
        const unsigned char c = (unsigned char)*p;
        const unsigned char next = (unsigned char)p[1];
        if (c == '"' || c == '\\')
            tt_str_addf(out, "\\%c", c);
        else if (c == '\n')
            tt_str_add(out, "\\n");
        else if (c == '\t')
            tt_str_add(out, "\\t");
        else if (c < 0x20 || c == 0x7f)
            tt_str_addf(out, "\\u%04x", c);
        else if (c == 0xc2 && next >= 0x80 && next < 0xa0)
            tt_str_addf(out, "\\u%04x", *(const unsigned char *)++p);
        else // the codes above stand for commands to a terminal, in UTF-8
            tt_str_add_bytes(out, p, 1);
    }
    tt_str_add(out, "\"");
}

static void begin(tt_json *j, const char *key)
{
    if (j->needs_comma)
        tt_str_add(j->out, j->is_compact ? "," : ", ");
    j->needs_comma = true;
    if (key == NULL)
        return;
    add_escaped(j->out, key);
    tt_str_add(j->out, j->is_compact ? ":" : ": ");
}

void tt_json_open(tt_json *j, const char *key, char bracket)
{
    begin(j, key);
    tt_str_add_bytes(j->out, &bracket, 1);
    j->needs_comma = false;
}

void tt_json_close(tt_json *j, char bracket)
{
    tt_str_add_bytes(j->out, &bracket, 1);
    j->needs_comma = true;
}

void tt_json_str(tt_json *j, const char *key, const char *value)
{
    begin(j, key);
    if (value == NULL)
        tt_str_add(j->out, "null");
    else
        add_escaped(j->out, value);
}

void tt_json_i64(tt_json *j, const char *key, int64_t value)
{
    begin(j, key);
    tt_str_addf(j->out, "%lld", (long long)value);
}

void tt_json_f64(tt_json *j, const char *key, double value)
{
    begin(j, key);
    if (isfinite(value))
        tt_str_add_f64(j->out, value);
    else
        tt_str_add(j->out, "null");
}

void tt_json_real(tt_json *j, const char *key, double value)
{
    tt_json_f64(j, key, value);
    if (isfinite(value) && value == floor(value) && fabs(value) < 1e15)
        tt_str_add(j->out, ".0");
}

void tt_json_bool(tt_json *j, const char *key, bool value)
{
    begin(j, key);
    tt_str_add(j->out, value ? "true" : "false");
}
