// fuzz_events - what an earlier start of a run left, when the next one cuts it back:
// the bytes as TensorBoard's events, as metrics and as notes.

#include "fuzz/fuzz.h"
#include "store/run_parts.h"

FUZZ(events)
{
    tt_str text = {0}, kept = {0};
    tt_str_add_bytes(&text, (const char *)data, (int64_t)n);
    (void)tt__run_whole_events(tt_str_text(&text), text.n);
    (void)tt__run_whole_lines(tt_str_text(&text), text.n);
    tt__run_keep_events(&text, 10, &kept);
    tt__run_keep_metrics(&text, 10, &kept);
    tt__run_keep_log(&text, 10, &kept);
    tt_str_fini(&text);
    tt_str_fini(&kept);
}
