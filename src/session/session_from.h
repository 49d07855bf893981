// session_from - init.from=FOLDER: what the folder says about its model. Internal.

#ifndef TT_SESSION_SESSION_FROM_H
#define TT_SESSION_SESSION_FROM_H

#include "session/session.h"

// Where init.from names a folder that says what its model is: sets model, model.* and,
// for text, data.tokenizer as it says. What was asked for and differs is refused, but
// for settings of training (dropout) and those that follow from the data (classes). A
// file is weights alone.
tt_status tt__session_take_from(tt_session *session);

#endif
