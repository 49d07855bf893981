// plan_show - a survey for people, and as JSON.

#ifndef TT_CLI_PLANNING_PLAN_SHOW_H
#define TT_CLI_PLANNING_PLAN_SHOW_H

#include "base/json.h"
#include "job/survey.h"

// What to show: weights and collectives, or every value.
typedef enum tt_show { TT_SHOW_WEIGHTS, TT_SHOW_ALL } tt_show;

tt_status tt_show_plan(const tt_job *job, const tt_survey *survey, tt_show show,
                       tt_str *out);

// Adds members to an open object: placements, collectives, axes, the ranks' memory.
tt_status tt_show_plan_json(const tt_job *job, const tt_survey *survey,
                            tt_json *json);

// What ZeRO and recomputation would change: as a table, and as a member of an open
// object.
tt_status tt_show_trades(tt_job *job, tt_str *out);
tt_status tt_show_trades_json(tt_job *job, tt_json *json);

// The schedule of the job's stages. check() fails where there are none; the SVG goes to
// a file; of a job without stages the JSON has no member "pipe".
tt_status tt_show_schedule_check(const tt_job *job);
tt_status tt_show_schedule(const tt_job *job, tt_arena *arena, tt_str *out);
tt_status tt_show_schedule_svg(const tt_job *job, tt_arena *arena,
                               const char *path);
tt_status tt_show_schedule_json(const tt_job *job, tt_arena *arena,
                                tt_json *json);

#endif
