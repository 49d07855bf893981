// codec_damage - codes that were changed on their way.

#ifndef TT_CHECK_CODEC_DAMAGE_H
#define TT_CHECK_CODEC_DAMAGE_H

#include "check/law.h"
#include "codec/codec.h"

// The part "damage" of the law of codecs; nothing for codecs without packets.
tt_status tt__codec_damage(tt_law_report *r, const tt_codec_def *codec);

#endif
