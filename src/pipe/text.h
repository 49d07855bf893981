// text - tables as text, for people and for `pipe.schedule=FILE`.
//
//   schedule 1f1b
//   ranks 2
//   chunks 2          of one copy of the model
//   micro 3           micro-batches per step
//   place 0 1         the rank of each chunk; then those of the second copy
//   slots 2 1
//   rank 0
//     F0.0:0< F0.1:1 B0.0:0< F0.2:0> B0.1:1 B0.2:0> U0.2<>
//   rank 1
//     F1.0:0< B1.0:0< F1.1:0 B1.1:0 F1.2:0> B1.2:0> U1.2<>
//
// A row is PHASE CHUNK . MICRO-BATCH : SLOT and then, where they are not 0, @ VERSION and
// + AHEAD; < marks the first of its step, > the last. Phases: F forward, B backward, I
// input gradient, W weight gradient, U update (it has no slot). A chunk of the second
// copy has a ': F1'.0:0. Rows of a rank may stand on any number of lines; # begins a
// comment. Other lines, before the first rank: `copies 2`, `steps N`, `rule
// flush|stash|double|predict`, `versions ...` per chunk, `bound N` (the order is decided
// at run time). What is left out is 1, flush, and place as chunk modulo ranks.
//
// With the line `fill`, slots, versions and marks are left out of the rows and filled in
// as the generators do it: so a table is written by hand.

#ifndef TT_PIPE_TEXT_H
#define TT_PIPE_TEXT_H

#include "pipe/pipe.h"

// tt_pipe_parse of the text gives an equal table.
void tt_pipe_print(const tt_pipe *p, tt_str *out);

// Reads `n` bytes called `name`; messages say name:line. The table is not checked yet:
// see tt_pipe_check.
tt_status tt_pipe_parse(const char *text, int64_t n, const char *name,
                        tt_pipe **pipe_out);
tt_status tt_pipe_read(const char *path, tt_pipe **pipe_out);

// Appends one row: "F0.1:1@2<".
void tt_pipe_print_row(const tt_pipe_row *row, tt_str *out);

#endif
