// meet - before the first step ranks make sure that they are about to do the same:
// program, settings, data, graph, order of collectives.

#ifndef TT_SESSION_MEET_H
#define TT_SESSION_MEET_H

#include "session/session.h"

// `settings` are all that matter, resolved; `program` says which build this is. All
// ranks of a planned job call it; alone it does nothing.
tt_status tt_meet_job(const tt_job *job, const tt_settings *settings,
                      const char *program);

// The same for a session, whose data must be the same too: hosts may have other files
// under the same name. Takes the fingerprint of the data on every rank.
tt_status tt_session_meet(tt_session *session, const char *program);

#endif
