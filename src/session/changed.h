// changed - the settings that somebody gave and that are not the defaults.

#ifndef TT_SESSION_CHANGED_H
#define TT_SESSION_CHANGED_H

#include "session/session.h"
#include "store/report/report.h"

// In the arena; ends with a NULL name. NULL: there is no memory.
const tt_report_row *tt_session_changed(const tt_session *session,
                                        tt_arena *arena);

// The same and what decides most, whether it is the default or not; without what says
// nothing about training: folders, logs.
const tt_report_row *tt_session_hparams(const tt_session *session,
                                        tt_arena *arena);

#endif
