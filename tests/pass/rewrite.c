// rewrite - see the header.

#include "pass/rewrite.h"

#include "base/alloc.h"
#include "ops/ops.h"
#include "pass/pass.h"
#include "test.h"

#include <string.h>

static char *copy_text(const char *text)
{
    char *copy = tt_alloc((int64_t)strlen(text) + 1);
    memcpy(copy, text, strlen(text) + 1);
    for (char *c = copy; *c != '\0'; c++)
        *c = (char)(*c == '\'' ? '"' : *c);
    return copy;
}

tt_graph *rewrite_parse(const char *text)
{
    tt_graph *g = NULL;
    char *quoted = copy_text(text);
    CHECK_OK(tt_graph_parse(quoted, tt_op_find, &g));
    tt_free(quoted);
    return g;
}

tt_graph *rewrite(const char *pass, const void *params, const char *text)
{
    tt_graph *g = rewrite_parse(text), *made = NULL;
    const tt_status status =
        tt_pass_apply(tt_pass_find(pass), params, g, &made);
    tt_graph_destroy(g);
    CHECK((status == TT_OK) == (made != NULL));
    return made;
}

void rewrite_check(const char *pass, const void *params, const char *text,
                   const char *want)
{
    tt_graph *g = rewrite(pass, params, text);
    CHECK_MSG(g != NULL, "%s", tt_error_message());
    tt_str out = {0};
    char *quoted = copy_text(want);
    tt_graph_print(g, &out);
    CHECK_MSG(strcmp(tt_str_text(&out), quoted) == 0, "%s makes\n%s", pass,
              tt_str_text(&out));
    tt_free(quoted);
    tt_str_fini(&out);
    tt_graph_destroy(g);
}
