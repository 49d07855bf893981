// resolve - every setting with the value it has in the end. Internal.

#ifndef TT_SESSION_RESOLVE_H
#define TT_SESSION_RESOLVE_H

#include "session/session.h"

tt_status tt__session_resolve(tt_session *session);

#endif
