// tutti.h - the only installed header of libtutti: train a model, look inside,
// bring your own.
//
//   settings -> tutti_build -> tutti_step, again and again -> tutti_save
//
// Every function that can fail returns a status; tutti_error then says in one
// sentence what went wrong. Outputs are written on success only. A session is used
// by one thread at a time; different sessions may be used by different threads. A NULL
// where something is needed is refused with TUTTI_ERR_ARG (building: the build fails).
// Text and structs that you pass in are copied unless it says otherwise; what you
// get back belongs to the library and lives as long as what you asked.

#ifndef TUTTI_TUTTI_H
#define TUTTI_TUTTI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#    define TUTTI_PRINTF(format_at, list_at)                                   \
        __attribute__((format(printf, format_at, list_at)))
#    define TUTTI_UNUSED __attribute__((unused))
#else
#    define TUTTI_PRINTF(format_at, list_at)
#    define TUTTI_UNUSED
#endif

#define TUTTI_VERSION "0.1.0"

// The version of the library that is linked, like TUTTI_VERSION.
const char *tutti_version(void);

// ---- errors --------------------------------------------------------------

typedef enum tutti_status {
    TUTTI_OK = 0,
    TUTTI_ERR_ARG = -1,   // something impossible was asked for
    TUTTI_ERR_NOMEM = -2, // memory is exhausted, or the model does not fit
    TUTTI_ERR_UNSUPPORTED = -3, // legal, but not on this machine
    TUTTI_ERR_IO = -4,          // a file failed
    TUTTI_ERR_PEER = -5,        // another process failed
    TUTTI_ERR_TIMEOUT = -6,     // a wait reached its deadline
    TUTTI_ERR_STATE = -7,       // called at the wrong time
} tutti_status;

// The message of this thread's last failure; "" before the first. It is replaced
// by the next failure.
const char *tutti_error(void);

// For callbacks: records a message, printf-style, and returns `status`.
tutti_status tutti_fail(tutti_status status, const char *format, ...)
    TUTTI_PRINTF(2, 3);

// ---- what tensors are ----------------------------------------------------

typedef enum tutti_dtype {
    TUTTI_F64,
    TUTTI_F32,
    TUTTI_BF16,
    TUTTI_F16,
    TUTTI_I64,
    TUTTI_I32,
    TUTTI_U8,
} tutti_dtype;

int64_t tutti_dtype_bytes(tutti_dtype dtype); // of one element

enum { TUTTI_MAX_DIMS = 6, TUTTI_MAX_OUT = 8 };

// A dense, row-major tensor. Dimensions have names: `shape` is "batch:8 in:784".
typedef struct tutti_type {
    tutti_dtype dtype;
    int ndim; // 0: a scalar; -1: an optional input that is absent
    int64_t dim[TUTTI_MAX_DIMS];
    int64_t count; // elements
    const char *shape;
} tutti_type;

// ---- a session: one model being trained ----------------------------------

typedef struct tutti_session tutti_session;

// An empty session, to be given to tutti_destroy.
tutti_status tutti_create(tutti_session **session_out);
void tutti_destroy(tutti_session *session); // NULL is fine

// Sets "model", "batch", "model.layers", "optim.lr", ... as on the command line of
// the program; `tutti list settings` names them. Later settings win. Keys and
// values are checked when the model is planned. Only before that.
tutti_status tutti_set(tutti_session *session, const char *key,
                       const char *value);

// The same from a YAML file.
tutti_status tutti_read_file(tutti_session *session, const char *path);

// Builds the graph and lowers it to a plan: checks all settings, decides all
// memory, allocates none of it. After a failure settings may be changed and
// the call repeated; after success it does nothing.
tutti_status tutti_plan(tutti_session *session);

// Plans, refuses what does not fit (the message is a table with the cheapest
// changes that would), allocates and initialises the weights from `seed`.
tutti_status tutti_build(tutti_session *session);

typedef struct tutti_info {
    int64_t parameters; // trained numbers
    int64_t peak_bytes; // the block that tutti_build allocates; the sum of:
    int64_t parameter_bytes, gradient_bytes, optimiser_bytes, buffer_bytes,
        activation_bytes, scratch_bytes, gap_bytes;
    double flops;     // of one step, all operators
    const char *note; // something to know (no bf16 here, ...); NULL: nothing
} tutti_info;

tutti_status tutti_get_info(const tutti_session *session,
                            tutti_info *info_out); // planned

// Receives a piece of text; it ends with '\0' and is not kept.
typedef void tutti_write_fn(void *user, const char *text);

// The plan as text: memory, FLOPs, and the list of steps if asked for.
tutti_status tutti_print_plan(const tutti_session *session, bool with_steps,
                              tutti_write_fn *write, void *user);

// ---- training ------------------------------------------------------------

// What a feed has to fill: one micro-batch, or this rank's samples of it. The types are
// those of the model's inputs: pixels or token ids in x, classes or next tokens (int32)
// in y; a label below 0 is left out of the loss.
typedef struct tutti_batch {
    int64_t step, micro; // updates made before; micro-batch of this step
    tutti_type x_type, y_type;
    void *x, *y;
    int64_t
        first; // which sample of the micro-batch x and y begin with; alone 0
} tutti_batch;

// Fills x and y. Anything but TUTTI_OK ends the step, and no weight changes.
typedef tutti_status tutti_feed_fn(void *user, const tutti_batch *batch);

typedef struct tutti_result {
    double loss;    // mean over the targets
    double count;   // targets
    double correct; // targets whose best guess was right
    double norm;    // of the gradient of the mean loss, before clipping
} tutti_result;

// One update from `accumulate` micro-batches. Needs tutti_build.
tutti_status tutti_step(tutti_session *session, tutti_feed_fn *feed, void *user,
                        tutti_result *result_out);

// Gives a feed a name in this session, and steps with it. `user` must live as long
// as it is used. A name is given once.
tutti_status tutti_feed_register(tutti_session *session, const char *name,
                                 tutti_feed_fn *feed, void *user);
tutti_status tutti_step_from(tutti_session *session, const char *name,
                             tutti_result *result_out);

// The learning rate of the steps that follow.
tutti_status tutti_set_rate(tutti_session *session, double rate);

// ---- the whole loop ------------------------------------------------------

typedef struct tutti_point { // after every log.every steps
    int64_t step, steps;     // done, wanted
    double epoch;
    double loss; // mean since the last point; NaN below: has none
    double accuracy, perplexity;
    double rate, norm; // learning rate; norm of the gradient
    double step_seconds;
} tutti_point;

typedef struct tutti_evaluation { // on the validation data
    int64_t step;
    double loss, accuracy, perplexity;
    bool is_best;
} tutti_evaluation;

// What is told while training goes on, between steps; any may be NULL.
typedef struct tutti_watch {
    void *user;
    void (*point)(void *user, const tutti_point *point);
    void (*evaluation)(void *user, const tutti_evaluation *evaluation);
    // Resumed, rolled back, disk full, a text the model wrote.
    void (*note)(void *user, int64_t step, const char *text);
} tutti_watch;

typedef struct tutti_train_options {
    const tutti_watch *watch; // NULL: nobody looks
    // Not 0: finish the step, save and return. A signal handler may set it (a
    // sig_atomic_t, which is int).
    const volatile int *stop; // NULL: never
    bool is_fresh;            // a run that is there already is renamed FOLDER.1
    const char
        *fork; // begin with the newest checkpoint of this run; NULL: none
} tutti_train_options;

typedef enum tutti_train_reason {
    TUTTI_RUN_DONE,    // all steps, or train.stop
    TUTTI_RUN_EARLY,   // train.patience
    TUTTI_RUN_STOPPED, // `stop`; the same call goes on from there
} tutti_train_reason;

typedef struct tutti_train_result {
    tutti_train_reason reason;
    int64_t step;
    double loss, val_loss, best_loss, val_accuracy; // NaN: not known
} tutti_train_result;

// Trains as `tutti train` does, from the session's settings: data, train.steps,
// run, ...: with metrics, evaluation and checkpoints in the folder `run` names, and
// going on from the newest of them, bit for bit. Only before tutti_plan; afterwards
// the session is built and has the trained weights. Options and result may be NULL.
tutti_status tutti_train(tutti_session *session,
                         const tutti_train_options *options,
                         tutti_train_result *result_out);

// ---- many ranks ----------------------------------------------------------

// What every rank does with its session: build and step, train, evaluate, save. All ranks
// make the same calls in the same order; files are rank 0's to write, and what is read of
// tensors is the same on all of them.
typedef tutti_status tutti_rank_fn(void *user, tutti_session *session);

// Runs `fn` on n ranks that train one model together, as mesh.*, zero and the other
// settings of the session say. Under mpirun, srun or torchrun (n: 0 or their number) this
// process is one of the ranks. Otherwise n children are forked, which end with `fn`; the
// call returns when the last has ended, with the sentence of the first that failed. Call
// it before this process has threads: before anything is built. The session keeps its
// settings and nothing else.
tutti_status tutti_ranks_run(tutti_session *session, int n, tutti_rank_fn *fn,
                             void *user);

// Whether ranks compute what one rank does: a step of the settings on all ranks and on
// one, from the same seed on random batches. precision=fp64 tells most.
typedef struct tutti_verified {
    bool is_ok; // all within the limits of the precision, checkpoints too
    bool has_same_bits;
    // Largest relative differences of the loss, of gradients, of updated weights.
    double loss, gradient, weight;
    const char *worst; // tensor; lives as long as the session
} tutti_verified;

// Inside of ranks, before tutti_plan. The result is the same on all of them.
tutti_status tutti_verify(tutti_session *session, tutti_verified *result_out);

int tutti_rank(const tutti_session *session);       // outside of ranks 0
int tutti_rank_count(const tutti_session *session); // outside of ranks 1

// ---- tensors by name -----------------------------------------------------

typedef enum tutti_role {
    TUTTI_PARAMETER, // a weight that is trained
    TUTTI_BUFFER,    // other state of the model: batch norm's statistics
    TUTTI_OPTIMISER, // "fc.weight.exp_avg"
    TUTTI_GRADIENT,  // "fc.weight.grad": of the mean loss, from the last step
} tutti_role;

typedef struct tutti_tensor {
    const char *name;
    tutti_role role;
    tutti_type type;
} tutti_tensor;

// Needs tutti_plan. Index and name come from the same list, weights first.
int64_t tutti_tensor_count(const tutti_session *session); // 0 before
tutti_status tutti_tensor_at(const tutti_session *session, int64_t index,
                             tutti_tensor *tensor_out);
tutti_status tutti_tensor_find(const tutti_session *session, const char *name,
                               tutti_tensor *tensor_out);

// Copies a tensor from or to dense memory of exactly `bytes` bytes. Needs
// tutti_build. Gradients are there after a step and cannot be written. On several ranks
// all of them call, and each reads and writes the whole tensor, wherever its parts lie.
tutti_status tutti_read(tutti_session *session, const char *name, void *data,
                        int64_t bytes);
tutti_status tutti_write(tutti_session *session, const char *name,
                         const void *data, int64_t bytes);

// Parameters and buffers to a safetensors file, under the names that Hugging
// Face or torchvision use. The file is complete or not there at all.
tutti_status tutti_save(tutti_session *session, const char *path);

// And back, also from a folder with model.safetensors or shards and their index, or
// from a run. Every tensor must be there with its shape and none besides, else
// nothing is changed; other floating-point types are converted. "transformer.",
// "model." and "_orig_mod." before names do not matter, nor do attention masks
// and a head that equals the embedding it is tied to.
tutti_status tutti_load(tutti_session *session, const char *path);

// ---- using a model -------------------------------------------------------

// Model, weights (averaged ones where there are some) and tokenizer of a run, a
// checkpoint or a folder of Hugging Face's, into a session that is not planned yet. Of
// a run all settings come along, its data included; those that were set before win.
// Afterwards the session is built.
tutti_status tutti_open(tutti_session *session, const char *path);

// Loss and accuracy of the weights as they are, on the validation data that the
// settings name. Needs tutti_build, tutti_train or tutti_open.
tutti_status tutti_evaluate(tutti_session *session,
                            tutti_evaluation *evaluation_out);

// What tutti_forward takes and gives for one micro-batch. Needs tutti_build.
typedef struct tutti_types {
    tutti_type x, y, logits;
} tutti_types;
tutti_status tutti_get_types(tutti_session *session, tutti_types *types_out);

typedef struct tutti_forward_args {
    const void *x; // as tutti_get_types says; sizes are checked
    int64_t x_bytes;
    const void *y; // labels; NULL: no loss
    int64_t y_bytes;
    float *
        logits; // gets [batch, seq, classes] or [batch, classes]; NULL: not wanted
    int64_t logits_bytes;
} tutti_forward_args;

// The model on one batch: no dropout, running statistics, nothing changes. Without
// labels the count is 0 and the loss is NaN; the norm always is. The result may be
// NULL.
tutti_status tutti_forward(tutti_session *session,
                           const tutti_forward_args *args,
                           tutti_result *result_out);

// The tokenizer of the session: "bytes", or a folder or file (tokenizer.json, ...).
// tutti_open and tutti_train set the one that the model was trained with.
tutti_status tutti_set_tokenizer(tutti_session *session, const char *spec);

// The ids of a text of `bytes` bytes (-1: up to its '\0'); special tokens in it count
// as such. `ids` has room for so many; NULL: they are only counted.
tutti_status tutti_encode(const tutti_session *session, const char *text,
                          int64_t bytes, int32_t *ids, int64_t room,
                          int64_t *n_out);

// The text of ids, UTF-8, in one call of `write`.
tutti_status tutti_decode(const tutti_session *session, const int32_t *ids,
                          int64_t n, tutti_write_fn *write, void *user);

typedef struct tutti_generate_options {
    const char *prompt; // NULL or "": the beginning of a text
    int64_t tokens;     // most new ones
    double temperature; // 0: always the likeliest
    int64_t top_k;      // 0: all
    double top_p;       // 0 or 1: all
    int64_t seed;       // the same seed and number give the same text
    int64_t number;
    const volatile int *stop; // as in tutti_train_options; NULL: never
} tutti_generate_options;

typedef struct tutti_generated {
    int64_t prompt_tokens, tokens;
    bool is_end; // the model ended the text itself
} tutti_generated;

// What a language model writes after the prompt. `write` is called with whole
// characters as they come. Without a tokenizer prompt and text are ids with blanks
// between. The result may be NULL.
tutti_status tutti_generate(tutti_session *session,
                            const tutti_generate_options *options,
                            tutti_write_fn *write, void *user,
                            tutti_generated *result_out);

// Writes the model of a run, a checkpoint or a folder for others, as `tutti export`
// does: "folder" (safetensors, config.json, the tokenizer), "llmc" or "onnx". NULL:
// "folder". Models that this process registered can be exported too. `out` is whole or
// not there; an earlier export is replaced, anything else is refused.
tutti_status tutti_export(const char *from, const char *out,
                          const char *format);

// The same; `watch` is told in notes what the program would print: what was left out,
// what others will compute otherwise. NULL: nobody looks.
tutti_status tutti_export_watched(const char *from, const char *out,
                                  const char *format, const tutti_watch *watch);

// ---- your own model ------------------------------------------------------

// Options are plain data: each is stored in a struct of yours, at an offset.
typedef enum tutti_option_type {
    TUTTI_OPTION_I64,    // int64_t
    TUTTI_OPTION_F64,    // double
    TUTTI_OPTION_BOOL,   // bool
    TUTTI_OPTION_CHOICE, // int: index into "relu|gelu"
    TUTTI_OPTION_STR,    // const char *
} tutti_option_type;

typedef struct tutti_option {
    const char *name; // NULL ends the table
    const char *fallback, *doc;
    tutti_option_type type;
    size_t offset;
    const char *choices; // TUTTI_OPTION_CHOICE only
    double min, max;     // numbers; both 0: any value
} tutti_option;

typedef struct tutti_builder tutti_builder; // a graph being written

// A value of the graph.
typedef struct tutti_value {
    int id;
} tutti_value;
static const tutti_value TUTTI_NONE TUTTI_UNUSED = {-1};

typedef enum tutti_task { TUTTI_TOKENS, TUTTI_IMAGES } tutti_task;

// Extents of one micro-batch, as set; `seq` or `image` is 0 when it was not: then
// write the one you use. Logits and labels are for you to fill.
typedef struct tutti_model_io {
    int64_t batch, seq, image;
    tutti_value logits; // [..., classes]
    tutti_value labels; // the input "y", int32, the logits' other dimensions
} tutti_model_io;

// Declares the inputs "x" and "y" and emits everything up to the logits.
typedef tutti_status tutti_model_build_fn(tutti_builder *b, const void *options,
                                          tutti_model_io *io, void *user);

typedef struct tutti_model {
    const char *name, *doc;
    tutti_task task;             // whether it is told `seq` or `image`
    const tutti_option *options; // NULL: none
    int64_t options_bytes;       // of the struct they are stored in
    tutti_model_build_fn *build;
    void *user; // given to build; must live until the process ends
} tutti_model;

// From now on "model=name" is this one, in every session of this process. A
// name is given once.
tutti_status tutti_model_register(const tutti_model *model);

// Building. Errors are sticky: after the first, every call returns TUTTI_NONE and
// the build fails with that message whatever the callback returns, so a model
// reads like a formula. Shapes are printf formats: "out:%lld in:%lld".

typedef enum tutti_init_kind {
    TUTTI_INIT_CONST,   // a
    TUTTI_INIT_NORMAL,  // mean 0, deviation a
    TUTTI_INIT_UNIFORM, // [-a, a)
} tutti_init_kind;

typedef struct tutti_init {
    tutti_init_kind kind;
    double a;
} tutti_init;

// The type of activations in the precision that was asked for.
tutti_dtype tutti_compute_dtype(const tutti_builder *b);

tutti_value tutti_input(tutti_builder *b, const char *name, tutti_dtype dtype,
                        const char *shape, ...) TUTTI_PRINTF(4, 5);
tutti_value tutti_param(tutti_builder *b, const char *name, tutti_init init,
                        const char *shape, ...) TUTTI_PRINTF(4, 5);
// State that is not trained, and the value that replaces it after each step.
tutti_value tutti_buffer(tutti_builder *b, const char *name, tutti_init init,
                         const char *shape, ...) TUTTI_PRINTF(4, 5);
void tutti_update(tutti_builder *b, tutti_value buffer, tutti_value value);

// Any operator by name (`tutti list ops`), with options as text, printf-style
// percent signs not interpreted: tutti_op(b, "matmul", "transpose_b=true", in, 2,
// NULL). Returns the first output; `out` (NULL, or room for TUTTI_MAX_OUT) gets all.
tutti_value tutti_op(tutti_builder *b, const char *name, const char *options,
                     const tutti_value *in, int n_in, tutti_value *out);

// The extent of dimension `d`; 1 after an error.
int64_t tutti_dim(const tutti_builder *b, tutti_value v, int d);

// Names of parameters inside a scope get "scope." in front. Push returns what pop
// wants back.
int tutti_scope_push(tutti_builder *b, const char *format, ...)
    TUTTI_PRINTF(2, 3);
void tutti_scope_pop(tutti_builder *b, int scope);

// ---- your own data -------------------------------------------------------

// Tokens [first, first + n) of the stream, or image `index` (floats, channels
// outermost) and its class. Called by several threads at once, in any order and
// more than once for the same place, where it must give the same. Anything but
// TUTTI_OK ends the step with the message of tutti_fail.
typedef tutti_status tutti_tokens_fn(void *user, int64_t first, int64_t n,
                                     int32_t *out);
typedef tutti_status tutti_image_fn(void *user, int64_t index, float *pixels,
                                    int32_t *label_out);

typedef struct tutti_source {
    const char *name, *doc;
    tutti_task kind;
    int64_t count;     // tokens or images, those for validation included
    int64_t val_count; // at the end, for validation; 0: as data.holdout says
    int64_t classes;   // or vocabulary; 0: as the model says
    int64_t channels, height, width; // of images
    tutti_tokens_fn *tokens;         // the one that goes with `kind`
    tutti_image_fn *image;
    void *user; // given to it; must live until the process ends
} tutti_source;

// From now on "data=name" is this one, in every session of this process, with all
// of data.* but a path. A name is given once.
tutti_status tutti_source_register(const tutti_source *source);

// ---- your own operator ---------------------------------------------------

// An operator seen from outside: the types of its operands.
typedef struct tutti_op_types {
    void *user;
    const void *options; // NULL when the operator has none
    int n_in;
    const tutti_type *in;
} tutti_op_types;

// Says what comes out, by calling one of these once per output.
typedef struct tutti_op_result tutti_op_result;
void tutti_result_add(tutti_op_result *result, tutti_dtype dtype,
                      const char *shape); // "batch:8 in:4"
void tutti_result_add_like(tutti_op_result *result, int input);

typedef tutti_status tutti_infer_fn(const tutti_op_types *types,
                                    tutti_op_result *result);

// Computes the outputs from the inputs, all dense. Must not keep the pointers.
typedef struct tutti_op_data {
    void *user;
    const void *options;
    int n_in, n_out;
    const tutti_type *in_type, *out_type; // floats: as the kernel was declared
    const void *const *in;                // NULL: absent
    void *const *out;
} tutti_op_data;
typedef tutti_status tutti_kernel_fn(const tutti_op_data *data);

// Emits what computes din[i], the gradient of input i, wherever need[i]. dout[i]
// may be TUTTI_NONE (nothing flows back from there), din[i] too (it is zero).
typedef struct tutti_op_gradient {
    void *user;
    const void *options;
    int n_in, n_out;
    const tutti_value *in, *out, *dout;
    const bool *need;
    tutti_value *din;
} tutti_op_gradient;
typedef tutti_status tutti_gradient_fn(tutti_builder *b,
                                       const tutti_op_gradient *gradient);

// An example that tutti_check tries the laws on. Inputs are a kind and a shape:
// "f a:3 b:5" any floats, "f+ ..." positive, "f! ..." distinct and not near 0,
// "i<7 ..." int32 below 7, "-" absent.
typedef struct tutti_sample {
    const char *options; // "" : the defaults
    const char *in[8];   // ends with NULL
    double flops;        // what `flops` must say, counted by hand
} tutti_sample;

typedef struct tutti_operator {
    const char *name, *doc;
    const tutti_option *options; // NULL: none
    int64_t options_bytes;
    tutti_infer_fn *infer;
    // At least one: floats arrive as float or as double, converted when only
    // the other one is there.
    tutti_kernel_fn *forward_f32, *forward_f64;
    // One of these, or none: then it cannot be differentiated. The operator of
    // this name takes the inputs, then the gradients of the outputs (absent where
    // nothing flows back), has the same options, and gives the gradients of the
    // floating-point inputs in their order.
    const char *gradient_op;
    tutti_gradient_fn *gradient;
    double (*flops)(const tutti_op_types *types); // NULL: none worth counting
    const tutti_sample *samples; // NULL, or ends with in[0] NULL
    void *user; // given to all of them; must live until the process ends
} tutti_operator;

// From now on tutti_op knows it, in every session of this process. A name is given
// once.
tutti_status tutti_op_register(const tutti_operator *op);

typedef struct tutti_check_result {
    int64_t checks, failed;
} tutti_check_result;

// Tries the laws (gradient = finite difference, every kernel = reference, ...) on
// operators whose name contains `only` (NULL: all, which takes a minute). When one
// does not hold, `failed` says how often and tutti_error the first of it; the
// status tells only whether they could be tried.
tutti_status tutti_check(const char *only, tutti_check_result *result_out);

#ifdef __cplusplus
}
#endif

#endif
