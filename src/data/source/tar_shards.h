// tar_shards - the files that a path of shards means: one file, a folder of .tar
// files (.tar.gz, .tgz), a pattern (train-*.tar) or a range (train-{000..146}.tar).

#ifndef TT_DATA_SOURCE_TAR_SHARDS_H
#define TT_DATA_SOURCE_TAR_SHARDS_H

#include "data/source/decode_list.h"

// Appends them; sorted but for a range, which has its own order. None is an error.
tt_status tt_tar_shards(const char *path, tt_file_list *list);

#endif
