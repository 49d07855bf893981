// progress_parts - shared by the files of the progress display. Internal.

#ifndef TT_CLI_PROGRESS_PROGRESS_PARTS_H
#define TT_CLI_PROGRESS_PROGRESS_PARTS_H

#include "cli/progress/progress.h"
#include "cli/spark.h"
#include "cli/term.h"
#include "train/ranks.h"

// What the live lines show.
typedef struct tt_live {
    char unit[32];
    int64_t step, steps, first_step;
    double loss;        // of the last step
    double val;         // NaN: none yet
    tt_run_point point; // the last one
    bool has_point;
    double started, pointed_at; // tt_clock_seconds
    tt_spark spark;
    bool is_drawn;
    int width; // of the terminal when they were drawn
} tt_live;

// Appends the escape sequences that go back to the first live line and clear from
// there; nothing when no live lines are on the screen.
void tt__live_clear(tt_live *live, int width, tt_str *out);

// Appends both lines, over those on the screen. The cursor stays at the end of the
// second.
void tt__live_draw(tt_live *live, const tt_term *term, double now, tt_str *out);

// Text that stays, wrapped at words to `width` columns; 0: no limit.
void tt__progress_text_facts(const tt_term *term, const tt_run_facts *facts,
                             int width, tt_str *out);
void tt__progress_text_first(double loss, int64_t steps, int width,
                             tt_str *out);
void tt__progress_text_point(const tt_run_point *point, const char *unit,
                             tt_str *out);
void tt__progress_text_eval(const tt_term *term, const tt_run_eval *eval,
                            int64_t steps, int width, tt_str *out);
typedef struct tt_told {
    tt_run_text kind;
    int64_t step;
    const char *text;
} tt_told;
void tt__progress_text_note(const tt_term *term, const tt_told *told, int width,
                            tt_str *out);
void tt__progress_text_end(const tt_term *term, const tt_run_end *end,
                           const tt_live *live, int width, tt_str *out);
void tt__progress_text_ranks(const tt_term *term, const tt_ranks *ranks,
                             int width, tt_str *out);
void tt__progress_text_pipe(const tt_term *term,
                            const struct tt_ranks_pipe *pipe, int width,
                            tt_str *out);
void tt__progress_text_workers(const tt_term *term,
                               const struct tt_workers *workers, int width,
                               tt_str *out);
// Restores the curve and the last evaluation of a run that is resumed, from its
// metrics.
void tt__live_take_up(tt_live *live, const char *folder);

#endif
