// device_comm - collectives between devices that reach each other's memory (NCCL):
// groups of devices, one per process.
//
// One process makes an id and hands it to the others; all open the group with that id.
// All members make the same calls in the same order. Nothing here waits: open() only
// begins, and is_busy() tells when it is done. So a peer that never comes cannot hang
// the caller, who decides how long to wait.

#ifndef TT_BACKEND_DEVICE_COMM_H
#define TT_BACKEND_DEVICE_COMM_H

#include "backend/device_coll.h"
#include "base/status.h"

typedef struct tt_backend tt_backend;
typedef struct tt_device_comm tt_device_comm; // one device's end of a group

typedef struct tt_device_comm_def {
    const char *name, *doc;
    // Fails where there is none; then the message says why.
    tt_status (*version)(tt_backend *backend, int *version_out);
    tt_status (*make_id)(tt_backend *backend,
                         unsigned char id[TT_DEVICE_COMM_ID]);
    // Begins to join the group as member `me` of n. `is_apart`: its calls go through a
    // queue of its own, not through the wire's.
    tt_status (*open)(tt_backend *backend,
                      const unsigned char id[TT_DEVICE_COMM_ID], int32_t n,
                      int32_t me, bool is_apart, tt_device_comm **links_out);
    // While it is busy nothing else may be asked of it. Fails when something has
    // gone wrong since, here or with a peer.
    tt_status (*is_busy)(tt_device_comm *links, bool *busy_out);
    // Queues n calls as one group.
    tt_status (*run)(tt_device_comm *links, const tt_device_coll *call, int n);
    // The event of the device is over when all that this group has queued is done.
    // While the group is not busy.
    tt_status (*note)(tt_device_comm *links, int64_t event);
    // `is_broken`: what is under way is given up, so that the device goes on.
    void (*close)(tt_device_comm *links, bool is_broken); // NULL is fine
} tt_device_comm_def;

#endif
