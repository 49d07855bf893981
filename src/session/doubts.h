// doubts - settings that are allowed and that nobody can have meant.

#ifndef TT_SESSION_DOUBTS_H
#define TT_SESSION_DOUBTS_H

#include "session/session.h"

// Appends a sentence a line about each: a warm-up longer than the run, more threads
// than cores, settings that do nothing beside the others. Only what was set counts.
void tt_session_doubts(const tt_session *session, tt_str *out);

// Of these, settings of ranks that do nothing on as many as the job has.
void tt_doubts_idle(const tt_job *job, tt_str *out);

#endif
