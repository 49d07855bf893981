// Using a model through the public header: logits, text, tokens, evaluation, export;
// and every NULL.

#include "test.h"
#include "tutti/tutti.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OK(call) CHECK_MSG((call) == TUTTI_OK, "%s: %s", #call, tutti_error())

static void says(const char *text)
{
    CHECK_MSG(strstr(tutti_error(), text) != NULL, "\"%s\" lacks \"%s\"",
              tutti_error(), text);
}

static tutti_session *open_with(const char *const *settings)
{
    tutti_session *s = NULL;
    OK(tutti_create(&s));
    for (int i = 0; settings[i] != NULL; i += 2)
        OK(tutti_set(s, settings[i], settings[i + 1]));
    return s;
}

static const char *const small_gpt[] = {
    "model",       "gpt", "model.layers", "1",   "model.width", "8",
    "model.heads", "2",   "model.vocab",  "256", "seq",         "6",
    "batch",       "2",   "threads",      "1",   NULL};

static void enter(char *folder)
{
    CHECK(mkdtemp(folder) != NULL && chdir(folder) == 0);
}

static void leave(void)
{
    CHECK(system("rm -r \"$PWD\"") == 0);
}

// ---- NULL ----------------------------------------------------------------

static tutti_status feed(void *user, const tutti_batch *batch)
{
    (void)user;
    for (int64_t i = 0; i < batch->x_type.count; i++)
        ((int32_t *)batch->x)[i] = (int32_t)(i % 5);
    for (int64_t i = 0; i < batch->y_type.count; i++)
        ((int32_t *)batch->y)[i] = (int32_t)(i % 3);
    return TUTTI_OK;
}

static void write_nothing(void *user, const char *text)
{
    (void)user;
    (void)text;
}

#define NO(call, what)                                                         \
    do {                                                                       \
        CHECK_MSG((call) == TUTTI_ERR_ARG, "%s is not refused", #call);        \
        says(what);                                                            \
    } while (0)

TEST(api_refuses_null_in_sessions)
{
    tutti_session *s = open_with(small_gpt);
    tutti_info info;
    tutti_result result;
    tutti_tensor tensor;
    float number = 0;
    NO(tutti_create(NULL), "tutti_create: session_out is NULL");
    tutti_destroy(NULL);
    NO(tutti_set(NULL, "a", "b"), "tutti_set: session is NULL");
    NO(tutti_set(s, NULL, "b"), "tutti_set: key is NULL");
    NO(tutti_set(s, "a", NULL), "tutti_set: value is NULL");
    NO(tutti_set(s, NULL, NULL), "key is NULL");
    NO(tutti_read_file(NULL, "a"), "session is NULL");
    NO(tutti_read_file(s, NULL), "path is NULL");
    NO(tutti_plan(NULL), "tutti_plan: session is NULL");
    NO(tutti_build(NULL), "tutti_build: session is NULL");
    OK(tutti_build(s));
    NO(tutti_get_info(NULL, &info), "session is NULL");
    NO(tutti_get_info(s, NULL), "info_out is NULL");
    NO(tutti_print_plan(NULL, false, write_nothing, NULL), "session is NULL");
    NO(tutti_print_plan(s, false, NULL, NULL), "write is NULL");
    NO(tutti_step(NULL, feed, NULL, &result), "session is NULL");
    NO(tutti_step(s, NULL, NULL, &result), "feed is NULL");
    NO(tutti_step(s, feed, NULL, NULL), "result_out is NULL");
    NO(tutti_feed_register(NULL, "a", feed, NULL), "session is NULL");
    NO(tutti_feed_register(s, NULL, feed, NULL), "name is NULL");
    NO(tutti_feed_register(s, "a", NULL, NULL), "feed is NULL");
    NO(tutti_step_from(NULL, "a", &result), "session is NULL");
    NO(tutti_step_from(s, NULL, &result), "name is NULL");
    NO(tutti_step_from(s, "a", NULL), "result_out is NULL");
    NO(tutti_set_rate(NULL, 1), "session is NULL");
    NO(tutti_train(NULL, NULL, NULL), "tutti_train: session is NULL");
    CHECK(tutti_tensor_count(NULL) == 0);
    says("tutti_tensor_count: session is NULL");
    NO(tutti_tensor_at(NULL, 0, &tensor), "session is NULL");
    NO(tutti_tensor_at(s, 0, NULL), "tensor_out is NULL");
    NO(tutti_tensor_find(NULL, "a", &tensor), "session is NULL");
    NO(tutti_tensor_find(s, NULL, &tensor), "name is NULL");
    NO(tutti_tensor_find(s, "a", NULL), "tensor_out is NULL");
    NO(tutti_read(NULL, "a", &number, 4), "session is NULL");
    NO(tutti_read(s, NULL, &number, 4), "name is NULL");
    NO(tutti_read(s, "a", NULL, 4), "data is NULL");
    NO(tutti_write(NULL, "a", &number, 4), "session is NULL");
    NO(tutti_write(s, NULL, &number, 4), "name is NULL");
    NO(tutti_write(s, "a", NULL, 4), "data is NULL");
    NO(tutti_save(NULL, "a"), "session is NULL");
    NO(tutti_save(s, NULL), "path is NULL");
    NO(tutti_load(NULL, "a"), "session is NULL");
    NO(tutti_load(s, NULL), "path is NULL");
    tutti_destroy(s);
}

TEST(api_refuses_null_in_use)
{
    tutti_session *s = open_with(small_gpt);
    const tutti_forward_args none = {0};
    const tutti_generate_options options = {.tokens = 1};
    tutti_types types;
    tutti_evaluation evaluation;
    int64_t n = 0;
    int32_t id = 1;
    NO(tutti_open(NULL, "a"), "tutti_open: session is NULL");
    NO(tutti_open(s, NULL), "path is NULL");
    NO(tutti_evaluate(NULL, &evaluation), "session is NULL");
    NO(tutti_evaluate(s, NULL), "evaluation_out is NULL");
    NO(tutti_get_types(NULL, &types), "session is NULL");
    NO(tutti_get_types(s, NULL), "types_out is NULL");
    NO(tutti_forward(NULL, &none, NULL), "session is NULL");
    NO(tutti_forward(s, NULL, NULL), "args is NULL");
    NO(tutti_forward(s, &none, NULL), "args->x is NULL");
    NO(tutti_set_tokenizer(NULL, "bytes"), "session is NULL");
    NO(tutti_set_tokenizer(s, NULL), "spec is NULL");
    NO(tutti_encode(NULL, "a", 1, &id, 1, &n), "session is NULL");
    NO(tutti_encode(s, NULL, 1, &id, 1, &n), "text is NULL");
    NO(tutti_encode(s, "a", 1, &id, 1, NULL), "n_out is NULL");
    NO(tutti_decode(NULL, &id, 1, write_nothing, NULL), "session is NULL");
    NO(tutti_decode(s, NULL, 1, write_nothing, NULL), "ids is NULL");
    NO(tutti_decode(s, &id, 1, NULL, NULL), "write is NULL");
    NO(tutti_generate(NULL, &options, write_nothing, NULL, NULL),
       "session is NULL");
    NO(tutti_generate(s, NULL, write_nothing, NULL, NULL), "options is NULL");
    NO(tutti_generate(s, &options, NULL, NULL, NULL), "write is NULL");
    NO(tutti_export(NULL, "a", NULL), "tutti_export: from is NULL");
    NO(tutti_export("a", NULL, NULL), "tutti_export: out is NULL");
    // At the wrong time, though nothing is NULL.
    CHECK(tutti_get_types(s, &types) == TUTTI_ERR_STATE);
    CHECK(tutti_encode(s, "a", 1, &id, 1, &n) == TUTTI_ERR_STATE);
    says("the session has no tokenizer");
    CHECK(tutti_generate(s, &options, write_nothing, NULL, NULL) ==
          TUTTI_ERR_STATE);
    tutti_destroy(s);
}

static int which; // of the calls below

// So that no compiler sees a format that is NULL.
#pragma GCC diagnostic ignored "-Wformat-security"
#pragma GCC diagnostic ignored "-Wformat-nonliteral"

static tutti_status build_null(tutti_builder *b, const void *options,
                               tutti_model_io *io, void *user)
{
    const tutti_init init = {TUTTI_INIT_CONST, 0};
    tutti_value v = TUTTI_NONE;
    (void)options;
    (void)io;
    (void)user;
    // Calls without a builder record a message and do nothing.
    v = tutti_input(NULL, "x", TUTTI_F32, "a:1");
    CHECK(v.id == TUTTI_NONE.id);
    says("tutti_input: b is NULL");
    CHECK(tutti_param(NULL, "w", init, "a:1").id == TUTTI_NONE.id);
    CHECK(tutti_buffer(NULL, "w", init, "a:1").id == TUTTI_NONE.id);
    CHECK(tutti_op(NULL, "add", "", NULL, 0, NULL).id == TUTTI_NONE.id);
    CHECK(tutti_dim(NULL, v, 0) == 1);
    CHECK(tutti_compute_dtype(NULL) == TUTTI_F32);
    CHECK(tutti_scope_push(NULL, "a") == 0);
    tutti_scope_pop(NULL, 0);
    tutti_update(NULL, v, v);
    says("tutti_update: b is NULL");
    const char *nothing = NULL;
    switch (which) {
    case 0:
        tutti_input(b, NULL, TUTTI_F32, "a:1");
        break;
    case 1:
        tutti_input(b, "x", TUTTI_F32, nothing);
        break;
    case 2:
        tutti_param(b, NULL, init, "a:1");
        break;
    case 3:
        tutti_buffer(b, NULL, init, "a:1");
        break;
    case 4:
        tutti_op(b, NULL, "", NULL, 0, NULL);
        break;
    case 5:
        tutti_op(b, "add", "", NULL, 2, NULL);
        break;
    default:
        tutti_scope_push(b, nothing);
    }
    return TUTTI_OK;
}

TEST(api_refuses_null_while_building)
{
    static const char *const messages[] = {
        "tutti_input: name is NULL",       "tutti_input: shape is NULL",
        "tutti_param: name is NULL",       "tutti_buffer: name is NULL",
        "tutti_op: name is NULL",          "tutti_op: in is NULL",
        "tutti_scope_push: format is NULL"};
    const tutti_model model = {
        .name = "null", .task = TUTTI_IMAGES, .build = build_null};
    tutti_check_result laws;
    NO(tutti_model_register(NULL), "tutti_model_register: model is NULL");
    NO(tutti_source_register(NULL), "source is NULL");
    NO(tutti_op_register(NULL), "op is NULL");
    NO(tutti_check("nothing", NULL), "result_out is NULL");
    OK(tutti_check("no such operator", &laws));
    tutti_result_add(NULL, TUTTI_F32, "a:1");
    says("tutti_result_add: result is NULL");
    tutti_result_add_like(NULL, 0);
    says("tutti_result_add_like: result is NULL");
    const char *nothing = NULL;
    CHECK(tutti_fail(TUTTI_ERR_IO, nothing, 0) == TUTTI_ERR_IO);
    says("format is NULL");
    OK(tutti_model_register(&model));
    for (which = 0; which < 7; which++) {
        tutti_session *s = open_with((const char *const[]){
            "model", "null", "batch", "1", "threads", "1", NULL});
        NO(tutti_plan(s), messages[which]);
        tutti_destroy(s);
    }
}

// ---- the laws in fp32 ----------------------------------------------------

static tutti_status same(const tutti_op_types *types, tutti_op_result *result)
{
    (void)types;
    tutti_result_add_like(result, 0);
    return TUTTI_OK;
}

static tutti_status cube32(const tutti_op_data *data)
{
    const float *x = data->in[0];
    for (int64_t i = 0; i < data->in_type[0].count; i++)
        ((float *)data->out[0])[i] = x[i] * x[i] * x[i];
    return TUTTI_OK;
}

static tutti_status cube32_grad(const tutti_op_data *data)
{
    const float *x = data->in[0], *flow = data->in[1];
    const float factor = data->user != NULL ? 3.05f : 3; // wrong by 2%
    for (int64_t i = 0; i < data->in_type[0].count; i++)
        ((float *)data->out[0])[i] =
            data->in[1] != NULL ? factor * x[i] * x[i] * flow[i] : 0;
    return TUTTI_OK;
}

TEST_SLOW(api_laws_hold_for_operators_in_fp32_only, 120)
{
    static const tutti_sample samples[] = {{"", {"f a:2 b:3"}, 0}, {0}};
    static char wrong;
    tutti_operator back = {
        .name = "cube32_grad", .infer = same, .forward_f32 = cube32_grad};
    tutti_operator op = {.name = "cube32",
                         .infer = same,
                         .forward_f32 = cube32,
                         .gradient_op = "cube32_grad",
                         .samples = samples};
    tutti_check_result laws;
    OK(tutti_op_register(&back));
    OK(tutti_op_register(&op));
    OK(tutti_check("cube32", &laws));
    CHECK_MSG(laws.checks > 10 && laws.failed == 0, "%s", tutti_error());
    back.name = "bad32_grad";
    back.user = &wrong;
    op.name = "bad32";
    op.gradient_op = "bad32_grad";
    OK(tutti_op_register(&back));
    OK(tutti_op_register(&op));
    OK(tutti_check("bad32", &laws));
    CHECK(laws.failed > 0);
    says("grad bad32");
}

// ---- logits --------------------------------------------------------------

TEST(api_forward_gives_the_loss_of_the_next_step)
{
    tutti_session *s = open_with(small_gpt);
    tutti_types types;
    tutti_result before, step, after;
    OK(tutti_build(s));
    OK(tutti_get_types(s, &types));
    CHECK(types.x.count == 12 && types.logits.count == 12 * 256);
    int32_t x[12], y[12];
    static float logits[12 * 256], later[12 * 256];
    OK(feed(NULL, &(tutti_batch){
                      .x_type = types.x, .y_type = types.y, .x = x, .y = y}));
    tutti_forward_args args = {.x = x,
                               .x_bytes = sizeof x,
                               .y = y,
                               .y_bytes = sizeof y,
                               .logits = logits,
                               .logits_bytes = sizeof logits};
    OK(tutti_forward(s, &args, &before));
    double loss = 0;
    for (int i = 0; i < 12; i++) {
        double sum = 0;
        for (int c = 0; c < 256; c++)
            sum += exp((double)logits[i * 256 + c]);
        loss += log(sum) - (double)logits[i * 256 + y[i]];
    }
    CHECK(fabs(before.loss - loss / 12) < 1e-5 && before.count == 12);
    OK(tutti_step(s, feed, NULL, &step));
    CHECK(fabs(before.loss - step.loss) < 1e-5);
    args.logits = later;
    OK(tutti_forward(s, &args, &after)); // with the weights of now
    CHECK(after.loss < before.loss);
    CHECK(memcmp(logits, later, sizeof logits) != 0);
    args.y = NULL;
    OK(tutti_forward(s, &args, &after));
    CHECK(after.count == 0 && isnan(after.loss));
    args.x_bytes = 4;
    NO(tutti_forward(s, &args, NULL), "has 48 bytes, not 4");
    tutti_destroy(s);
}

// ---- text ----------------------------------------------------------------

static void collect(void *user, const char *text)
{
    strncat(user, text, 4000 - strlen(user));
}

static void write_text(const char *path)
{
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    for (int i = 0; i < 400; i++)
        fprintf(f, "the cat sat on the mat. caf\xc3\xa9 %d\n", i % 7);
    CHECK(fclose(f) == 0);
}

static const char *const of_text[] = {
    "model",       "gpt",  "model.layers", "1",     "model.width",    "16",
    "model.heads", "2",    "seq",          "16",    "batch",          "4",
    "data",        "text", "data.path",    "a.txt", "data.tokenizer", "bytes",
    "run",         "run",  "train.steps",  "20",    "threads",        "1",
    NULL};

TEST(api_trains_opens_and_writes_text)
{
    char folder[] = "/tmp/tutti-use-XXXXXX";
    enter(folder);
    write_text("a.txt");
    tutti_session *s = open_with(of_text), *back = NULL;
    tutti_train_result end;
    tutti_evaluation score, again;
    tutti_generated made;
    char one[4096] = "", two[4096] = "", text[4096] = "";
    const tutti_generate_options options = {
        .prompt = "the ", .tokens = 30, .temperature = 1, .seed = 3};
    OK(tutti_train(s, NULL, &end));
    OK(tutti_evaluate(s, &score));
    CHECK(fabs(score.loss - end.val_loss) < 1e-5);
    OK(tutti_generate(s, &options, collect, one, &made));
    CHECK(made.prompt_tokens == 4 && made.tokens == 30 && one[0] != '\0');

    OK(tutti_create(&back));
    OK(tutti_open(back, "run"));
    OK(tutti_evaluate(back, &again));
    CHECK(fabs(score.loss - again.loss) < 1e-6);
    OK(tutti_generate(back, &options, collect, two, NULL));
    CHECK_MSG(strcmp(one, two) == 0, "%s, %s", one, two);
    CHECK(tutti_open(back, "run") == TUTTI_ERR_STATE);

    int32_t ids[16];
    int64_t n = 0;
    OK(tutti_encode(back, "caf\xc3\xa9", -1, NULL, 0, &n));
    CHECK(n == 5);
    NO(tutti_encode(back, "caf\xc3\xa9", -1, ids, 4, &n), "room for 4");
    OK(tutti_encode(back, "caf\xc3\xa9", 5, ids, 16, &n));
    CHECK(n == 5 && ids[3] == 0xc3);
    OK(tutti_decode(back, ids, n, collect, text));
    CHECK(strcmp(text, "caf\xc3\xa9") == 0);
    text[0] = '\0';
    OK(tutti_decode(back, ids, 4, collect, text)); // ends inside of a character
    CHECK(strcmp(text, "caf\xef\xbf\xbd") == 0);
    NO(tutti_decode(back, (int32_t[]){256}, 1, collect, text), "256");

    OK(tutti_export("run", "out", NULL));
    CHECK(access("out/model.safetensors", R_OK) == 0);
    CHECK(access("out/tokenizer.json", R_OK) == 0);
    NO(tutti_export("run", "out2", "gguf"), "\"gguf\"");
    tutti_session *other = NULL;
    OK(tutti_create(&other));
    OK(tutti_open(other, "out"));
    two[0] = '\0';
    OK(tutti_generate(other, &options, collect, two, NULL));
    CHECK_MSG(strcmp(one, two) == 0, "%s, %s", one, two);
    tutti_destroy(other);
    tutti_destroy(s);
    tutti_destroy(back);
    leave();
}

static void keep_note(void *user, int64_t step, const char *text)
{
    (void)step;
    snprintf(user, 512, "%s", text);
}

// What the program says about an export the library says too.
TEST(api_export_tells_what_others_compute_otherwise)
{
    char folder[] = "/tmp/tutti-use-XXXXXX", note[512] = "";
    const tutti_watch watch = {.user = note, .note = keep_note};
    const tutti_watch deaf = {0};
    enter(folder);
    write_text("a.txt");
    tutti_session *s = open_with((const char *const[]){"model",
                                                       "llama",
                                                       "model.layers",
                                                       "1",
                                                       "model.width",
                                                       "8",
                                                       "model.heads",
                                                       "2",
                                                       "model.kv_heads",
                                                       "2",
                                                       "model.experts",
                                                       "4",
                                                       "model.capacity",
                                                       "1",
                                                       "seq",
                                                       "8",
                                                       "batch",
                                                       "2",
                                                       "data",
                                                       "text",
                                                       "data.path",
                                                       "a.txt",
                                                       "data.tokenizer",
                                                       "bytes",
                                                       "run",
                                                       "run",
                                                       "train.steps",
                                                       "1",
                                                       "threads",
                                                       "1",
                                                       NULL});
    OK(tutti_train(s, NULL, NULL));
    tutti_destroy(s);
    OK(tutti_export_watched("run", "out", NULL, &watch));
    CHECK_MSG(strstr(note, "model.capacity=1 left out") != NULL, "%s", note);
    CHECK(strchr(note, '\n') == NULL);
    OK(tutti_export_watched("run", "out", NULL, &deaf));
    OK(tutti_export_watched("run", "out", NULL, NULL));
    NO(tutti_export_watched(NULL, "out", NULL, &watch), "from is NULL");
    NO(tutti_export_watched("run", "run", NULL, &watch), "folder of a run");
    NO(tutti_export("run", "a.txt", NULL), "is a file");
    leave();
}

// A model from outside: a table of the next token.
static tutti_status build_table(tutti_builder *b, const void *options,
                                tutti_model_io *io, void *user)
{
    const int64_t vocab = *(const int64_t *)options;
    const tutti_init init = {TUTTI_INIT_NORMAL, 0.02};
    (void)user;
    if (io->seq == 0)
        io->seq = 8;
    const tutti_value in[] = {
        tutti_input(b, "x", TUTTI_I32, "batch:%lld seq:%lld",
                    (long long)io->batch, (long long)io->seq),
        tutti_param(b, "table", init, "vocab:%lld classes:%lld",
                    (long long)vocab, (long long)vocab)};
    io->labels = tutti_input(b, "y", TUTTI_I32, "batch:%lld seq:%lld",
                             (long long)io->batch, (long long)io->seq);
    io->logits = tutti_op(b, "embedding", "", in, 2, NULL);
    return TUTTI_OK;
}

TEST(api_evaluates_and_exports_models_from_outside)
{
    static const tutti_option table[] = {
        {"vocab", "256", "tokens", TUTTI_OPTION_I64, 0, NULL, 2, 1e6}, {0}};
    const tutti_model model = {.name = "bigram",
                               .task = TUTTI_TOKENS,
                               .options = table,
                               .options_bytes = sizeof(int64_t),
                               .build = build_table};
    char folder[] = "/tmp/tutti-use-XXXXXX";
    enter(folder);
    write_text("a.txt");
    OK(tutti_model_register(&model));
    tutti_session *s = open_with((const char *const[]){
        "model",   "bigram", "seq",         "16",    "batch",          "4",
        "data",    "text",   "data.path",   "a.txt", "data.tokenizer", "bytes",
        "run",     "run",    "train.steps", "20",    "optim.lr",       "0.1",
        "threads", "1",      NULL});
    tutti_train_result end;
    tutti_evaluation score;
    OK(tutti_train(s, NULL, &end));
    CHECK(end.val_loss < 4);
    tutti_destroy(s);
    OK(tutti_create(&s));
    OK(tutti_open(s, "run"));
    OK(tutti_evaluate(s, &score));
    CHECK(fabs(score.loss - end.val_loss) < 1e-5);
    tutti_destroy(s);
    OK(tutti_export("run", "out", "folder"));
    OK(tutti_create(&s));
    OK(tutti_set(s, "data", "text"));
    OK(tutti_set(s, "data.path", "a.txt"));
    OK(tutti_set(s, "data.tokenizer", "bytes"));
    OK(tutti_open(s, "out"));
    OK(tutti_evaluate(s, &score));
    CHECK(fabs(score.loss - end.val_loss) < 1e-5);
    tutti_destroy(s);
    leave();
}
