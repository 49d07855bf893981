// registry - the members of a kind (operators, passes, models, ...): listed, found by
// name, and added from outside.
//
// A kind has a type tt_KIND_def that begins with `const char *name, *doc`. Each member
// is a file with one def and a line in the folder's list.h. The registry of the kind is
// that list as an array, and one of the macros below, which writes the functions that
// the kind's header declares:
//
//   static const tt_pass_def *const all[] = {
//   #define TT_PASS(name) &tt_pass_##name,
//   #include "pass/list.h"
//   #undef TT_PASS
//   };
//   TT_REGISTRY(tt_pass, all)    // tt_pass_all, tt_pass_find
//
// They are macros so that every function has the def's own type.

#ifndef TT_BASE_REGISTRY_H
#define TT_BASE_REGISTRY_H

#include "base/nearest.h"
#include "base/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

// PREFIX_all(&n): every member, in the order of the list.
#define TT_REGISTRY_ALL(prefix, all)                                           \
    const prefix##_def *const *prefix##_all(int *n)                            \
    {                                                                          \
        *n = (int)(sizeof(all) / sizeof *(all));                               \
        return all;                                                            \
    }

// And PREFIX_find(name): one of them, or NULL.
#define TT_REGISTRY(prefix, all)                                               \
    TT_REGISTRY_ALL(prefix, all)                                               \
    const prefix##_def *prefix##_find(const char *name)                        \
    {                                                                          \
        for (size_t i = 0; i < sizeof(all) / sizeof *(all); i++)               \
            if (strcmp((all)[i]->name, name) == 0)                             \
                return (all)[i];                                               \
        return NULL;                                                           \
    }

// The same for a kind whose defs are in one array.
#define TT_REGISTRY_TABLE(prefix, all)                                         \
    const prefix##_def *prefix##_all(int *n)                                   \
    {                                                                          \
        *n = (int)(sizeof(all) / sizeof *(all));                               \
        return all;                                                            \
    }                                                                          \
    const prefix##_def *prefix##_find(const char *name)                        \
    {                                                                          \
        for (size_t i = 0; i < sizeof(all) / sizeof *(all); i++)               \
            if (strcmp((all)[i].name, name) == 0)                              \
                return &(all)[i];                                              \
        return NULL;                                                           \
    }

// A kind that takes members from outside at run time. They never leave. Readers take
// no lock: a member is written before the count that makes it visible, and the array
// never moves. Writers exclude each other by a mutex.
//
// The array has room for TT_REGISTRY_ROOM more than are listed. `is_taken(name)` says
// whether a name is in use. Makes PREFIX_all, PREFIX_register and, for the file itself,
// PREFIX_look_up.
enum { TT_REGISTRY_ROOM = 256 };

#define TT_REGISTRY_OPEN(prefix, kind, all, n_listed, is_taken)                \
    static atomic_int n_##prefix = n_listed;                                   \
    const prefix##_def *const *prefix##_all(int *n)                            \
    {                                                                          \
        *n = atomic_load(&n_##prefix);                                         \
        return all;                                                            \
    }                                                                          \
    static const prefix##_def *prefix##_look_up(const char *name)              \
    {                                                                          \
        const int n = atomic_load(&n_##prefix);                                \
        for (int i = 0; i < n; i++)                                            \
            if (strcmp((all)[i]->name, name) == 0)                             \
                return (all)[i];                                               \
        return NULL;                                                           \
    }                                                                          \
    tt_status prefix##_register(const prefix##_def *def)                       \
    {                                                                          \
        static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;             \
        pthread_mutex_lock(&adding);                                           \
        const int n = atomic_load(&n_##prefix);                                \
        const tt_status status = tt_registry_check(                            \
            kind, def->name, is_taken(def->name), n - (n_listed));             \
        if (status == TT_OK) {                                                 \
            (all)[n] = def;                                                    \
            atomic_store(&n_##prefix, n + 1);                                  \
        }                                                                      \
        pthread_mutex_unlock(&adding);                                         \
        return status;                                                         \
    }

// Whether one more may be added, after so many: its name is new, and there is room.
// `kind` has its article: "an operator".
tt_status tt_registry_check(const char *kind, const char *name, bool is_taken,
                            int n_added);

#endif
