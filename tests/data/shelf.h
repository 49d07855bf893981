// shelf.h - a folder of files for tests of sources, and data opened from it.

#ifndef TT_TESTS_DATA_SHELF_H
#define TT_TESTS_DATA_SHELF_H

#include "data/data.h"
#include "data/loader.h"
#include "test.h"

// Makes an empty folder and goes there; leaves and removes it.
void tt_shelf_begin(void);
void tt_shelf_end(void);

void tt_shelf_write(const char *name, const void *bytes, int64_t n);
void tt_shelf_text(const char *name, const char *text);
void tt_shelf_gzip(const char *name, const void *bytes, int64_t n);

// "data=idx data.path=x", opened for training with seq 4.
tt_data *tt_shelf_open(const char *settings);
// The same must fail, with `says` in the message.
void tt_shelf_refuses(const char *settings, const char *says);
// The same under every allocation that fails.
void tt_shelf_starves(const char *settings);

// Tokens of the source against a list, and pixel 0 and label of its images.
void tt_shelf_tokens(const tt_source *source, const int32_t *want, int64_t n);
int tt_shelf_label(const tt_source *source, int64_t index);
float tt_shelf_pixel(const tt_source *source, int64_t index, int64_t at);

#endif
