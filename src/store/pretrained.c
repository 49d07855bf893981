// pretrained - GPT2Config and LlamaConfig, with their defaults.

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

// A number of the file, and the setting that it is.
typedef struct number {
    const char *key, *setting;
    double fallback; // the library's own
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

// The base of the rotary positions: at the top, or among its parameters.
static tt_status read_rotary(const reading *r)
{
    const tt_json_value *set = tt_json_get(r->root, "rope_parameters");
    const tt_json_value *scaling = tt_json_get(r->root, "rope_scaling");
    const tt_json_value *of[] = {set, scaling};
    for (int i = 0; i < 2; i++) {
        const char *type = tt_json_text(tt_json_get(of[i], "rope_type"), NULL);
        if (type == NULL)
            type = tt_json_text(tt_json_get(of[i], "type"), "default");
        if (strcmp(type, "default") != 0)
            return refuse(r, "scaling of rotary positions");
    }
    double theta = tt_json_number(tt_json_get(r->root, "rope_theta"), 10000);
    theta = tt_json_number(tt_json_get(set, "rope_theta"), theta);
    return set_number(r, "model.theta", theta);
}

static tt_status read_llama(const reading *r)
{
    const double heads =
        tt_json_number(tt_json_get(r->root, "num_attention_heads"), 32);
    const double width =
        tt_json_number(tt_json_get(r->root, "hidden_size"), 4096);
    const number numbers[] = {
        {"num_hidden_layers", "model.layers", 32},
        {"hidden_size", "model.width", 4096},
        {"num_attention_heads", "model.heads", 32},
        {"num_key_value_heads", "model.kv_heads", heads},
        {"vocab_size", "model.vocab", 32000},
        {"intermediate_size", "model.ff", 11008},
        {"max_position_embeddings", "model.context", 2048},
        {"rms_norm_eps", "model.eps", 1e-6},
        {0},
    };
    static const char *const acts[] = {"silu", "swish", NULL};
    TT_TRY(set_text(r, "model", "llama"));
    TT_TRY(want_text(r, "hidden_act", acts));
    TT_TRY(want_truth(r, "attention_bias", false, false));
    TT_TRY(want_truth(r, "mlp_bias", false, false));
    if (heads >= 1 && tt_json_number(tt_json_get(r->root, "head_dim"),
                                     width / heads) != width / heads)
        return refuse(r, "a head_dim other than hidden_size / heads");
    const bool tied =
        tt_json_truth(tt_json_get(r->root, "tie_word_embeddings"), false);
    TT_TRY(set_text(r, "model.tied", tied ? "true" : "false"));
    TT_TRY(read_rotary(r));
    return set_numbers(r, numbers);
}

// Heads that predict the next token, or none: the last part of the class's name.
static bool is_language_model(const char *architecture)
{
    return tt_ends_with(architecture, "ForCausalLM") ||
           tt_ends_with(architecture, "LMHeadModel") ||
           (tt_ends_with(architecture, "Model") &&
            !tt_ends_with(architecture, "DoubleHeadsModel"));
}

// What would be read as if it were something else.
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
    if (strcmp(type, "llama") == 0)
        return read_llama(&r);
    return tt_fail(TT_ERR_UNSUPPORTED,
                   "%s: the model_type is \"%s\"; gpt2 and llama are known",
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

// The processor that puts special tokens around a text, among others or alone.
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
