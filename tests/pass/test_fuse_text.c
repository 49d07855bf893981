// What the pass fuse makes of graphs of a few lines: which operands go where, and what
// keeps nodes apart.

#include "pass/fuse.h"
#include "pass/rewrite.h"
#include "test.h"

static const tt_fuse_params all = {NULL, NULL};

static void check(const char *text, const char *want)
{
    rewrite_check("fuse", &all, text, want);
}

static void check_apart(const char *text)
{
    check(text, text);
}

// ---- norms ---------------------------------------------------------------

#define NORM                                                                   \
    "tutti-graph 1\n"                                                          \
    "%0 = input 'x' f32 [batch:4 n:6]\n"                                       \
    "%1 = input 'dy' f32 [batch:4 n:6]\n"                                      \
    "%2 = param 'w' f32 [n:6] const 1\n"                                       \
    "%3 = input 'mean' f32 [batch:4]\n"                                        \
    "%4 = input 'rstd' f32 [batch:4]\n"
#define LAYER                                                                  \
    NORM "%5 = layer_norm_grad_x(%0 %1 %2 %3 %4) backward 0 'x' f32 [batch:4 " \
         "n:6]\n"
#define LAYER_W "= layer_norm_grad_w(%0 %1 %3 %4) weight_grad 0 'w' f32 [n:6]"
#define RMS                                                                    \
    NORM                                                                       \
        "%5 = rms_norm_grad_x(%0 %1 %2 %4) backward 0 'x' f32 [batch:4 n:6]\n" \
        "%6 = rms_norm_grad_w(%0 %1 %4) weight_grad 0 'w' f32 [n:6]\n"

TEST(gradients_of_a_norm_are_one)
{
    check(LAYER "%6 %7 " LAYER_W ", f32 [n:6]\n"
                "output 'dx' %5\noutput 'dw' %6\noutput 'db' %7\n",
          NORM "%5 %6 %7 = norm_grad(%0 %1 %2 %3 %4) backward 0 'x' f32 "
               "[batch:4 n:6], f32 [n:6], f32 [n:6]\n"
               "output 'dx' %5\noutput 'dw' %6\noutput 'db' %7\n");
    check(RMS "output 'dx' %5\noutput 'dw' %6\n",
          NORM "%5 %6 = norm_grad(%0 %1 %2 _ %4) bias=false; backward 0 'x' "
               "f32 [batch:4 n:6], f32 [n:6]\n"
               "output 'dx' %5\noutput 'dw' %6\n");
}

TEST(gradients_of_a_norm_take_the_sum_after_them)
{
    check(LAYER "%6 %7 " LAYER_W ", f32 [n:6]\n"
                "%8 = add(%0 %5) backward 0 's' f32 [batch:4 n:6]\n"
                "%9 = bias_grad(%8 _) weight_grad 0 'b' f32 [n:6]\n"
                "output 'dx' %8\noutput 'dw' %6\noutput 'db' %7\n"
                "output 'sums' %9\n",
          NORM "%5 %6 %7 %8 = norm_grad(%0 %1 %2 %3 %4 %0) sums=true; backward "
               "0 'x' f32 [batch:4 n:6], f32 [n:6], f32 [n:6], f32 [n:6]\n"
               "output 'dx' %5\noutput 'dw' %6\noutput 'db' %7\n"
               "output 'sums' %8\n");
    check(RMS "%7 = bias_grad(%5 _) weight_grad 0 'b' f32 [n:6]\n"
              "output 'dx' %5\noutput 'dw' %6\noutput 'sums' %7\n",
          NORM "%5 %6 %7 = norm_grad(%0 %1 %2 _ %4) bias=false sums=true; "
               "backward 0 'x' f32 [batch:4 n:6], f32 [n:6], f32 [n:6]\n"
               "output 'dx' %5\noutput 'dw' %6\noutput 'sums' %7\n");
}

// A reader that comes before the last member: only another member may.
TEST(a_member_may_read_what_the_group_makes_before_it_is_complete)
{
    check(LAYER "%6 = bias_grad(%5 _) weight_grad 0 'b' f32 [n:6]\n"
                "%7 %8 " LAYER_W ", f32 [n:6]\n"
                "output 'dx' %5\noutput 'sums' %6\noutput 'dw' %7\n",
          NORM "%5 %6 %7 %8 = norm_grad(%0 %1 %2 %3 %4) sums=true; backward 0 "
               "'x' f32 [batch:4 n:6], f32 [n:6], f32 [n:6], f32 [n:6]\n"
               "output 'dx' %5\noutput 'sums' %8\noutput 'dw' %6\n");
    check_apart(LAYER "%6 = relu(%5) backward 0 'r' f32 [batch:4 n:6]\n"
                      "%7 %8 " LAYER_W ", f32 [n:6]\n"
                      "output 'r' %6\noutput 'dw' %7\n");
    check_apart(LAYER "%6 = swiglu(%1 %5) backward 0 'r' f32 [batch:4 n:6]\n"
                      "%7 %8 " LAYER_W ", f32 [n:6]\n"
                      "output 'r' %6\noutput 'dw' %7\n");
}

// ---- loss ----------------------------------------------------------------

#define LEAVES                                                                 \
    "tutti-graph 1\n"                                                          \
    "%0 = input 'x' f32 [batch:4 classes:5]\n"                                 \
    "%1 = input 'y' i32 [batch:4]\n"
#define LOSS(seed, lse)                                                        \
    LEAVES "%2 %3 %4 = cross_entropy(%0 %1) forward 0 'loss' f32 [], f32 [], " \
           "f32 [batch:4]\n"                                                   \
           "%5 = correct(%0 %1) forward 0 'hits' f32 []\n"                     \
           "%6 = fill(%2) " seed "backward 0 'loss' f32 []\n"                  \
           "%7 = cross_entropy_grad(%0 %1 " lse " %6) backward 0 'loss' f32 "  \
           "[batch:4 classes:5]\n"

TEST(a_loss_and_its_gradient_are_one)
{
    check(LOSS("", "%4") "output 'loss' %2\noutput 'count' %3\n"
                         "output 'hits' %5\noutput 'dx' %7\n",
          LEAVES "%2 %3 %4 %5 = cross_entropy_step(%0 %1) forward 0 'loss' f32 "
                 "[batch:4 classes:5], f32 [], f32 [], f32 []\n"
                 "%6 = fill(%3) backward 0 'loss' f32 []\n"
                 "output 'loss' %3\noutput 'count' %4\n"
                 "output 'hits' %5\noutput 'dx' %2\n");
    check_apart(LOSS("value=2; ", "%4") "output 'dx' %7\n"); // known too late
    check_apart(LOSS("", "%4") "output 'lse' %4\noutput 'dx' %7\n");
    check_apart(LEAVES "%2 %3 %4 = cross_entropy(%0 %1) forward 0 'loss' f32 "
                       "[], f32 [], f32 [batch:4]\n"
                       "%5 = correct(%0 %1) forward 0 'hits' f32 []\n"
                       "output 'loss' %2\noutput 'hits' %5\n");
    check_apart(LEAVES "%2 %3 %4 = cross_entropy(%0 %1) forward 0 'loss' f32 "
                       "[], f32 [], f32 [batch:4]\n"
                       "%5 = fill(%2) backward 0 'loss' f32 []\n"
                       "%6 = cross_entropy_grad(%0 %1 %4 %5) backward 0 'loss' "
                       "f32 [batch:4 classes:5]\n"
                       "output 'loss' %2\noutput 'dx' %6\n");
}

#define SCALED_LEAVES LEAVES "%2 = input 'factor' f32 []\n"
#define SCALED(a, b)                                                           \
    SCALED_LEAVES "%3 %4 %5 = cross_entropy(%0 %1) forward 0 'loss' f32 [], "  \
                  "f32 [], f32 [batch:4]\n"                                    \
                  "%6 = correct(%0 %1) forward 0 'hits' f32 []\n"              \
                  "%7 = fill(%3) backward 0 'loss' f32 []\n"                   \
                  "%8 = mul(" a " " b ") backward 0 'loss' f32 []\n"           \
                  "%9 = cross_entropy_grad(%0 %1 %5 %8) backward 0 'loss' "    \
                  "f32 [batch:4 classes:5]\n"                                  \
                  "output 'dx' %9\n"
#define LATE                                                                   \
    LEAVES "%2 %3 %4 = cross_entropy(%0 %1) forward 0 'loss' f32 [], f32 [], " \
           "f32 [batch:4]\n"                                                   \
           "%5 = input 'factor' f32 []\n"                                      \
           "%6 = correct(%0 %1) forward 0 'hits' f32 []\n"                     \
           "%7 = fill(%2) backward 0 'loss' f32 []\n"                          \
           "%8 = mul(%7 %5) backward 0 'loss' f32 []\n"                        \
           "%9 = cross_entropy_grad(%0 %1 %4 %8) backward 0 'loss' f32 "       \
           "[batch:4 classes:5]\n"                                             \
           "output 'dx' %9\n"
#define SCALED_STEP(a, b)                                                      \
    SCALED_LEAVES "%3 %4 %5 %6 = cross_entropy_step(%0 %1 %2) forward 0 "      \
                  "'loss' f32 [batch:4 classes:5], f32 [], f32 [], f32 []\n"   \
                  "%7 = fill(%4) backward 0 'loss' f32 []\n"                   \
                  "%8 = mul(" a " " b ") backward 0 'loss' f32 []\n"           \
                  "output 'dx' %3\n"

TEST(a_scaled_loss_and_its_gradient_are_one)
{
    check(SCALED("%7", "%2"), SCALED_STEP("%7", "%2"));
    check(SCALED("%2", "%7"), SCALED_STEP("%2", "%7"));
    check(LATE, SCALED_STEP("%7", "%2"));
    check_apart(SCALED("%7", "%3")); // known too late
    check_apart(SCALED("%2", "%2"));
}

// ---- products ------------------------------------------------------------

#define OPERANDS                                                               \
    "tutti-graph 1\n"                                                          \
    "%0 = input 'x' f32 [batch:4 in:3]\n"                                      \
    "%1 = param 'w' f32 [in:3 out:3] const 1\n"                                \
    "%2 = input 'r' f32 [batch:4 out:3]\n"
#define PRODUCT                                                                \
    OPERANDS "%3 = matmul(%0 %1) backward 0 'y' f32 [batch:4 out:3]\n"

TEST(a_product_and_the_sum_after_it_are_one)
{
    check(PRODUCT "%4 = add(%2 %3) backward 0 'z' f32 [batch:4 out:3]\n"
                  "output 'z' %4\n",
          OPERANDS "%3 = matmul_add(%0 %1 _ %2) backward 0 'y' f32 [batch:4 "
                   "out:3]\n"
                   "output 'z' %3\n");
    // Of two products the later one.
    check(PRODUCT "%4 = matmul(%2 %1) backward 0 'v' f32 [batch:4 out:3]\n"
                  "%5 = add(%3 %4) backward 0 'z' f32 [batch:4 out:3]\n"
                  "output 'z' %5\n",
          PRODUCT "%4 = matmul_add(%2 %1 _ %3) backward 0 'v' f32 [batch:4 "
                  "out:3]\n"
                  "output 'z' %4\n");
    check_apart(PRODUCT "%4 = add(%2 %3) backward 0 'z' f32 [batch:4 out:3]\n"
                        "output 'z' %4\noutput 'y' %3\n");
    check_apart(PRODUCT "%4 = add(%2 %3) update 0 'z' f32 [batch:4 out:3]\n"
                        "output 'z' %4\n");
}

#define OPERANDS8                                                              \
    "tutti-graph 1\n"                                                          \
    "%0 = input 'x' e4m3 [batch:16 ff:32]\n"                                   \
    "%1 = input 'w' e4m3 [embed:16 ff:32]\n"                                   \
    "%2 = input 'units' f32 [site:3]\n"                                        \
    "%3 = param 'b' f32 [embed:16] const 1\n"                                  \
    "%4 = input 'r' bf16 [batch:16 embed:16]\n"
#define PRODUCT8(in)                                                           \
    OPERANDS8 "%5 = matmul_fp8(" in ") forward 0 'y' bf16 [batch:16 "          \
              "embed:16]\n"

TEST(a_product_in_8_bits_and_the_sum_after_it_are_one)
{
    check(PRODUCT8("%0 %1 %2") "%6 = add(%4 %5) forward 0 'z' bf16 [batch:16 "
                               "embed:16]\n"
                               "output 'z' %6\n",
          OPERANDS8 "%5 = matmul_fp8(%0 %1 %2 _ _ %4) forward 0 'y' bf16 "
                    "[batch:16 embed:16]\n"
                    "output 'z' %5\n");
    check(PRODUCT8("%0 %1 %2 %3") "%6 = add(%4 %5) forward 0 'z' bf16 "
                                  "[batch:16 embed:16]\n"
                                  "output 'z' %6\n",
          OPERANDS8 "%5 = matmul_fp8(%0 %1 %2 %3 _ %4) forward 0 'y' bf16 "
                    "[batch:16 embed:16]\n"
                    "output 'z' %5\n");
    check_apart(PRODUCT8("%0 %1 %2") "%6 = add(%4 %5) forward 0 'z' bf16 "
                                     "[batch:16 embed:16]\n"
                                     "output 'z' %6\noutput 'y' %5\n");
    check_apart(PRODUCT8("%0 %1 %2") "%6 = add(%4 %5) update 0 'z' bf16 "
                                     "[batch:16 embed:16]\n"
                                     "output 'z' %6\n");
}

TEST(a_product_and_the_gradient_of_gelu_are_one)
{
    check(PRODUCT "%4 = gelu_grad(%2 %3) backward 0 'z' f32 [batch:4 out:3]\n"
                  "output 'z' %4\n",
          OPERANDS "%3 = matmul_gelu_grad(%0 %1 %2) backward 0 'y' f32 "
                   "[batch:4 out:3]\n"
                   "output 'z' %3\n");
    check_apart(PRODUCT "%4 = gelu_grad(%2 %3) form=erf; backward 0 'z' f32 "
                        "[batch:4 out:3]\n"
                        "output 'z' %4\n");
    check_apart(PRODUCT "%4 = gelu_grad(%3 %2) backward 0 'z' f32 [batch:4 "
                        "out:3]\n"
                        "output 'z' %4\n");
}

TEST(gradients_of_a_weight_and_its_bias_are_one)
{
    check(OPERANDS "%3 = bias_grad(%2 _) weight_grad 0 'b' f32 [out:3]\n"
                   "%4 = matmul_grad_w(%0 %2 %1) weight_grad 0 'w' f32 [in:3 "
                   "out:3]\n"
                   "output 'dw' %4\noutput 'db' %3\n",
          OPERANDS "%3 %4 = matmul_grad_both(%0 %2 %1 _) weight_grad 0 'w' f32 "
                   "[in:3 out:3], f32 [out:3]\n"
                   "output 'dw' %3\noutput 'db' %4\n");
    check_apart(OPERANDS "%3 = bias_grad(%2 _) weight_grad 0 'b' f32 [out:3]\n"
                         "%4 = relu(%3) weight_grad 0 'b' f32 [out:3]\n"
                         "%5 = matmul_grad_w(%0 %2 %1) weight_grad 0 'w' f32 "
                         "[in:3 out:3]\n"
                         "output 'dw' %5\noutput 'r' %4\n");
    // That of another bias stands between the readers.
    check_apart(OPERANDS "%3 = relu(%2) weight_grad 0 'r' f32 [batch:4 out:3]\n"
                         "%4 = bias_grad(%0 _) weight_grad 0 'b' f32 [in:3]\n"
                         "%5 = matmul_grad_w(%0 %2 %1) weight_grad 0 'w' f32 "
                         "[in:3 out:3]\n"
                         "output 'dw' %5\noutput 'db' %4\noutput 'r' %3\n");
}

#define GRADIENT8                                                              \
    "tutti-graph 1\n"                                                          \
    "%0 = input 'z' bf16 [batch:16 ff:32]\n"                                   \
    "%1 = input 'dy' bf16 [batch:16 ff:32]\n"                                  \
    "%2 = input 'units' f32 [site:3]\n"                                        \
    "%3 = param 'b' f32 [ff:32] const 1\n"
#define PACKED8 "e5m2 [batch:16 ff:32], e5m2 [ff:32 batch:16], f32 [site:1]\n"
#define OUTPUTS8                                                               \
    "output 'db' %7\noutput 'rows' %4\noutput 'turned' %5\noutput 'peak' %6\n"

TEST(a_gradient_that_is_packed_and_summed_is_read_once)
{
    check(GRADIENT8
          "%4 %5 %6 = fp8_pack(%1 %2) to=e5m2 site=1; backward 0 'p' " PACKED8
          "%7 = bias_grad(%1 %3) weight_grad 0 'b' f32 "
          "[ff:32]\n" OUTPUTS8,
          GRADIENT8 "%4 %5 %6 %7 = fp8_pack_grad(%1 %2 _ %3) to=e5m2 site=1; "
                    "backward 0 'p' f32 [ff:32], " PACKED8
                    "output 'db' %4\noutput 'rows' %5\noutput 'turned' %6\n"
                    "output 'peak' %7\n");
    check_apart(GRADIENT8 "%4 %5 %6 = fp8_pack(%1 %2) gelu=true; forward 0 'p' "
                          "e4m3 [batch:16 ff:32], e4m3 [ff:32 batch:16], f32 "
                          "[site:1]\n"
                          "%7 = bias_grad(%1 %3) weight_grad 0 'b' f32 "
                          "[ff:32]\n" OUTPUTS8);
}

#define SLOPE8(form, phase)                                                    \
    GRADIENT8 "%4 = gelu_grad(%0 %1) " form phase " 0 'g' bf16 [batch:16 "     \
              "ff:32]\n"                                                       \
              "%5 %6 %7 = fp8_pack(%4 %2) to=e5m2; backward 0 'p' " PACKED8    \
              "%8 = bias_grad(%4 %3) weight_grad 0 'b' f32 [ff:32]\n"          \
              "output 'db' %8\noutput 'rows' %5\noutput 'turned' %6\n"         \
              "output 'peak' %7\n"
#define SUMMED8(form, phase, more)                                             \
    GRADIENT8 "%4 = gelu_grad(%0 %1) " form phase " 0 'g' bf16 [batch:16 "     \
              "ff:32]\n"                                                       \
              "%5 %6 %7 %8 = fp8_pack_grad(%4 %2 _ %3) to=e5m2; backward 0 "   \
              "'p' f32 [ff:32], " PACKED8                                      \
              "output 'db' %5\noutput 'rows' %6\noutput 'turned' %7\n"         \
              "output 'peak' %8\n" more

TEST(the_gradient_of_gelu_is_taken_on_the_way)
{
    check(SLOPE8("", "backward"),
          GRADIENT8 "%4 %5 %6 %7 = fp8_pack_grad(%1 %2 %0 %3) to=e5m2; "
                    "backward 0 'p' f32 [ff:32], " PACKED8
                    "output 'db' %4\noutput 'rows' %5\noutput 'turned' %6\n"
                    "output 'peak' %7\n");
    check(SLOPE8("", "backward") "output 'dz' %4\n",
          SUMMED8("", "backward", "output 'dz' %4\n"));
    check(SLOPE8("form=erf; ", "backward"),
          SUMMED8("form=erf; ", "backward", ""));
    check(SLOPE8("", "weight_grad"), SUMMED8("", "weight_grad", ""));
}

// ---- convolutions --------------------------------------------------------

#define IMAGE "f32 [batch:2 channels:3 height:4 width:4]\n"
#define IMAGES                                                                 \
    "tutti-graph 1\n"                                                          \
    "%0 = input 'x' " IMAGE                                                    \
    "%1 = param 'w' f32 [filters:3 channels:3 kernel_h:3 kernel_w:3] const "   \
    "1\n"                                                                      \
    "%2 = input 'r' " IMAGE "%3 = param 'b' f32 [filters:3] const 1\n"
#define CONV(in)                                                               \
    IMAGES "%4 = conv(" in ") stride=1,1 pad=1,1; forward 0 'y' " IMAGE
#define CONV_GRAD                                                              \
    IMAGES "%4 = conv_grad_x(%2 %1 %0) stride=1,1 pad=1,1; backward 0 "        \
           "'y' " IMAGE

TEST(a_convolution_and_its_activation_are_one)
{
    check(CONV("%0 %1") "%5 = relu(%4) forward 0 'z' " IMAGE "output 'z' %5\n",
          IMAGES "%4 = conv_relu(%0 %1) stride=1,1 pad=1,1; forward 0 "
                 "'y' " IMAGE "output 'z' %4\n");
    check(CONV("%0 %1 %3") "%5 = relu(%4) forward 0 'z' " IMAGE
                           "output 'z' %5\n",
          IMAGES "%4 = conv_relu(%0 %1 %3) stride=1,1 pad=1,1; forward 0 "
                 "'y' " IMAGE "output 'z' %4\n");
    check_apart(CONV("%0 %1") "%5 = relu(%4) forward 0 'z' " IMAGE
                              "output 'z' %5\noutput 'y' %4\n");
    check_apart(CONV("%0 %1") "%5 = gelu(%4) forward 0 'z' " IMAGE
                              "output 'z' %5\n");
}

TEST(a_gradient_of_images_and_the_sum_after_it_are_one)
{
    check(CONV_GRAD "%5 = add(%0 %4) backward 0 'z' " IMAGE "output 'z' %5\n",
          IMAGES "%4 = conv_grad_x_add(%0 %2 %1 %0) stride=1,1 pad=1,1; "
                 "backward 0 'y' " IMAGE "output 'z' %4\n");
    check_apart(CONV_GRAD "%5 = add(%0 %4) backward 0 'z' " IMAGE
                          "output 'z' %5\noutput 'y' %4\n");
    check_apart(CONV_GRAD "%5 = add(%0 %4) update 0 'z' " IMAGE
                          "output 'z' %5\n");
}

#define MASK IMAGES "%4 = relu_grad(%0 %2) backward 0 'm' " IMAGE

TEST(a_mask_and_the_gradient_of_the_bias_before_it_are_one)
{
    check(MASK "%5 = conv_grad_b(%4 %3) weight_grad 0 'b' f32 [filters:3]\n"
               "output 'dx' %4\noutput 'db' %5\n",
          IMAGES "%4 %5 = relu_grad_bias(%0 %2 %3) backward 0 'm' f32 [batch:2 "
                 "channels:3 height:4 width:4], f32 [filters:3]\n"
                 "output 'dx' %4\noutput 'db' %5\n");
    // The bias comes again after the mask.
    check_apart(MASK
                "%5 = fetch(%3) backward 0 'b' f32 [filters:3]\n"
                "%6 = conv_grad_b(%4 %5) weight_grad 0 'b' f32 [filters:3]\n"
                "output 'dx' %4\noutput 'db' %6\n");
}
