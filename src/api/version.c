// version - which library is linked, and the message of its last error.

#include "base/status.h"
#include "graph/dtype.h"
#include "tutti/tutti.h"

#include <stdarg.h>
#include <stdio.h>

const char *tutti_version(void)
{
    return TUTTI_VERSION;
}

const char *tutti_error(void)
{
    return tt_error_message();
}

tutti_status tutti_fail(tutti_status status, const char *format, ...)
{
    char text[1024];
    va_list list;
    if (format == NULL) {
        (void)tt_fail((tt_status)status, "tutti_fail: format is NULL");
        return status;
    }
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    (void)tt_fail((tt_status)status, "%s", text);
    return status;
}

int64_t tutti_dtype_bytes(tutti_dtype dtype)
{
    return (unsigned)dtype < TT_N_DTYPES ? tt_dtype_bytes((tt_dtype)dtype) : 0;
}
