// decode_list - sorted lists of file names, one block of text.

#ifndef TT_DATA_SOURCE_DECODE_LIST_H
#define TT_DATA_SOURCE_DECODE_LIST_H

#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_file_list {
    tt_str text; // names one after another, each ended by a zero
    int64_t *at; // where they begin
    int64_t n, capacity;
} tt_file_list; // zero-initialise

void tt_file_list_fini(tt_file_list *list);
const char *tt_file_list_at(const tt_file_list *list, int64_t i);
tt_status tt_file_list_add(tt_file_list *list, const char *name);
// By their bytes; those before `first` stay where they are.
void tt_file_list_sort(tt_file_list *list, int64_t first);

// Appends the names of the folders in `root`, sorted by their bytes; as with
// files, names that begin with a dot are left out and links are followed.
tt_status tt_file_list_folders(const char *root, tt_file_list *list);

// Appends "below/..." for all files under root/below, at any depth, that `wants`
// wants; sorted.
tt_status tt_file_list_tree(const char *root, const char *below,
                            bool (*wants)(const char *name),
                            tt_file_list *list);

// Of the names from `first` on, keeps `count` from `from` on.
void tt_file_list_keep(tt_file_list *list, int64_t first, int64_t from,
                       int64_t count);

#endif
