// draw - pictures of a table: ranks against time.
//
//   rank 0  F0 F1 .........B0--- F2 B1--- ...B2---
//   rank 1  ...F0 B0--- F1 B1--- F2 B2--- .........
//
// Letters as in text.h, then the micro-batch; on ranks with several chunks F2.0 is chunk
// 2, micro-batch 0. Small letters are the second copy of the model. Dots are waiting.

#ifndef TT_PIPE_DRAW_H
#define TT_PIPE_DRAW_H

#include "pipe/measure.h"

typedef struct tt_pipe_look {
    int32_t width;  // columns; less than 40 counts as 40
    bool has_color; // escape sequences of terminals
} tt_pipe_look;

// One line per rank, then what the letters mean.
void tt_pipe_draw(const tt_pipe *p, const tt_pipe_times *times,
                  const tt_pipe_look *look, tt_str *out);

// Seconds, bubble and slots per rank, as a table of text.
void tt_pipe_draw_figures(const tt_pipe *p, const tt_pipe_times *times,
                          tt_str *out);

// A picture that needs no other file, light or dark as the reader's system is. Each row
// says what it is when it is pointed at.
void tt_pipe_draw_svg(const tt_pipe *p, const tt_pipe_times *times,
                      tt_str *out);

// Appends seconds in the unit that fits: "3.21 ms".
void tt_pipe_add_seconds(double seconds, tt_str *out);

#endif
