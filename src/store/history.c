// history - one table in SQLite: a row per run folder. See history.h.
//
// It uses SQLite's rollback journal, not the write-ahead log. A killed writer
// leaves a journal that the next one rolls back, and it works on network file
// systems, where home directories often are; the write-ahead log needs shared
// memory. Rows are written a few times per run, so speed does not matter.

#include "store/history.h"

#include "base/alloc.h"
#include "base/file.h"

#include <limits.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    VERSION = 1,
    APPLICATION = 0x74757474, // "tutt"
    WAIT_MS = 30000,
};

struct tt_history {
    sqlite3 *db;
    char path[PATH_MAX];
};

static const char schema[] =
    "CREATE TABLE runs ("
    "id INTEGER PRIMARY KEY, folder TEXT NOT NULL UNIQUE, "
    "model TEXT NOT NULL, status TEXT NOT NULL, config TEXT NOT NULL, "
    "started TEXT NOT NULL, ended TEXT NOT NULL, "
    "step INTEGER NOT NULL, steps INTEGER NOT NULL, "
    "parameters INTEGER NOT NULL, seconds REAL NOT NULL, "
    "train_loss REAL, val_loss REAL, best_loss REAL, accuracy REAL)";

static const char put_row[] =
    "INSERT INTO runs (folder, model, status, config, started, ended, step, "
    "steps, parameters, seconds, train_loss, val_loss, best_loss, accuracy) "
    "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) "
    "ON CONFLICT (folder) DO UPDATE SET model = ?2, status = ?3, config = ?4, "
    "started = ?5, ended = ?6, step = ?7, steps = ?8, parameters = ?9, "
    "seconds = ?10, train_loss = ?11, val_loss = ?12, best_loss = ?13, "
    "accuracy = ?14";

static const char list_rows[] =
    "SELECT id, folder, model, status, config, started, ended, step, steps, "
    "parameters, seconds, train_loss, val_loss, best_loss, accuracy FROM runs "
    "WHERE ?1 IS NULL OR folder = ?1 ORDER BY started DESC, id DESC";

static tt_status fail(const tt_history *h)
{
    const int code = h->db != NULL ? sqlite3_errcode(h->db) : SQLITE_NOMEM;
    const char *message = h->db != NULL ? sqlite3_errmsg(h->db) : "";
    if (code == SQLITE_NOMEM)
        return tt_fail(TT_ERR_NOMEM, "%s: out of memory", h->path);
    if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
        return tt_fail(TT_ERR_TIMEOUT,
                       "%s: the history of runs is in use by another process",
                       h->path);
    if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
        return tt_fail(TT_ERR_IO,
                       "%s: the history of runs is damaged or something else "
                       "(%s); move it away to begin a new one",
                       h->path, message);
    return tt_fail(TT_ERR_IO, "%s: the history of runs: %s", h->path, message);
}

static tt_status execute(const tt_history *h, const char *sql)
{
    if (sqlite3_exec(h->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return fail(h);
    return TT_OK;
}

static tt_status read_number(const tt_history *h, const char *sql, int64_t *out)
{
    sqlite3_stmt *query = NULL;
    tt_status status = TT_OK;
    if (sqlite3_prepare_v2(h->db, sql, -1, &query, NULL) != SQLITE_OK ||
        sqlite3_step(query) != SQLITE_ROW)
        status = fail(h);
    else
        *out = sqlite3_column_int64(query, 0);
    sqlite3_finalize(query);
    return status;
}

static tt_status check_version(const tt_history *h, bool *is_new)
{
    int64_t application = 0, version = 0, n_tables = 0;
    TT_TRY(read_number(h, "PRAGMA application_id", &application));
    TT_TRY(read_number(h, "PRAGMA user_version", &version));
    TT_TRY(read_number(h, "SELECT count(*) FROM sqlite_master", &n_tables));
    *is_new = application == 0 && n_tables == 0;
    if (!*is_new && application != APPLICATION)
        return tt_fail(TT_ERR_IO,
                       "%s: is a database of another program; name another "
                       "file or move it away",
                       h->path);
    if (!*is_new && version != VERSION)
        return tt_fail(TT_ERR_IO,
                       "%s: was written by another version of this program "
                       "(format %lld, not %d); move it away to begin a new one",
                       h->path, (long long)version, VERSION);
    return TT_OK;
}

// Reads within one transaction, since another process may be making the table.
static tt_status look(const tt_history *h, bool *is_new)
{
    TT_TRY(execute(h, "BEGIN"));
    const tt_status status = check_version(h, is_new);
    (void)sqlite3_exec(h->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

// Two processes may come here at once. BEGIN IMMEDIATE lets one of them in; the
// second then sees the table and leaves it.
static tt_status make_table(const tt_history *h)
{
    char text[64];
    bool is_new = false;
    TT_TRY(execute(h, "BEGIN IMMEDIATE"));
    tt_status status = check_version(h, &is_new);
    if (status == TT_OK && is_new) {
        status = execute(h, schema);
        snprintf(text, sizeof(text), "PRAGMA application_id = %d", APPLICATION);
        if (status == TT_OK)
            status = execute(h, text);
        snprintf(text, sizeof(text), "PRAGMA user_version = %d", VERSION);
        if (status == TT_OK)
            status = execute(h, text);
        if (status == TT_OK)
            status = execute(h, "COMMIT");
        return status;
    }
    (void)sqlite3_exec(h->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

static tt_status open_file(tt_history *h)
{
    bool is_new = false;
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    if (sqlite3_open_v2(h->path, &h->db, flags, NULL) != SQLITE_OK)
        return fail(h);
    (void)sqlite3_busy_timeout(h->db, WAIT_MS);
    TT_TRY(look(h, &is_new));
    return is_new ? make_table(h) : TT_OK;
}

static tt_status make_folder_of(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path)
        return TT_OK;
    snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
    return tt_file_make_folder(folder);
}

tt_status tt_history_open(const char *path, tt_history **history_out)
{
    if (strlen(path) >= PATH_MAX)
        return tt_fail(TT_ERR_ARG, "%.200s...: the name is too long", path);
    TT_TRY(make_folder_of(path));
    tt_history *h = tt_alloc(sizeof(*h));
    if (h == NULL)
        return tt_fail(TT_ERR_NOMEM, "%s: out of memory", path);
    snprintf(h->path, sizeof(h->path), "%s", path);
    const tt_status status = open_file(h);
    if (status == TT_OK)
        *history_out = h;
    else
        tt_history_close(h);
    return status;
}

void tt_history_close(tt_history *history)
{
    if (history == NULL)
        return;
    (void)sqlite3_close(history->db);
    tt_free(history);
}

static void bind_text(sqlite3_stmt *query, int at, const char *text)
{
    (void)sqlite3_bind_text(query, at, text != NULL ? text : "", -1,
                            SQLITE_TRANSIENT);
}

static void bind_number(sqlite3_stmt *query, int at, double value)
{
    if (isfinite(value))
        (void)sqlite3_bind_double(query, at, value);
    else
        (void)sqlite3_bind_null(query, at);
}

tt_status tt_history_put(tt_history *history, const tt_history_row *row)
{
    char folder[PATH_MAX];
    sqlite3_stmt *query = NULL;
    const char *full = realpath(row->folder, folder);
    if (sqlite3_prepare_v2(history->db, put_row, -1, &query, NULL) != SQLITE_OK)
        return fail(history);
    bind_text(query, 1, full != NULL ? full : row->folder);
    bind_text(query, 2, row->model);
    bind_text(query, 3, row->status);
    bind_text(query, 4, row->config);
    bind_text(query, 5, row->started);
    bind_text(query, 6, row->ended);
    (void)sqlite3_bind_int64(query, 7, row->step);
    (void)sqlite3_bind_int64(query, 8, row->steps);
    (void)sqlite3_bind_int64(query, 9, row->parameters);
    (void)sqlite3_bind_double(query, 10,
                              isfinite(row->seconds) ? row->seconds : 0);
    bind_number(query, 11, row->train_loss);
    bind_number(query, 12, row->val_loss);
    bind_number(query, 13, row->best_loss);
    bind_number(query, 14, row->accuracy);
    tt_status status = TT_OK;
    if (sqlite3_step(query) != SQLITE_DONE)
        status = fail(history);
    sqlite3_finalize(query);
    return status;
}

tt_status tt_history_move(tt_history *history, const char *from, const char *to)
{
    static const char move_row[] =
        "UPDATE OR REPLACE runs SET folder = ?2 WHERE folder = ?1";
    sqlite3_stmt *query = NULL;
    tt_status status = TT_OK;
    if (sqlite3_prepare_v2(history->db, move_row, -1, &query, NULL) !=
        SQLITE_OK)
        return fail(history);
    bind_text(query, 1, from);
    bind_text(query, 2, to);
    if (sqlite3_step(query) != SQLITE_DONE)
        status = fail(history);
    sqlite3_finalize(query);
    return status;
}

static const char *text_at(sqlite3_stmt *query, int at, tt_arena *arena)
{
    const unsigned char *text = sqlite3_column_text(query, at);
    return tt_arena_strdup(arena, text != NULL ? (const char *)text : "");
}

static double number_at(sqlite3_stmt *query, int at)
{
    if (sqlite3_column_type(query, at) == SQLITE_NULL)
        return (double)NAN;
    return sqlite3_column_double(query, at);
}

static tt_status read_row(sqlite3_stmt *query, tt_arena *arena,
                          tt_history_row *row)
{
    *row = (tt_history_row){
        .id = sqlite3_column_int64(query, 0),
        .folder = text_at(query, 1, arena),
        .model = text_at(query, 2, arena),
        .status = text_at(query, 3, arena),
        .config = text_at(query, 4, arena),
        .started = text_at(query, 5, arena),
        .ended = text_at(query, 6, arena),
        .step = sqlite3_column_int64(query, 7),
        .steps = sqlite3_column_int64(query, 8),
        .parameters = sqlite3_column_int64(query, 9),
        .seconds = sqlite3_column_double(query, 10),
        .train_loss = number_at(query, 11),
        .val_loss = number_at(query, 12),
        .best_loss = number_at(query, 13),
        .accuracy = number_at(query, 14),
    };
    if (row->folder == NULL || row->model == NULL || row->status == NULL ||
        row->config == NULL || row->started == NULL || row->ended == NULL)
        return TT_ERR_NOMEM;
    return TT_OK;
}

// The rows of one folder, or all rows.
static tt_status read_rows(const tt_history *h, const char *folder,
                           tt_arena *arena, tt_history_row *rows, int64_t *n)
{
    sqlite3_stmt *query = NULL;
    tt_status status = TT_OK;
    const int64_t most = *n;
    int code = SQLITE_DONE;
    *n = 0;
    if (sqlite3_prepare_v2(h->db, list_rows, -1, &query, NULL) != SQLITE_OK)
        return fail(h);
    if (folder != NULL)
        bind_text(query, 1, folder);
    while (status == TT_OK && *n < most &&
           (code = sqlite3_step(query)) == SQLITE_ROW)
        status = read_row(query, arena, &rows[(*n)++]);
    if (status == TT_OK && code != SQLITE_ROW && code != SQLITE_DONE)
        status = fail(h);
    sqlite3_finalize(query);
    return status;
}

tt_status tt_history_find(tt_history *history, const char *folder,
                          tt_arena *arena, const tt_history_row **row_out)
{
    char path[PATH_MAX];
    int64_t n = 1;
    const char *full = realpath(folder, path);
    tt_history_row *row = tt_arena_alloc(arena, (int64_t)sizeof(*row));
    if (row == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(read_rows(history, full != NULL ? full : folder, arena, row, &n));
    *row_out = n > 0 ? row : NULL;
    return TT_OK;
}

tt_status tt_history_list(tt_history *history, tt_arena *arena,
                          const tt_history_row **rows_out, int64_t *n_out)
{
    int64_t n = 0;
    tt_history_row *rows = NULL;
    // One transaction, so that both statements see the same rows.
    TT_TRY(execute(history, "BEGIN"));
    tt_status status = read_number(history, "SELECT count(*) FROM runs", &n);
    if (status == TT_OK) {
        rows = tt_arena_alloc(arena, n * (int64_t)sizeof(*rows));
        status = rows != NULL ? read_rows(history, NULL, arena, rows, &n)
                              : TT_ERR_NOMEM;
    }
    (void)sqlite3_exec(history->db, "ROLLBACK", NULL, NULL, NULL);
    if (status == TT_OK) {
        *rows_out = rows;
        *n_out = n;
    }
    return status;
}
