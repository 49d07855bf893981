// dry_run - `tutti train --dry-run`: every setting, and the memory that is needed.

#ifndef TT_CLI_DRY_RUN_H
#define TT_CLI_DRY_RUN_H

#include "session/session.h"

tt_status tt_dry_run(tt_session *session, bool is_json);

#endif
