// The measure of verify: what it calls equal, and whom it blames.

#include "test.h"
#include "verify/verify_parts.h"

#include <math.h>

// Two weights of four elements each and one's average.
typedef struct trial {
    tt_tensor tensor[3];
    double value[3][4];
    double *data[3];
    tt__taken taken;
} trial;

static void trial_init(trial *t, int n)
{
    static const char *const name[] = {"a.weight", "b.weight", "b.weight.ema"};
    *t = (trial){0};
    for (int i = 0; i < 3; i++) {
        t->tensor[i] = (tt_tensor){.name = name[i], .count = 4};
        t->data[i] = t->value[i];
        for (int k = 0; k < 4; k++)
            t->value[i][k] = i + k + 1;
    }
    t->taken = (tt__taken){.n = n, .tensor = t->tensor, .data = t->data};
}

TEST(equal_tensors_are_at_distance_zero)
{
    trial a, b;
    trial_init(&a, 3);
    trial_init(&b, 3);
    const tt__distance d = tt__verify_compare(&a.taken, &b.taken, 0);
    CHECK(d.worst == 0 && d.at == -1 && d.first == -1);
}

TEST(the_first_beyond_the_tolerance_is_named_beside_the_worst)
{
    trial a, b;
    trial_init(&a, 3);
    trial_init(&b, 3);
    a.value[1][2] += 1e-6;
    a.value[2][3] += 1e-3;
    const tt__distance d = tt__verify_compare(&a.taken, &b.taken, 1e-9);
    CHECK(d.first == 1 && d.at == 2);
    CHECK(fabs(d.first_rel - 1e-6 / sqrt(4 + 9 + 16 + 25)) < 1e-12);
    CHECK(fabs(d.worst - 1e-3 / sqrt(9 + 16 + 25 + 36)) < 1e-9);
    CHECK(tt__verify_furthest(a.data[2], b.data[2], 4) == 3);
    CHECK(tt__verify_compare(&a.taken, &b.taken, 1).first == -1);
}

TEST(a_tensor_of_zeros_is_measured_against_all_of_them)
{
    trial a, b;
    trial_init(&a, 2);
    trial_init(&b, 2);
    for (int k = 0; k < 4; k++)
        a.value[0][k] = b.value[0][k] = 0;
    a.value[0][0] = 1e-12;
    const tt__distance d = tt__verify_compare(&a.taken, &b.taken, 0);
    const double all = sqrt(4 + 9 + 16 + 25);
    CHECK(fabs(d.worst - 1e-12 / (0.01 * all * sqrt(4.0 / 8))) < 1e-15);
}

TEST(not_a_number_is_as_far_as_can_be)
{
    trial a, b;
    trial_init(&a, 2);
    trial_init(&b, 2);
    a.value[1][1] = (double)NAN;
    const tt__distance d = tt__verify_compare(&a.taken, &b.taken, 1e-9);
    CHECK(d.first == 1 && isinf(d.worst));
    CHECK(tt__verify_furthest(a.data[1], b.data[1], 4) == 1);
}

// Many ranks may be as far from fp32 as one is, and no further.
TEST(low_precisions_are_measured_by_their_distance_from_fp32)
{
    trial many, one, fp32;
    trial_init(&many, 2);
    trial_init(&one, 2);
    trial_init(&fp32, 2);
    CHECK(tt__verify_ratio(&many.taken, &one.taken, &fp32.taken) == 1);
    one.value[0][0] += 0.01;
    one.value[1][1] += 0.01;
    many.value[0][3] -= 0.01;
    many.value[1][2] += 0.01;
    CHECK_CLOSE(tt__verify_ratio(&many.taken, &one.taken, &fp32.taken), 1,
                1e-9);
    many.value[0][3] -= 0.02;
    CHECK_CLOSE(tt__verify_ratio(&many.taken, &one.taken, &fp32.taken),
                sqrt(9 + 1) / sqrt(2), 1e-9);
    tt__distance d = tt__verify_low(&many.taken, &one.taken, &fp32.taken, 2.9);
    CHECK(d.first == 0 && d.at == 0 && d.copy == NULL);
    CHECK_CLOSE(d.worst, 3, 1e-9);
    CHECK(tt__verify_low(&many.taken, &one.taken, &fp32.taken, 3.1).first < 0);
    one.value[0][0] -= 0.01; // exact by chance: then the usual size counts
    d = tt__verify_low(&many.taken, &one.taken, &fp32.taken, 4);
    CHECK_CLOSE(d.worst, 0.03 / (0.01 / sqrt(8) * 2), 1e-9);
}

TEST(copies_count_like_the_tensor_itself)
{
    trial a, b, other;
    trial_init(&a, 2);
    trial_init(&b, 2);
    trial_init(&other, 2);
    tt__copy copy = {1, 3, other.data[1]};
    a.taken.copy = &copy;
    a.taken.n_copies = 1;
    CHECK(tt__verify_compare(&a.taken, &b.taken, 0).first == -1);
    CHECK(!tt__verify_equal(&a.taken, &b.taken));
    CHECK(!tt__verify_equal(&b.taken, &a.taken));
    other.value[1][0] += 1;
    const tt__distance d = tt__verify_compare(&a.taken, &b.taken, 1e-9);
    CHECK(d.first == 1 && d.at == 1 && d.copy == &copy);
    CHECK_CLOSE(d.worst, 1 / sqrt(4 + 9 + 16 + 25), 1e-9);
    CHECK(tt__verify_ratio(&a.taken, &b.taken, &b.taken) > 1e9);
    trial grads;
    trial_init(&grads, 2);
    grads.value[1][0] = 1e-9;
    tt__verify_level(&grads.taken, NULL, &a.taken, &b.taken);
    CHECK(other.value[1][0] == b.value[1][0]);
}

TEST(updates_of_gradients_that_are_zero_say_nothing)
{
    trial grads, a, b;
    trial_init(&grads, 2);
    trial_init(&a, 3);
    trial_init(&b, 3);
    grads.value[1][0] = 1e-9;
    a.value[1][0] += 1;
    a.value[2][0] += 1;
    a.value[2][1] += 2;
    a.value[0][0] += 3;
    tt__verify_level(&grads.taken, NULL, &a.taken, &b.taken);
    CHECK(a.value[1][0] == b.value[1][0] && a.value[2][0] == b.value[2][0]);
    CHECK(a.value[2][1] == b.value[2][1] + 2);
    CHECK(a.value[0][0] == b.value[0][0] + 3);
    // Below four times the usual error, 1 / sqrt(4), nothing is known.
    trial exact;
    trial_init(&exact, 2);
    trial_init(&grads, 2);
    exact.value[0][3] += 1;
    a.value[0][1] += 3;
    a.value[0][2] += 3;
    tt__verify_level(&grads.taken, &exact.taken, &a.taken, &b.taken);
    CHECK(a.value[0][0] == b.value[0][0]);
    CHECK(a.value[0][1] == b.value[0][1] + 3);
    CHECK(a.value[0][2] == b.value[0][2] + 3);
}
