// hogwild - ranks of one machine train on one copy of the weights, without locks (HOGWILD!).
//
//   rank 0   read   gradient      add     read  gradient ...
//   rank 1     read   gradient  add    read   gradient
//              |               |   |
//            [ weights in shared memory ]    nobody waits for anybody
//
// Nobody keeps order, so there is none to draw, to record or to repeat: two runs differ.
//
// Several copies (Hogwild++): workers that are near each other, say on one socket, share one.
// Now and then a worker takes the mean of its copy and the next one in a ring.
//
//   sent   nothing

#include "policy/peer.h"
#include "policy/policy.h"

#define AT(field) offsetof(tt_peer_params, field)

static const tt_opt options[] = {
    {"schedule", "wall",
     "who is next: only wall, whoever comes; there is no order to draw or "
     "repeat",
     TT_OPT_STR, offsetof(tt_pace_params, schedule)},
    {"limit", "0",
     "a longer mean gradient is refused, as is one that is not finite; 0: any "
     "length will do",
     TT_OPT_F64, AT(limit), NULL, 0, 1e300},
    {"copies", "1", "of the weights; workers share one in equal groups",
     TT_OPT_I64, AT(copies), NULL, 1, 65535},
    {"every", "8",
     "several copies: steps of a worker between two means of its copy and the "
     "next one",
     TT_OPT_I64, AT(every), NULL, 1, 1e9},
    {"words", "full",
     "how weights are shared: as they are computed with, or in 16 bits with "
     "random rounding",
     TT_OPT_CHOICE, AT(words), "full|bf16"},
    {"moves", "full",
     "what is added to them: as it is, or rounded at random to 8 bits of the "
     "largest of its tensor",
     TT_OPT_CHOICE, AT(moves), "full|int8"},
    {0},
};

static const char *const samples[] = {
    "limit=0", "copies=2 every=2", "words=bf16", "words=bf16 moves=int8", NULL,
};

const tt_policy_def tt_policy_hogwild = {
    .name = "hogwild",
    .doc = "Ranks of one machine change one copy of the weights without locks.",
    .paper = "HOGWILD! Niu 2011; Buckwild! De Sa 2015; Hogwild++ Zhang 2016",
    .kind = TT_POLICY_DYNAMIC,
    .peer = TT_PEER_SHARED,
    .options = options,
    .params_bytes = sizeof(tt_peer_params),
    .samples = samples,
};
