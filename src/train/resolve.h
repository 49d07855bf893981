// resolve - every setting with the value it has in the end. Internal.

#ifndef TT_TRAIN_RESOLVE_H
#define TT_TRAIN_RESOLVE_H

#include "train/session.h"

tt_status tt__session_resolve(tt_session *session);

#endif
