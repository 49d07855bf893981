// data - the parts of `tutti data`, which makes and looks at training data.
//
//   texts -> train-bpe -> tokenizer
//   texts + tokenizer -> tokenize -> token files -> pack -> in another format
//   anything -> inspect
//
// Files appear whole or not at all: they are written under other names and renamed at
// the end, so Ctrl-C leaves nothing behind that looks finished.

#ifndef TT_CLI_PREPARE_DATA_H
#define TT_CLI_PREPARE_DATA_H

#include "base/settings/opt.h"
#include "cli/command.h"
#include "data/files.h"
#include "data/source/source.h"
#include "data/tokenizer/tokenizer.h"

// Each part finds its arguments in cli->word[1 ..].
tt_status tt_cmd_data_train_bpe(tt_cli *cli);
tt_status tt_cmd_data_tokenize(tt_cli *cli);
tt_status tt_cmd_data_pack(tt_cli *cli);
tt_status tt_cmd_data_inspect(tt_cli *cli);

// Defaults, then the settings. A key that is not in the table is an error.
tt_status tt_cmd_data_options(tt_cli *cli, const tt_opt *table, void *params);

// The files that the words name: files, folders, patterns.
tt_status tt_cmd_data_files(tt_cli *cli, const char *what, tt_paths *paths_out);

// Makes the folder that a file is going to be in.
tt_status tt_cmd_data_make_folder(const char *path);

// FOLDER/NAME if `out` is a folder or ends with a slash, else OUT_NAME. Makes the
// folder; NULL if that failed.
const char *tt_cmd_data_name(tt_cli *cli, const char *out, const char *name);

// Fails if files with this prefix exist: PREFIX.bin, PREFIX_000003.bin. Whoever reads
// PREFIX_*.bin would read old shards among the new ones.
tt_status tt_cmd_data_check_free(tt_cli *cli, const char *prefix);

// The file beside `path` that has the ending `to` instead of `from`; NULL if there is
// none.
const char *tt_cmd_data_beside(tt_cli *cli, const char *path, const char *from,
                               const char *to);

// True after the first Ctrl-C, SIGTERM or SIGHUP. Whoever sees it cleans up and fails with
// tt_cmd_data_interrupted. tt_cmd_data_end then ends the program as the signal would
// have.
bool tt_cmd_data_is_stopped(void);
tt_status tt_cmd_data_interrupted(void);
void tt_cmd_data_catch(void);
void tt_cmd_data_end(void);

// What a file is, by its first bytes and its name.
typedef struct tt_sniff {
    const char *format; // "llm.c tokens", "IDX", ...
    const char *source; // the source that reads it; NULL: none
    const char *dtype;  // of its numbers; NULL: the file does not say
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

// Opens all samples of a file. `dtype` is as in data.dtype of tokens.
tt_status tt_cmd_data_source(tt_cli *cli, const char *path, const char *source,
                             const char *dtype, tt_source **source_out);

// The smallest and largest id; 0 and -1 if there are none.
tt_status tt_cmd_data_range(const tt_source *source, int64_t *min_out,
                            int64_t *max_out);

#endif
