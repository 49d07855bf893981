// golden - texts that were looked at once and must not change by themselves.

#ifndef TT_TESTS_GOLDEN_H
#define TT_TESTS_GOLDEN_H

// `text` is what tests/golden/NAME.txt holds. It is written to build/NAME.txt, from
// where it can be copied after an intended change.
void golden_compare(const char *name, const char *text);

#endif
