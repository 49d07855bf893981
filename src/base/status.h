// status - how every function says that it failed.
//
// A function returns TT_OK or one of the codes below. The first function that
// knows what went wrong calls tt_fail once, with one sentence that says what,
// where and what to do; callers pass the code up with TT_TRY. Outputs are
// written only on success. The message is kept per thread.

#ifndef TT_BASE_STATUS_H
#define TT_BASE_STATUS_H

typedef enum tt_status {
    TT_OK = 0,
    TT_ERR_ARG = -1,         // the caller asked for something impossible
    TT_ERR_NOMEM = -2,       // memory is exhausted, or the model does not fit
    TT_ERR_UNSUPPORTED = -3, // legal, but not on this machine or build
    TT_ERR_IO = -4,          // a file or device failed
    TT_ERR_PEER = -5,        // another rank failed
    TT_ERR_TIMEOUT = -6,     // a wait reached its deadline
    TT_ERR_STATE = -7,       // called at the wrong time, or a broken invariant
} tt_status;

// Records the message of the calling thread and returns `code`.
__attribute__((format(printf, 2, 3))) tt_status tt_fail(tt_status code,
                                                        const char *fmt, ...);

// Puts "prefix: " before the recorded message; returns `code` unchanged.
__attribute__((format(printf, 2, 3))) tt_status
tt_fail_context(tt_status code, const char *fmt, ...);

// The last message recorded by this thread; "" when there was none.
const char *tt_error_message(void);

const char *tt_status_name(tt_status code);

#define TT_TRY(call)                                                           \
    do {                                                                       \
        const tt_status tt_try_status = (call);                                \
        if (tt_try_status != TT_OK)                                            \
            return tt_try_status;                                              \
    } while (0)

#endif
