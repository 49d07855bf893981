// pretrained - reads config.json of GPT-2, Llama and their relatives into settings.
//
// A config.json may leave out what is the default of its class in transformers, so
// the defaults are in a table here, per family. More important is what cannot be
// done: a model that is loaded with another activation, a scaling of positions that
// is ignored, or quantized weights gives wrong numbers without an error. So
// everything that changes the computation is either understood or refused by name.

#include "store/pretrained.h"

#include "base/json_read.h"

#include <math.h>
#include <string.h>

enum { MAX_ENDS = 4096 }; // ids that end a text

typedef struct reading {
    const tt_json_value *root;
    const char *name; // of the file
    tt_arena *arena;
    tt_settings *settings;
} reading;

// A number of the file, and the setting that it becomes.
typedef struct number {
    const char *key, *setting;
    double fallback; // the default of transformers
} number;

static tt_status set_text(const reading *r, const char *key, const char *value)
{
    return tt_settings_set(r->settings, key, value, r->name, r->arena);
}

static tt_status set_number(const reading *r, const char *key, double value)
{
    tt_str text = {0};
    if (value == floor(value) && fabs(value) < 1e15)
        tt_str_addf(&text, "%lld", (long long)value);
    else
        tt_str_add_f64(&text, value);
    tt_status status = tt_str_status(&text);
    if (status == TT_OK)
        status = set_text(r, key, tt_str_text(&text));
    tt_str_fini(&text);
    return status;
}

static tt_status set_numbers(const reading *r, const number *all)
{
    for (; all->key != NULL; all++) {
        const tt_json_value *v = tt_json_get(r->root, all->key);
        if (v != NULL && v->type != TT_JSON_NUMBER && v->type != TT_JSON_NULL)
            return tt_fail(TT_ERR_ARG, "%s: \"%s\" is not a number", r->name,
                           all->key);
        TT_TRY(set_number(r, all->setting, tt_json_number(v, all->fallback)));
    }
    return TT_OK;
}

static tt_status refuse(const reading *r, const char *what)
{
    return tt_fail(TT_ERR_UNSUPPORTED, "%s: %s is not supported", r->name,
                   what);
}

// "key" must be one of the texts (up to three).
static tt_status want_text(const reading *r, const char *key,
                           const char *const *one_of)
{
    const char *text = tt_json_text(tt_json_get(r->root, key), one_of[0]);
    for (int i = 0; i < 3 && one_of[i] != NULL; i++)
        if (strcmp(text, one_of[i]) == 0)
            return TT_OK;
    return tt_fail(TT_ERR_UNSUPPORTED, "%s: %s=%s is not supported, only %s",
                   r->name, key, text, one_of[0]);
}

static tt_status want_truth(const reading *r, const char *key, bool fallback,
                            bool wanted)
{
    if (tt_json_truth(tt_json_get(r->root, key), fallback) == wanted)
        return TT_OK;
    return tt_fail(TT_ERR_UNSUPPORTED, "%s: %s=%s is not supported", r->name,
                   key, wanted ? "false" : "true");
}

static tt_status read_gpt2(const reading *r)
{
    static const number numbers[] = {
        {"n_layer", "model.layers", 12},
        {"n_embd", "model.width", 768},
        {"n_head", "model.heads", 12},
        {"vocab_size", "model.vocab", 50257},
        {"n_positions", "model.context", 1024},
        {"n_inner", "model.ff", 0},
        {"layer_norm_epsilon", "model.eps", 1e-5},
        {0},
    };
    static const char *const acts[] = {"gelu_new", "gelu_pytorch_tanh", NULL};
    TT_TRY(set_text(r, "model", "gpt"));
    TT_TRY(want_text(r, "activation_function", acts));
    TT_TRY(want_truth(r, "tie_word_embeddings", true, true));
    TT_TRY(want_truth(r, "scale_attn_weights", true, true));
    TT_TRY(want_truth(r, "scale_attn_by_inverse_layer_idx", false, false));
    TT_TRY(want_truth(r, "add_cross_attention", false, false));
    return set_numbers(r, numbers);
}

// ---- rotary positions ----------------------------------------------------

// A number among the parameters of the positions; NULL counts as not there.
static double rope_number(const tt_json_value *rope, const char *key,
                          double fallback)
{
    return tt_json_number(tt_json_get(rope, key), fallback);
}

// The attention factor of YaRN if the file sets it; 0: the usual formula.
static double yarn_amplitude(const tt_json_value *rope, double factor)
{
    const double scale = rope_number(rope, "mscale", 0);
    const double all = rope_number(rope, "mscale_all_dim", 0);
    const double given = rope_number(rope, "attention_factor", 0);
    if (given != 0 || scale == 0 || all == 0)
        return given;
    const double log_of = factor > 1 ? 0.1 * log(factor) : 0;
    return (scale * log_of + 1) / (all * log_of + 1);
}

static tt_status read_scaling(const reading *r, const tt_json_value *rope,
                              const char *type)
{
    const double context =
        tt_json_number(tt_json_get(r->root, "max_position_embeddings"), 0);
    double before =
        rope_number(rope, "original_max_position_embeddings", context);
    before = tt_json_number(
        tt_json_get(r->root, "original_max_position_embeddings"), before);
    double factor = rope_number(rope, "factor", 0);
    const bool is_yarn = strcmp(type, "yarn") == 0;
    if (factor == 0 && is_yarn && before > 0)
        factor = context / before;
    if (factor <= 0)
        return tt_fail(TT_ERR_ARG, "%s: rope_type=%s has no \"factor\"",
                       r->name, type);
    TT_TRY(set_text(r, "model.rope", type));
    TT_TRY(set_number(r, "model.rope_factor", factor));
    if (strcmp(type, "linear") == 0)
        return TT_OK;
    TT_TRY(set_number(r, "model.rope_context", before));
    const char *low = is_yarn ? "beta_slow" : "low_freq_factor";
    const char *high = is_yarn ? "beta_fast" : "high_freq_factor";
    TT_TRY(set_number(r, "model.rope_low", rope_number(rope, low, 1)));
    TT_TRY(set_number(r, "model.rope_high",
                      rope_number(rope, high, is_yarn ? 32 : 4)));
    if (!is_yarn)
        return TT_OK;
    if (!tt_json_truth(tt_json_get(rope, "truncate"), true))
        return refuse(r, "truncate=false of yarn");
    return set_number(r, "model.rope_amplitude", yarn_amplitude(rope, factor));
}

// Rotary positions. Newer files have all of it in rope_parameters; older ones have
// the base at the top and the rest in rope_scaling.
static tt_status read_rotary(const reading *r, double usual_theta)
{
    static const char *const known[] = {"linear", "llama3", "yarn"};
    const tt_json_value *rope = tt_json_get(r->root, "rope_scaling");
    if (rope == NULL || rope->type != TT_JSON_OBJECT)
        rope = tt_json_get(r->root, "rope_parameters");
    const char *type = tt_json_text(tt_json_get(rope, "rope_type"), NULL);
    if (type == NULL)
        type = tt_json_text(tt_json_get(rope, "type"), "default");
    double part = rope_number(rope, "partial_rotary_factor", 1);
    part = tt_json_number(tt_json_get(r->root, "partial_rotary_factor"), part);
    if (part != 1)
        return refuse(r, "partial_rotary_factor other than 1");
    for (const tt_json_value *v = rope != NULL ? rope->first : NULL; v != NULL;
         v = v->next)
        if (v->type == TT_JSON_OBJECT)
            return refuse(r, "positions that differ between layers");
    double theta =
        tt_json_number(tt_json_get(r->root, "rope_theta"), usual_theta);
    theta = rope_number(rope, "rope_theta", theta);
    TT_TRY(set_number(r, "model.theta", theta));
    if (strcmp(type, "default") == 0)
        return TT_OK;
    for (int i = 0; i < 3; i++)
        if (strcmp(type, known[i]) == 0)
            return read_scaling(r, rope, type);
    return tt_fail(TT_ERR_UNSUPPORTED,
                   "%s: rope_type=%s is not supported, only default, linear, "
                   "llama3 and yarn",
                   r->name, type);
}

// ---- Llama and those like it ---------------------------------------------

// The defaults of a family, where the file does not say.
typedef struct family {
    const char *type;
    double kv_heads; // 0: as many as heads
    double head;     // 0: width / heads
    double vocab, ff, context, eps, theta, window;
} family;

static const family families[] = {
    {"llama", 0, 0, 32000, 11008, 2048, 1e-6, 1e4, 0},
    {"mistral", 8, 0, 32000, 14336, 131072, 1e-6, 1e4, 4096},
    {"mixtral", 8, 0, 32000, 14336, 131072, 1e-5, 1e6, 0},
    {"qwen2", 32, 0, 151936, 22016, 32768, 1e-6, 1e4, 0},
    {"qwen3", 32, 128, 151936, 22016, 32768, 1e-6, 1e4, 0},
};

static bool is_of(const family *f, const char *type)
{
    return strcmp(f->type, type) == 0;
}

static tt_status set_truth(const reading *r, const char *key, bool value)
{
    return set_text(r, key, value ? "true" : "false");
}

// The size of a head, if it is not width / heads.
static tt_status read_head(const reading *r, const family *f)
{
    const double heads =
        tt_json_number(tt_json_get(r->root, "num_attention_heads"), 32);
    const double width =
        tt_json_number(tt_json_get(r->root, "hidden_size"), 4096);
    const double usual = heads >= 1 ? width / heads : 0;
    const tt_json_value *given = tt_json_get(r->root, "head_dim");
    double head = tt_json_number(given, usual);
    if (given == NULL && f->head > 0) // null means width / heads
        head = f->head;
    return set_number(r, "model.head", head == usual ? 0 : head);
}

// Sliding windows. Qwen names a window but uses it only if it is switched on.
static tt_status read_window(const reading *r, const family *f)
{
    const tt_json_value *given = tt_json_get(r->root, "sliding_window");
    double window = tt_json_number(given, 0);
    if (given == NULL)
        window = f->window;
    const bool is_qwen = is_of(f, "qwen2") || is_of(f, "qwen3");
    if (is_of(f, "llama") ||
        (is_qwen &&
         !tt_json_truth(tt_json_get(r->root, "use_sliding_window"), false)))
        window = 0;
    return window > 0 ? set_number(r, "model.window", window) : TT_OK;
}

static tt_status read_biases(const reading *r, const family *f)
{
    const bool has =
        tt_json_truth(tt_json_get(r->root, "attention_bias"), false) &&
        (is_of(f, "llama") || is_of(f, "qwen3"));
    TT_TRY(set_truth(r, "model.qkv_bias", has || is_of(f, "qwen2")));
    TT_TRY(set_truth(r, "model.out_bias", has));
    TT_TRY(set_truth(r, "model.qk_norm", is_of(f, "qwen3")));
    return set_truth(
        r, "model.mlp_bias",
        is_of(f, "llama") &&
            tt_json_truth(tt_json_get(r->root, "mlp_bias"), false));
}

// transformers adds the balancing loss only if router logits are requested.
static tt_status read_experts(const reading *r)
{
    const number numbers[] = {
        {"num_local_experts", "model.experts", 8},
        {"num_experts_per_tok", "model.choices", 2},
        {0},
    };
    const bool has_balance =
        tt_json_truth(tt_json_get(r->root, "output_router_logits"), false);
    if (tt_json_number(tt_json_get(r->root, "router_jitter_noise"), 0) != 0)
        return refuse(r, "router_jitter_noise other than 0");
    TT_TRY(set_text(r, "model.capacity", "0"));
    TT_TRY(set_number(
        r, "model.balance",
        has_balance ? tt_json_number(
                          tt_json_get(r->root, "router_aux_loss_coef"), 0.001)
                    : 0));
    return set_numbers(r, numbers);
}

static tt_status read_llama(const reading *r, const family *f)
{
    const double heads =
        tt_json_number(tt_json_get(r->root, "num_attention_heads"), 32);
    const tt_json_value *kv = tt_json_get(r->root, "num_key_value_heads");
    const number numbers[] = {
        {"num_hidden_layers", "model.layers", 32},
        {"hidden_size", "model.width", 4096},
        {"num_attention_heads", "model.heads", 32},
        {"num_key_value_heads", "model.kv_heads",
         f->kv_heads > 0 && kv == NULL ? f->kv_heads : heads},
        {"vocab_size", "model.vocab", f->vocab},
        {"intermediate_size", "model.ff", f->ff},
        {"max_position_embeddings", "model.context", f->context},
        {"rms_norm_eps", "model.eps", f->eps},
        {0},
    };
    static const char *const acts[] = {"silu", "swish", NULL};
    TT_TRY(set_text(r, "model", "llama"));
    TT_TRY(want_text(r, "hidden_act", acts));
    TT_TRY(read_head(r, f));
    TT_TRY(read_biases(r, f));
    TT_TRY(read_window(r, f));
    TT_TRY(set_truth(
        r, "model.tied",
        tt_json_truth(tt_json_get(r->root, "tie_word_embeddings"), false)));
    if (is_of(f, "mixtral"))
        TT_TRY(read_experts(r));
    TT_TRY(read_rotary(r, f->theta));
    return set_numbers(r, numbers);
}

// ---- any of them ---------------------------------------------------------

// Whether the class predicts the next token or has no head; its name tells.
static bool is_language_model(const char *architecture)
{
    return tt_ends_with(architecture, "ForCausalLM") ||
           tt_ends_with(architecture, "LMHeadModel") ||
           (tt_ends_with(architecture, "Model") &&
            !tt_ends_with(architecture, "DoubleHeadsModel"));
}

// Refuses models that would be read as something else: quantized ones, other heads.
static tt_status check_kind(const reading *r)
{
    const tt_json_value *quantized =
        tt_json_get(r->root, "quantization_config");
    const tt_json_value *all = tt_json_get(r->root, "architectures");
    if (quantized != NULL && quantized->type != TT_JSON_NULL)
        return tt_fail(
            TT_ERR_UNSUPPORTED,
            "%s: the weights are quantized (quantization_config: "
            "%s), which is not supported; save the model without "
            "it, in bf16 or fp32",
            r->name, tt_json_text(tt_json_get(quantized, "quant_method"), "?"));
    if (all == NULL || all->type != TT_JSON_ARRAY)
        return TT_OK;
    for (const tt_json_value *v = all->first; v != NULL; v = v->next)
        if (!is_language_model(tt_json_text(v, "")))
            return tt_fail(TT_ERR_UNSUPPORTED,
                           "%s: the architecture is %s; of this family only "
                           "models that predict the next token (ForCausalLM) "
                           "are supported",
                           r->name, tt_json_text(v, "?"));
    return TT_OK;
}

tt_status tt_pretrained_read(const char *text, int64_t n, const char *name,
                             tt_arena *arena, tt_settings *settings)
{
    reading r = {.name = name, .arena = arena, .settings = settings};
    TT_TRY(tt_json_read(text, n, name, arena, &r.root));
    const char *type = tt_json_text(tt_json_get(r.root, "model_type"), "");
    const char *dtype = tt_json_text(tt_json_get(r.root, "torch_dtype"), "");
    dtype = tt_json_text(tt_json_get(r.root, "dtype"), dtype);
    TT_TRY(check_kind(&r));
    if (strcmp(dtype, "bfloat16") == 0)
        TT_TRY(set_text(&r, "precision", "bf16"));
    if (strcmp(type, "gpt2") == 0)
        return read_gpt2(&r);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (is_of(&families[i], type))
            return read_llama(&r, &families[i]);
    return tt_fail(TT_ERR_UNSUPPORTED,
                   "%s: the model_type is \"%s\"; gpt2, llama, mistral, "
                   "mixtral, qwen2 and qwen3 are known",
                   name, type);
}

// ---- special tokens ------------------------------------------------------

// An id, or -1.
static int32_t id_of(const tt_json_value *v)
{
    const int64_t id = tt_json_int(v, -1);
    return id >= 0 && id <= INT32_MAX ? (int32_t)id : -1;
}

static void add_id(tt_pretrained_ids *ids, int32_t id)
{
    for (int64_t i = 0; i < ids->n; i++)
        if (ids->v[i] == id)
            return;
    if (id >= 0)
        ids->v[ids->n++] = id;
}

tt_status tt_pretrained_ends(const char *text, int64_t n, const char *name,
                             tt_arena *arena, tt_pretrained_ids *ids)
{
    const tt_json_value *root = NULL;
    TT_TRY(tt_json_read(text, n, name, arena, &root));
    const tt_json_value *end = tt_json_get(root, "eos_token_id");
    const bool is_list = end != NULL && end->type == TT_JSON_ARRAY;
    const int64_t room = ids->n + (is_list ? end->n : 1);
    if (room > MAX_ENDS)
        return tt_fail(TT_ERR_ARG,
                       "%s: %lld tokens that end a text are too "
                       "many: at most %d",
                       name, (long long)room, MAX_ENDS);
    int32_t *v = tt_arena_alloc(arena, room * (int64_t)sizeof *v);
    if (v == NULL)
        return TT_ERR_NOMEM;
    if (ids->n > 0)
        memcpy(v, ids->v, (size_t)ids->n * sizeof *v);
    ids->v = v;
    if (!is_list)
        add_id(ids, id_of(end));
    for (const tt_json_value *e = is_list ? end->first : NULL; e != NULL;
         e = e->next)
        add_id(ids, id_of(e));
    return TT_OK;
}

// The post-processor that adds special tokens around a text, alone or in a
// sequence.
static const tt_json_value *find_template(const tt_json_value *post)
{
    const char *type = tt_json_text(tt_json_get(post, "type"), "");
    if (strcmp(type, "TemplateProcessing") == 0)
        return post;
    if (strcmp(type, "Sequence") != 0)
        return NULL;
    const tt_json_value *all = tt_json_get(post, "processors");
    for (const tt_json_value *v = all != NULL ? all->first : NULL; v != NULL;
         v = v->next) {
        type = tt_json_text(tt_json_get(v, "type"), "");
        if (strcmp(type, "TemplateProcessing") == 0)
            return v;
    }
    return NULL;
}

tt_status tt_pretrained_begin(const char *text, int64_t n, const char *name,
                              tt_arena *arena, int32_t *begin_out)
{
    const tt_json_value *root = NULL;
    TT_TRY(tt_json_read(text, n, name, arena, &root));
    const tt_json_value *template =
        find_template(tt_json_get(root, "post_processor"));
    const tt_json_value *single = tt_json_get(template, "single");
    const tt_json_value *first =
        single != NULL && single->type == TT_JSON_ARRAY ? single->first : NULL;
    const char *id = tt_json_text(
        tt_json_get(tt_json_get(first, "SpecialToken"), "id"), NULL);
    const tt_json_value *special = NULL;
    *begin_out = -1;
    if (id != NULL)
        special = tt_json_get(
            tt_json_get(tt_json_get(template, "special_tokens"), id), "ids");
    if (special != NULL && special->type == TT_JSON_ARRAY)
        *begin_out = id_of(special->first);
    return TT_OK;
}
