// fuzz_report - what a run left behind: the first line as its facts and its ranks, the
// rest as its metrics and its parent's, all of it as its notes; and compared with itself.

#include "fuzz/fuzz.h"
#include "store/report/report.h"

#include <string.h>

FUZZ(report)
{
    const char *text = (const char *)data;
    const char *end = n > 0 ? memchr(text, '\n', n) : NULL;
    const int64_t facts = end == NULL ? 0 : end - text;
    tt_report_files files = {.folder = "run"};
    tt_str out = {0};
    tt_str_add_bytes(&files.facts, text, facts);
    tt_str_add_bytes(&files.ranks, text, facts);
    tt_str_add_bytes(&files.metrics, text + facts, (int64_t)n - facts);
    tt_str_add_bytes(&files.log, text, (int64_t)n);
    tt_str_add_bytes(&files.parent_facts, text, facts);
    tt_str_add_bytes(&files.parent_metrics, text + facts, (int64_t)n - facts);
    (void)tt_report_page(&files, &out);
    const tt_report_compared run = {"a", "b", "c", files.metrics, files.facts};
    const tt_report_compared runs[] = {run, run};
    (void)tt_report_compare(&(tt_report_comparison){.n = 2, .run = runs}, &out);
    tt_str_fini(&files.parent_facts);
    tt_str_fini(&files.parent_metrics);
    tt_str_fini(&files.facts);
    tt_str_fini(&files.metrics);
    tt_str_fini(&files.log);
    tt_str_fini(&files.ranks);
    tt_str_fini(&out);
}
