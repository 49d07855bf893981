// choices - what was measured on a device, kept from run to run: which algorithm is
// the fastest for a shape, for instance.
//
// The point is not only to save the time of measuring. A measurement may come out
// differently the next time; with the choice on disk, later runs take the same
// algorithm and have the same bits.
//
// A file that is torn or not ours counts as empty and is replaced. Where nothing can be
// written, nothing is kept. Several processes may use a file; the last value that was
// written for a key wins.

#ifndef TT_BACKEND_CHOICES_H
#define TT_BACKEND_CHOICES_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_choices tt_choices;

// What FOLDER/choices-NAME.txt has. `folder` NULL: no file, they live as long as this.
tt_status tt_choices_open(const char *folder, const char *name,
                          tt_choices **choices_out);
void tt_choices_close(tt_choices *choices); // NULL is fine

// The value of a key; NULL: unknown. Valid until the next call.
const char *tt_choices_find(tt_choices *choices, const char *key);

// Sets the value of a key, on disk too where that is possible. Neither text is empty,
// has a tab or has an end of line.
void tt_choices_keep(tt_choices *choices, const char *key, const char *value);

#endif
