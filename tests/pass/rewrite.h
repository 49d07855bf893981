// rewrite - graphs as text, through a pass. Text has ' where that of a graph has ".

#ifndef TT_TESTS_PASS_REWRITE_H
#define TT_TESTS_PASS_REWRITE_H

#include "graph/graph.h"

tt_graph *rewrite_parse(const char *text);

// What the pass makes of the graph; NULL: it refuses, with its sentence.
tt_graph *rewrite(const char *pass, const void *params, const char *text);

// Fails unless the pass makes this text of the graph.
void rewrite_check(const char *pass, const void *params, const char *text,
                   const char *want);

#endif
