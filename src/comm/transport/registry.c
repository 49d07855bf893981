// registry - every transport.

#include "base/registry.h"

#include "comm/transport/transport.h"

#define TT_COMM(name) extern const tt_comm_def tt_comm_##name;
#include "comm/transport/list.h"
#undef TT_COMM

static const tt_comm_def *const all[] = {
#define TT_COMM(name) &tt_comm_##name,
#include "comm/transport/list.h"
#undef TT_COMM
};

TT_REGISTRY_ALL(tt_comm, all)
