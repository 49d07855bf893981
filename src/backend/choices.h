// choices - what was measured on a device, kept from run to run: which algorithm is
// the fastest for a shape, say. Then later runs take the same and have the same bits.
//
// A file of lines "key TAB value", the last of which is a checksum. One that is torn
// or of somebody else counts as empty and is replaced; where nothing can be written,
// nothing is kept. Several processes may use a file: of one key the last that wrote wins.

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

// Keeps a value, in place of an older one, on disk too as far as that works; neither
// text is empty or has a tab or the end of a line.
void tt_choices_keep(tt_choices *choices, const char *key, const char *value);

#endif
