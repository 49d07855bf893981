// term - what can be done with a file descriptor that people look at.
//
// Rules for a program that runs for days: showing something never stops training,
// never waits for long (a connection may hang), and never lets text from files or
// models control the terminal.

#ifndef TT_CLI_TERM_H
#define TT_CLI_TERM_H

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct tt_term {
    int fd;
    // The same terminal, opened again without blocking; -1: not opened.
    int own;
    bool is_live;   // a terminal whose cursor can be moved
    bool has_color; // and NO_COLOR is not set
    bool has_utf8;
    bool is_broken; // a write failed; later ones do nothing
    bool is_stuck;  // nobody reads it: what does not fit is dropped
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

int tt_term_width(const tt_term *term); // columns now; 80 if unknown

// Writes everything with few system calls. A failure is only remembered. A terminal
// that nobody reads (a connection that hangs) is waited for once, some seconds; after
// that it is written to only when it has room.
void tt_term_write(tt_term *term, const tt_str *text);

// Appends the text in the style's colour.
void tt_term_add(const tt_term *term, tt_style style, const char *text,
                 tt_str *out);

// Appends text that came from elsewhere. Control characters, which might be escape
// sequences, become '?', or blanks if they are white space. Line ends stay if
// `keep_lines`.
void tt_term_add_foreign(const char *text, bool keep_lines, tt_str *out);

// Writes `text` to a stream in that form, with its line ends.
void tt_term_print_foreign(FILE *stream, const char *text);

// Columns of UTF-8 text without escape sequences, counted as one per code point.
int64_t tt_term_columns(const char *text);

#endif
