// Names, shapes and numbers of weights are those of Hugging Face and torchvision,
// so that their checkpoints fit.

#include "base/alloc.h"
#include "model/model.h"
#include "ops/gradops.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

// The state of a preset as a checkpoint lists it: name -> extents.
static tt_graph *build(const char *preset_name, const char *more)
{
    const tt_model_def *def = NULL;
    const tt_model_preset *preset = NULL;
    tt_model_io io = {.batch = 1};
    tt_builder b;
    tt_graph *g = NULL;
    tt_arena *arena = tt_arena_create();
    CHECK_OK(tt_model_find(preset_name, &def, &preset));
    void *params = tt_arena_alloc(arena, def->params_bytes);
    CHECK_OK(tt_opt_defaults(def->options, params, arena));
    if (preset != NULL)
        CHECK_OK(tt_opt_parse(def->options, params, preset->options, arena));
    CHECK_OK(tt_opt_parse(def->options, params, more, arena));
    CHECK_OK(tt_builder_init(&b, &tt_grad_ops_default));
    CHECK_OK(def->build(&b, params, &io));
    CHECK_OK(tt_builder_take(&b, &g)); // unique names are verified here
    tt_builder_fini(&b);
    tt_arena_destroy(arena);
    return g;
}

static int64_t count_numbers(const tt_graph *g)
{
    int64_t n = 0;
    for (int32_t v = 0; v < g->n_values; v++)
        if (g->value[v].role == TT_ROLE_PARAM)
            n += tt_shape_count(&g->value[v].type.shape);
    return n;
}

static int64_t count_entries(const tt_graph *g)
{
    int64_t n = 0;
    for (int32_t v = 0; v < g->n_values; v++)
        n += g->value[v].role == TT_ROLE_PARAM ||
             g->value[v].role == TT_ROLE_BUFFER;
    return n;
}

TEST(presets_have_as_many_weights_as_elsewhere)
{
    static const struct {
        const char *name;
        int64_t numbers, entries;
    } table[] = {
        {"gpt2-124m", 124439808, 148}, {"gpt2-350m", 354823168, 292},
        {"gpt2-774m", 774030080, 436}, {"gpt2-1558m", 1557611200, 580},
        {"resnet18", 11689512, 122},   {"resnet34", 21797672, 218},
        {"resnet50", 25557032, 320},   {"resnet101", 44549160, 626},
        {"vgg11", 132863336, 22},      {"vgg13", 133047848, 26},
        {"vgg16", 138357544, 32},      {"vgg19", 143667240, 38},
        {"vgg11-bn", 132868840, 62},   {"vgg13-bn", 133053736, 76},
        {"vgg16-bn", 138365992, 97},   {"vgg19-bn", 143678248, 118},
        {"vit-b16", 86567656, 152},    {"vit-s16", 22050664, 152},
        {"vit-ti16", 5717416, 152},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        tt_graph *g = build(table[i].name, "");
        CHECK_MSG(count_numbers(g) == table[i].numbers,
                  "%s has %lld numbers, not %lld", table[i].name,
                  (long long)count_numbers(g), (long long)table[i].numbers);
        CHECK_MSG(count_entries(g) == table[i].entries,
                  "%s has %lld entries, not %lld", table[i].name,
                  (long long)count_entries(g), (long long)table[i].entries);
        tt_graph_destroy(g);
    }
    CHECK(tt_alloc_live() == 0);
}

static void check_entry(const tt_graph *g, const char *name,
                        const char *extents)
{
    tt_str text = {0};
    const tt_val v = tt_graph_find(g, name);
    CHECK_MSG(tt_is(v), "there is no %s", name);
    const tt_value *value = &g->value[v.id];
    CHECK_MSG(tt_role_is_state(value->role), "%s is no state", name);
    for (int d = 0; d < value->type.shape.ndim; d++)
        tt_str_addf(&text, "%s%lld", d > 0 ? "," : "",
                    (long long)tt_shape_dim(&value->type.shape, d));
    CHECK_MSG(strcmp(tt_str_text(&text), extents) == 0, "%s is [%s], not [%s]",
              name, tt_str_text(&text), extents);
    tt_str_fini(&text);
}

typedef struct entry {
    const char *name, *extents;
} entry;

// A % in a name stands for the numbers below n.
static void check_entries(tt_graph *g, const entry *entries, int n)
{
    for (const entry *e = entries; e->name != NULL; e++) {
        const char *mark = strchr(e->name, '%');
        for (int i = 0; i < (mark == NULL ? 1 : n); i++) {
            char name[128];
            if (mark == NULL)
                snprintf(name, sizeof name, "%s", e->name);
            else
                snprintf(name, sizeof name, "%.*s%d%s", (int)(mark - e->name),
                         e->name, i, mark + 1);
            check_entry(g, name, e->extents);
        }
    }
    tt_graph_destroy(g);
}

TEST(gpt2_has_the_names_of_hugging_face)
{
    static const entry entries[] = {
        {"transformer.wte.weight", "50257,768"},
        {"transformer.wpe.weight", "1024,768"},
        {"transformer.h.%.ln_1.weight", "768"},
        {"transformer.h.%.ln_1.bias", "768"},
        {"transformer.h.%.attn.c_attn.weight", "768,2304"},
        {"transformer.h.%.attn.c_attn.bias", "2304"},
        {"transformer.h.%.attn.c_proj.weight", "768,768"},
        {"transformer.h.%.attn.c_proj.bias", "768"},
        {"transformer.h.%.ln_2.weight", "768"},
        {"transformer.h.%.ln_2.bias", "768"},
        {"transformer.h.%.mlp.c_fc.weight", "768,3072"},
        {"transformer.h.%.mlp.c_fc.bias", "3072"},
        {"transformer.h.%.mlp.c_proj.weight", "3072,768"},
        {"transformer.h.%.mlp.c_proj.bias", "768"},
        {"transformer.ln_f.weight", "768"},
        {"transformer.ln_f.bias", "768"},
        {0},
    };
    check_entries(build("gpt2-124m", ""), entries, 12);
}

TEST(llama_has_the_names_of_hugging_face)
{
    static const entry entries[] = {
        {"model.embed_tokens.weight", "100,64"},
        {"model.layers.%.input_layernorm.weight", "64"},
        {"model.layers.%.post_attention_layernorm.weight", "64"},
        {"model.layers.%.self_attn.q_proj.weight", "64,64"},
        {"model.layers.%.self_attn.k_proj.weight", "16,64"},
        {"model.layers.%.self_attn.v_proj.weight", "16,64"},
        {"model.layers.%.self_attn.o_proj.weight", "64,64"},
        {"model.layers.%.mlp.gate_proj.weight", "96,64"},
        {"model.layers.%.mlp.up_proj.weight", "96,64"},
        {"model.layers.%.mlp.down_proj.weight", "64,96"},
        {"model.norm.weight", "64"},
        {"lm_head.weight", "100,64"},
        {0},
    };
    tt_graph *g = build("llama", "layers=3 width=64 heads=8 kv_heads=2 ff=96 "
                                 "vocab=100 context=32 tied=false");
    CHECK(count_entries(g) == 3 + 9 * 3);
    check_entries(g, entries, 3);
}

TEST(vit_has_the_names_of_torchvision)
{
    static const entry entries[] = {
        {"class_token", "1,1,768"},
        {"conv_proj.weight", "768,3,16,16"},
        {"conv_proj.bias", "768"},
        {"encoder.pos_embedding", "1,197,768"},
        {"encoder.layers.encoder_layer_%.ln_1.weight", "768"},
        {"encoder.layers.encoder_layer_%.ln_1.bias", "768"},
        {"encoder.layers.encoder_layer_%.self_attention.in_proj_weight",
         "2304,768"},
        {"encoder.layers.encoder_layer_%.self_attention.in_proj_bias", "2304"},
        {"encoder.layers.encoder_layer_%.self_attention.out_proj.weight",
         "768,768"},
        {"encoder.layers.encoder_layer_%.self_attention.out_proj.bias", "768"},
        {"encoder.layers.encoder_layer_%.ln_2.weight", "768"},
        {"encoder.layers.encoder_layer_%.ln_2.bias", "768"},
        {"encoder.layers.encoder_layer_%.mlp.0.weight", "3072,768"},
        {"encoder.layers.encoder_layer_%.mlp.0.bias", "3072"},
        {"encoder.layers.encoder_layer_%.mlp.3.weight", "768,3072"},
        {"encoder.layers.encoder_layer_%.mlp.3.bias", "768"},
        {"encoder.ln.weight", "768"},
        {"encoder.ln.bias", "768"},
        {"heads.head.weight", "1000,768"},
        {"heads.head.bias", "1000"},
        {0},
    };
    check_entries(build("vit-b16", ""), entries, 12);
}

TEST(resnet_has_the_names_of_torchvision)
{
    static const entry entries[] = {
        {"conv1.weight", "64,3,7,7"},
        {"bn1.weight", "64"},
        {"bn1.bias", "64"},
        {"bn1.running_mean", "64"},
        {"bn1.running_var", "64"},
        {"bn1.num_batches_tracked", ""},
        {"layer1.0.conv1.weight", "64,64,1,1"},
        {"layer1.0.downsample.0.weight", "256,64,1,1"},
        {"layer1.0.downsample.1.weight", "256"},
        {"layer1.0.downsample.1.running_var", "256"},
        {"layer1.0.downsample.1.num_batches_tracked", ""},
        {"layer1.%.conv2.weight", "64,64,3,3"},
        {"layer1.%.conv3.weight", "256,64,1,1"},
        {"layer2.%.conv3.weight", "512,128,1,1"},
        {"layer3.%.bn3.running_mean", "1024"},
        {"layer4.%.bn2.bias", "512"},
        {"layer4.2.conv1.weight", "512,2048,1,1"},
        {"fc.weight", "1000,2048"},
        {"fc.bias", "1000"},
        {0},
    };
    tt_graph *g = build("resnet50", "");
    CHECK(!tt_is(tt_graph_find(g, "conv1.bias")));
    CHECK(!tt_is(tt_graph_find(g, "layer1.1.downsample.0.weight")));
    const tt_val seen = tt_graph_find(g, "bn1.num_batches_tracked");
    CHECK(g->value[seen.id].type.dtype == TT_I64);
    check_entries(g, entries, 3);
}

TEST(vgg_has_the_names_of_torchvision)
{
    static const entry plain[] = {
        {"features.0.weight", "64,3,3,3"},
        {"features.28.weight", "512,512,3,3"},
        {"features.28.bias", "512"},
        {"classifier.0.weight", "4096,25088"},
        {"classifier.3.weight", "4096,4096"},
        {"classifier.6.weight", "1000,4096"},
        {"classifier.6.bias", "1000"},
        {0},
    };
    static const int at_vgg11[] = {0, 3, 6, 8, 11, 13, 16, 18};
    static const int at_bn[] = {0,  3,  7,  10, 14, 17, 20,
                                24, 27, 30, 34, 37, 40};
    char name[64];
    tt_graph *g = build("vgg11", "");
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "features.%d.weight", at_vgg11[i]);
        CHECK_MSG(tt_is(tt_graph_find(g, name)), "there is no %s", name);
    }
    tt_graph_destroy(g);
    g = build("vgg16-bn", "");
    for (int i = 0; i < 13; i++) {
        snprintf(name, sizeof name, "features.%d.bias", at_bn[i]);
        CHECK_MSG(tt_is(tt_graph_find(g, name)), "there is no %s", name);
        snprintf(name, sizeof name, "features.%d.num_batches_tracked",
                 at_bn[i] + 1);
        CHECK_MSG(tt_is(tt_graph_find(g, name)), "there is no %s", name);
    }
    tt_graph_destroy(g);
    check_entries(build("vgg16", ""), plain, 1);
}

TEST(small_models_have_the_names_of_tutorials)
{
    static const entry lenet[] = {
        {"conv1.weight", "6,1,5,5"},
        {"conv2.weight", "16,6,5,5"},
        {"fc1.weight", "120,400"},
        {"fc2.weight", "84,120"},
        {"fc3.weight", "10,84"},
        {"fc3.bias", "10"},
        {0},
    };
    static const entry lstm[] = {
        {"encoder.weight", "50,12"},
        {"rnn.weight_ih_l0", "64,12"},
        {"rnn.weight_hh_l%", "64,16"},
        {"rnn.bias_ih_l%", "64"},
        {"rnn.bias_hh_l%", "64"},
        {"rnn.weight_ih_l1", "64,16"},
        {"decoder.weight", "50,16"},
        {"decoder.bias", "50"},
        {0},
    };
    tt_graph *g = build("lenet", "");
    CHECK(count_numbers(g) == 61706 && count_entries(g) == 10);
    check_entries(g, lenet, 1);
    g = build("lstm", "embed=12 hidden=16 vocab=50");
    CHECK(count_entries(g) == 11);
    check_entries(g, lstm, 2);
}
