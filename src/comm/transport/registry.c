// registry - every transport.

#include "comm/transport/transport.h"

#define TT_COMM(name) extern const tt_comm_def tt_comm_##name;
#include "comm/transport/list.h"
#undef TT_COMM

static const tt_comm_def *const all[] = {
#define TT_COMM(name) &tt_comm_##name,
#include "comm/transport/list.h"
#undef TT_COMM
};

const tt_comm_def *const *tt_comm_all(int *n)
{
    *n = sizeof(all) / sizeof(all[0]);
    return all;
}
