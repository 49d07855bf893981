// machine - what this process may use of the machine it runs on.

#ifndef TT_BACKEND_MACHINE_H
#define TT_BACKEND_MACHINE_H

#include <stdint.h>

// Memory that is free or can be reclaimed, within the limits of this process's control
// group and of those around it: containers, Slurm, systemd. 0: unknown.
int64_t tt_machine_memory(void);

// How much address space this process may still map (ulimit -v), no matter what other
// processes use; INT64_MAX: no limit.
int64_t tt_machine_space(void);

// The same on a machine whose /proc and /sys are below `root`.
int64_t tt_machine_memory_at(const char *root);
int64_t tt_machine_space_at(const char *root);

int tt_machine_cores(void); // of the affinity mask, at least 1

// The processor's name for people, at most n - 1 bytes of it; "" when unknown.
void tt_machine_cpu(char *name_out, int64_t n);

#endif
