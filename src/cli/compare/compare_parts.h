// compare_parts - between cmd_compare.c, compare_ask.c and compare_check.c.

#ifndef TT_CLI_COMPARE_COMPARE_PARTS_H
#define TT_CLI_COMPARE_COMPARE_PARTS_H

#include "cli/compare/compare.h"

// Reads words and flags. Nothing is started or written.
tt_status tt__compare_ask(tt_cli *cli, tt_compare *out);

// Refuses what no run could work with, before any is started.
tt_status tt__compare_check(const tt_compare *c);

#endif
