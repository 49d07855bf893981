// data - the parts of `tutti data`.

#ifndef TT_CLI_PREPARE_DATA_H
#define TT_CLI_PREPARE_DATA_H

#include "base/opt.h"
#include "cli/command.h"
#include "data/files.h"
#include "data/source/source.h"
#include "data/tokenizer/tokenizer.h"

// Each gets what stands behind its name in cli->word[1 ..].
tt_status tt_cmd_data_train_bpe(tt_cli *cli);
tt_status tt_cmd_data_tokenize(tt_cli *cli);
tt_status tt_cmd_data_pack(tt_cli *cli);
tt_status tt_cmd_data_inspect(tt_cli *cli);

// Defaults, then the settings; one that is not in the table is an error.
tt_status tt_cmd_data_options(tt_cli *cli, const tt_opt *table, void *params);

// The files that the words name: files, folders of them, patterns.
tt_status tt_cmd_data_files(tt_cli *cli, const char *what, tt_paths *paths_out);

// The folder that a file is to be in.
tt_status tt_cmd_data_make_folder(const char *path);

// FOLDER/NAME when `out` is a folder or ends with a slash, else OUT_NAME; makes the
// folder. NULL when that failed.
const char *tt_cmd_data_name(tt_cli *cli, const char *out, const char *name);

// Fails when files are there that begin so: PREFIX.bin, PREFIX_000003.bin. Who reads
// PREFIX_*.bin would read old ones among the new.
tt_status tt_cmd_data_check_free(tt_cli *cli, const char *prefix);

// The name of the file beside `path` that has another ending of the same length,
// when it is there; else NULL.
const char *tt_cmd_data_beside(tt_cli *cli, const char *path, const char *from,
                               const char *to);

// True from the first Ctrl-C or SIGTERM on. Whoever sees it tidies up and fails
// with tt_cmd_data_interrupted; tt_cmd_data_end then ends the program as the signal does.
bool tt_cmd_data_is_stopped(void);
tt_status tt_cmd_data_interrupted(void);
void tt_cmd_data_catch(void);
void tt_cmd_data_end(void);

// What a file is, by its first bytes and its name.
typedef struct tt_sniff {
    const char *format; // "llm.c tokens", "IDX", ...
    const char *source; // the source that reads it; NULL: none does
    const char *dtype;  // of its numbers; NULL: not said
    enum {
        TT_SNIFF_TOKENS,
        TT_SNIFF_ARRAY, // dims says what of
        TT_SNIFF_IMAGES,
        TT_SNIFF_TOKENIZER,
        TT_SNIFF_TEXT,
        TT_SNIFF_OTHER,
    } kind;
    int ndim;
    int64_t dim[8];
} tt_sniff;
tt_status tt_cmd_data_sniff(tt_cli *cli, const char *path, const tt_blob *blob,
                            tt_sniff *sniff_out);

// All of a file's samples. `dtype` as in data.dtype of tokens.
tt_status tt_cmd_data_source(tt_cli *cli, const char *path, const char *source,
                             const char *dtype, tt_source **source_out);

// Least and greatest id; 0 and -1 when there are none.
tt_status tt_cmd_data_range(const tt_source *source, int64_t *min_out,
                            int64_t *max_out);

#endif
