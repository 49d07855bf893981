// fuzz_pipe - tables of schedules. What is read is checked, timed and printed.

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "pipe/measure.h"
#include "pipe/text.h"

#include <stdlib.h>
#include <string.h>

FUZZ(pipe)
{
    tt_pipe *p = NULL, *again = NULL;
    tt_str text = {0}, second = {0};
    if (tt_pipe_parse((const char *)data, (int64_t)n, "fuzz", &p) != TT_OK)
        return;
    if (tt_pipe_check(p, 1) == TT_OK) {
        tt_pipe_times *times = NULL;
        (void)tt_pipe_measure_even(p, &(tt_pipe_even){1, 1, 1}, &times);
        tt_pipe_times_destroy(times);
    }
    tt_pipe_print(p, &text);
    if (tt_str_status(&text) == TT_OK &&
        tt_pipe_parse(tt_str_text(&text), text.n, "again", &again) == TT_OK) {
        tt_pipe_print(again, &second);
        if (tt_str_status(&second) == TT_OK &&
            strcmp(tt_str_text(&text), tt_str_text(&second)) != 0)
            abort();
    }
    tt_pipe_destroy(p);
    tt_pipe_destroy(again);
    tt_str_fini(&text);
    tt_str_fini(&second);
}
