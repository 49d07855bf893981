// codec_merge - lists that are added up on the way.

#ifndef TT_CHECK_CODEC_MERGE_H
#define TT_CHECK_CODEC_MERGE_H

#include "check/law.h"
#include "codec/codec.h"

// The part "merged" of the law of codecs; nothing for codecs without lists.
tt_status tt__trial_merge(tt_law_report *r, const tt_codec_def *codec);

#endif
