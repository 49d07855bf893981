// format - a table of first bytes, and a few kinds that need a closer look.
//
// Bytes of a Parquet or zstd file can be read as text or as token ids, and training on
// them would run without an error. So the first bytes are compared with those of
// common formats before a file is taken for text or ids, and the message says which
// program converts it.

#include "data/format.h"

#include "data/number.h"

#include <string.h>

typedef struct format {
    const char *name;
    const char *magic;
    int n;
    int at;              // where the magic bytes are
    const char *command; // that makes something else of it, before its name
    const char *advice;  // else
} format;

#define MAGIC(text) text, (int)sizeof(text) - 1

static const char by_python[] =
    "read it with the program that wrote it and save text, JSON lines or .npy";
static const char as_images[] =
    "images go into folders, one for each class (data=folder)";

static const format formats[] = {
    {"Parquet", MAGIC("PAR1"), 0, NULL, NULL},
    {"zip", MAGIC("PK\3\4"), 0, "unzip", NULL},
    {"zip", MAGIC("PK\5\6"), 0, "unzip", NULL},
    {"gzip", MAGIC("\x1f\x8b\x08"), 0, "gunzip", NULL},
    {"zstd", MAGIC("\x28\xb5\x2f\xfd"), 0, "unzstd", NULL},
    {"xz",
     MAGIC("\xfd"
           "7zXZ\0"),
     0, "unxz", NULL},
    {"lz4", MAGIC("\x04\x22\x4d\x18"), 0, "unlz4", NULL},
    {"7-zip", MAGIC("7z\xbc\xaf\x27\x1c"), 0, "7z x", NULL},
    {"RAR", MAGIC("Rar!\x1a\x07"), 0, "unrar x", NULL},
    {"PDF", MAGIC("%PDF-"), 0, "pdftotext", NULL},
    {"tar", MAGIC("ustar"), 257, "tar -xf", NULL},
    {"SQLite", MAGIC("SQLite format 3\0"), 0, NULL, by_python},
    {"HDF5", MAGIC("\x89HDF\r\n\x1a\n"), 0, NULL, by_python},
    {"Arrow", MAGIC("ARROW1\0\0"), 0, NULL, by_python},
    {"Arrow", MAGIC("\xff\xff\xff\xff\x10\0\0\0"), 0, NULL, by_python},
    {"Feather", MAGIC("FEA1"), 0, NULL, by_python},
    {"Avro", MAGIC("Obj\1"), 0, NULL, by_python},
    {"GGUF", MAGIC("GGUF"), 0, NULL, "it holds a model and no data"},
    {"ELF",
     MAGIC("\x7f"
           "ELF"),
     0, NULL, "it is a program and no data"},
    {"NumPy", MAGIC("\x93NUMPY"), 0, NULL, "data=npy reads it"},
    {"Megatron index", MAGIC("MMIDIDX\0\0"), 0, NULL, "data=megatron reads it"},
    {"PNG", MAGIC("\x89PNG\r\n\x1a\n"), 0, NULL, as_images},
    {"JPEG", MAGIC("\xff\xd8\xff"), 0, NULL, as_images},
    {"GIF", MAGIC("GIF87a"), 0, NULL, as_images},
    {"GIF", MAGIC("GIF89a"), 0, NULL, as_images},
    {"TIFF", MAGIC("II*\0"), 0, NULL, as_images},
    {"TIFF", MAGIC("MM\0*"), 0, NULL, as_images},
    {"WebP", MAGIC("WEBPVP8"), 8, NULL, as_images},
    {"HEIF", MAGIC("ftypheic"), 4, NULL, as_images},
    {"HEIF", MAGIC("ftypmif1"), 4, NULL, as_images},
    {"AVIF", MAGIC("ftypavif"), 4, NULL, as_images},
    {"JPEG XL", MAGIC("\0\0\0\x0cJXL \r\n\x87\n"), 0, NULL, as_images},
    {"JPEG 2000", MAGIC("\0\0\0\x0cjP  \r\n\x87\n"), 0, NULL, as_images},
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

static const format bzip2 = {.name = "bzip2", .command = "bunzip2"};
static const format safetensors = {.name = "safetensors",
                                   .advice = "it holds a model and no data"};
static const format pickle = {.name = "pickle", .advice = by_python};
static const format utf16 = {.name = "UTF-16",
                             .command = "iconv -f UTF-16 -t UTF-8"};
static const format utf32 = {.name = "UTF-32",
                             .command = "iconv -f UTF-32 -t UTF-8"};

static bool begins(const uint8_t *bytes, int64_t n, const char *magic,
                   int64_t magic_n)
{
    return n >= magic_n && memcmp(bytes, magic, (size_t)magic_n) == 0;
}

// "BZh", a digit, and the block's own magic, since three letters could be text.
static bool is_bzip2(const uint8_t *bytes, int64_t n)
{
    return n >= 10 && begins(bytes, n, "BZh", 3) && bytes[3] >= '1' &&
           bytes[3] <= '9' && memcmp(bytes + 4, "1AY&SY", 6) == 0;
}

// The length of the header, then the header: JSON.
static bool is_safetensors(const uint8_t *bytes, int64_t n)
{
    if (n < 10 || bytes[8] != '{' || (bytes[9] != '"' && bytes[9] != '}'))
        return false;
    const uint64_t header = tt_u64_at(bytes);
    return header >= 2 && header <= (uint64_t)n - 8;
}

// Protocol 2 to 5 and the frame of 4 and 5, or the opening of a dictionary, list,
// tuple or of a class; and a stop at the end.
static bool is_pickle(const uint8_t *bytes, int64_t n)
{
    return n >= 4 && bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5 &&
           strchr("\x95}](c\x8a\x8e", bytes[2]) != NULL && bytes[2] != 0 &&
           bytes[n - 1] == '.';
}

static const format *find_other(const uint8_t *bytes, int64_t n)
{
    if (begins(bytes, n, "\xff\xfe\0\0", 4) ||
        begins(bytes, n, "\0\0\xfe\xff", 4))
        return &utf32;
    if (begins(bytes, n, "\xff\xfe", 2) || begins(bytes, n, "\xfe\xff", 2))
        return &utf16;
    return is_bzip2(bytes, n)         ? &bzip2
           : is_safetensors(bytes, n) ? &safetensors
           : is_pickle(bytes, n)      ? &pickle
                                      : NULL;
}

static const format *find(const uint8_t *bytes, int64_t n)
{
    for (int i = 0; i < N_FORMATS; i++) {
        const format *f = &formats[i];
        if (n >= f->at && begins(bytes + f->at, n - f->at, f->magic, f->n))
            return f;
    }
    return find_other(bytes, n);
}

const char *tt_format_name(const uint8_t *bytes, int64_t n)
{
    const format *f = n > 0 ? find(bytes, n) : NULL;
    return f != NULL ? f->name : NULL;
}

tt_status tt_format_refuse(const char *path, const uint8_t *bytes, int64_t n,
                           const char *wanted)
{
    const format *f = n > 0 ? find(bytes, n) : NULL;
    if (f == NULL)
        return TT_OK;
    if (f->advice != NULL)
        return tt_fail(TT_ERR_ARG, "%s: its format is %s, not %s; %s", path,
                       f->name, wanted, f->advice);
    if (f == &utf16 || f == &utf32)
        return tt_fail(TT_ERR_ARG,
                       "%s: text in %s, and text must be UTF-8; convert it: "
                       "%s '%s' >NEW.txt",
                       path, f->name, f->command, path);
    if (f->command != NULL)
        return tt_fail(TT_ERR_ARG,
                       "%s: its format is %s, not %s; unpack it first: %s "
                       "'%s'",
                       path, f->name, wanted, f->command, path);
    return tt_fail(
        TT_ERR_ARG,
        "%s: its format is Parquet, not %s; make JSON lines of it: python3 "
        "-c \"import pandas; pandas.read_parquet('%s').to_json("
        "'%s.jsonl', orient='records', lines=True)\", then "
        "data.path=%s.jsonl data.field=NAME",
        path, wanted, path, path, path);
}
