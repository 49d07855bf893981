// sites - conditions on sites that the kernels of several backends share.

#ifndef TT_BACKEND_SITES_H
#define TT_BACKEND_SITES_H

#include "graph/site.h"

// Whether no operand that is read or written is in a layout of the backend.
bool tt__site_is_plain(const tt_site *site);

// Whether the operands of a plain site have these types, a character each: x for
// f32 or bf16, t for the type of input 0 (f32 or bf16), y and s likewise with f16
// too, f for f32, b for bf16, i for i32, I for i64, u for u8. The last character
// stands for all operands from there on; absent inputs have any type.
bool tt__site_has_types(const tt_site *site, const char *in, const char *out);
// The same for operands in any layout.
bool tt__site_has_types_in_layouts(const tt_site *site, const char *in,
                                   const char *out);

// Input 0 as a matrix: its last dimension is the columns.
int64_t tt__site_rows(const tt_site *site);
int64_t tt__site_cols(const tt_site *site);

// Whether entries i of dim d have the global indices first + i.
bool tt__is_run(const tt_local *local, int d, int64_t *first_out);

// Whether they are one such run or two: entries from `turn` on are `gap` further on.
typedef struct tt__site_runs {
    int64_t first, turn, gap; // gap 0: one run
} tt__site_runs;
bool tt__are_runs(const tt_local *local, int d, tt__site_runs *runs_out);

#endif
