// runner.h - what the files of the test runner share.

#ifndef TT_TESTS_RUNNER_H
#define TT_TESTS_RUNNER_H

#include "test.h"

// Status of a test process, C or script, that was skipped; the last line it
// printed is the reason.
enum { TT_TEST_SKIPPED = 77 };

// Registers every *.sh file in `folder` as a test. A comment line
// `# deadline: SECONDS` or `# only: all` within the first ten lines changes what
// TEST gives. Nothing happens if there is no such folder.
void tt_test_add_scripts(const char *folder);

#endif
