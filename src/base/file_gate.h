// file_gate - the gate that every file call passes, where tests make it fail and look
// on. Internal.

#ifndef TT_BASE_FILE_GATE_H
#define TT_BASE_FILE_GATE_H

#include "base/file.h"

#include <stdbool.h>

// Tells whoever records what was done; `fd` -1: the path says it all.
void tt__file_tell(tt_file_deed deed, int fd);

// Counts a call that writes; the error it is to fail with, TT_FILE_SHORT, or 0.
int tt__file_gate(void);
// The same for calls that cannot be short; sets errno.
bool tt__file_is_refused(void);
// What locking is to fail with, or 0.
int tt__file_lock_error(void);
// The same for calls that read.
bool tt__file_is_unread(void);

#endif
