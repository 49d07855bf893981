// status - the message of the last failure, one buffer per thread.
//
// Codes travel as return values, sentences through this buffer. Nothing is allocated,
// so "out of memory" can be reported too. A message of another thread must be copied
// by hand (the wire and the loader do that).

#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_BYTES = 2048 };

static _Thread_local char message[MESSAGE_BYTES];

// The arguments may point into `message` itself, hence the copy.
__attribute__((format(printf, 1, 0))) static void
record(const char *fmt, va_list args, const char *tail)
{
    char text[MESSAGE_BYTES];
    int n = vsnprintf(text, sizeof(text), fmt, args);
    if (n < 0)
        n = 0;
    if (n < MESSAGE_BYTES && tail[0] != '\0')
        snprintf(text + n, sizeof(text) - (size_t)n, ": %s", tail);
    memcpy(message, text, sizeof(text));
    message[MESSAGE_BYTES - 1] = '\0';
}

tt_status tt_fail(tt_status code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    record(fmt, args, "");
    va_end(args);
    return code;
}

tt_status tt_fail_context(tt_status code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    record(fmt, args, message);
    va_end(args);
    return code;
}

const char *tt_error_message(void)
{
    return message;
}

const char *tt_status_name(tt_status code)
{
    static const char *const names[] = {
        "ok",           "bad argument",        "out of memory", "not supported",
        "input/output", "another rank failed", "timeout",       "wrong state",
    };
    const int i = -(int)code;
    if (i < 0 || i >= (int)(sizeof(names) / sizeof(names[0])))
        return "unknown status";
    return names[i];
}
