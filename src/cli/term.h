// term - what can be done with a file descriptor that people look at.

#ifndef TT_CLI_TERM_H
#define TT_CLI_TERM_H

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct tt_term {
    int fd;
    int own; // the same terminal, opened so that writing never waits; or -1
    bool is_live;   // a terminal whose cursor can be moved
    bool has_color; // and the user did not say NO_COLOR
    bool has_utf8;
    bool is_broken; // a write failed; later ones do nothing
    bool is_stuck;  // nobody reads it: what does not fit is left out
} tt_term;

typedef enum tt_style {
    TT_STYLE_NONE,
    TT_STYLE_DIM,
    TT_STYLE_BOLD,
    TT_STYLE_BAR,
    TT_STYLE_GOOD,
    TT_STYLE_WARNING,
} tt_style;

// Reads TERM, NO_COLOR and the locale's variables.
void tt_term_init(tt_term *term, int fd);
void tt_term_fini(tt_term *term);

int tt_term_width(const tt_term *term); // columns now; 80 where nobody knows

// Writes all of it with few system calls. Showing something is never a reason to stop:
// failure is remembered only, and one that nobody reads (a connection that hangs) is
// waited for once, some seconds, and then only written to when it has room.
void tt_term_write(tt_term *term, const tt_str *text);

// Appends the text between the escape sequences of the style.
void tt_term_add(const tt_term *term, tt_style style, const char *text,
                 tt_str *out);

// Appends text that came from somewhere else: control characters, which might be
// escape sequences, become '?', or blanks where they are space; line ends stay
// when `keep_lines`.
void tt_term_add_foreign(const char *text, bool keep_lines, tt_str *out);

// Writes `text` to a stream in that form, line ends kept.
void tt_term_print_foreign(FILE *stream, const char *text);

// Columns of UTF-8 text without escape sequences, one per code point.
int64_t tt_term_columns(const char *text);

#endif
