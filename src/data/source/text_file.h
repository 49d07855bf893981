// text_file - the text of one file: plain, or one member of each of its lines of
// JSON; packed with gzip or not.
//
// A byte order mark is no part of the text. Files of other kinds are refused.

#ifndef TT_DATA_SOURCE_TEXT_FILE_H
#define TT_DATA_SOURCE_TEXT_FILE_H

#include "data/files.h"

typedef struct tt_text_file { // zero-initialise
    const char *p;
    int64_t n;
    // Of JSON lines: documents, and where each ends. Of plain text n_documents is 0.
    int64_t n_documents;
    int64_t *end;
    tt_blob blob;
    char *memory;
} tt_text_file;

// Whether a file is one of JSON lines: `field` is set, or its name ends with .jsonl
// or .ndjson (.gz may follow).
bool tt_text_is_lines(const char *path, const char *field);

// `field` is the member that is the text; "": "text". Members of members have dots:
// "a.b". `has_breaks` puts a line break after each document.
tt_status tt_text_file_open(const char *path, const char *field,
                            bool has_breaks, tt_text_file *file_out);
void tt_text_file_close(tt_text_file *file);

#endif
