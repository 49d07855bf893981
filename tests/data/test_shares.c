// The data of clients: every sample has one client at most, sizes add up, label skew is
// what it says, a short batch leaves samples out of the loss.

#include "data/loader.h"
#include "data/order.h"
#include "data/shares.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 1200, CLASSES = 10, CLIENTS = 24, MOST = 4096 };

static tt_status image(const tt_source *source, int64_t index, tt_image *out,
                       int32_t *label_out)
{
    (void)source;
    TT_TRY(tt_image_reserve(out, 1, 1, 1, true));
    out->f32[0] = (float)index;
    *label_out = (int32_t)(index % CLASSES);
    return TT_OK;
}

static tt_status tokens(const tt_source *source, int64_t first, int64_t n,
                        int32_t *out)
{
    (void)source;
    for (int64_t i = 0; i < n; i++)
        out[i] = (int32_t)(first + i);
    return TT_OK;
}

static const tt_source_def def = {
    .name = "counting", .image = image, .tokens = tokens};
static const tt_source images = {.def = &def,
                                 .kind = TT_DATA_IMAGES,
                                 .n = N,
                                 .classes = CLASSES,
                                 .channels = 1,
                                 .height = 1,
                                 .width = 1};
static const tt_source words = {
    .def = &def, .kind = TT_DATA_TOKENS, .n = MOST, .classes = MOST};

static tt_shares *make(const tt_source *source, int kind, double alpha)
{
    const tt_shares_options options = {.kind = kind,
                                       .clients = CLIENTS,
                                       .seed = 3,
                                       .shuffle = true,
                                       .seq = 8,
                                       .batch = 7,
                                       .alpha = alpha,
                                       .labels = 2};
    tt_shares *s = NULL;
    CHECK_OK(tt_shares_create(source, &options, &s));
    return s;
}

// How often a place comes in one epoch of a client.
static void walk(const tt_shares *s, int32_t client, int64_t epoch, int *seen)
{
    const int64_t batches = tt_shares_batches(s, client);
    int64_t real = 0, place = 0;
    for (int64_t b = 0; b < batches; b++)
        for (int64_t i = 0; i < 7; i++) {
            const int64_t at =
                tt_shares_position(s, client, epoch * batches + b) + i;
            if (!tt_shares_find(s, at, &place))
                continue;
            CHECK(place >= 0 && place < MOST);
            seen[place]++;
            real++;
        }
    CHECK(real == tt_shares_size(s, client));
}

static void check_parts(const tt_source *source, int kind)
{
    for (int64_t epoch = 0; epoch < 2; epoch++) {
        tt_shares *s = make(source, kind, 0.3);
        int seen[MOST] = {0};
        int64_t sum = 0;
        for (int32_t k = 0; k < CLIENTS; k++) {
            walk(s, k, epoch, seen);
            sum += tt_shares_size(s, k);
        }
        CHECK(sum == tt_shares_total(s));
        int64_t n = 0;
        for (int i = 0; i < MOST; i++) {
            CHECK(seen[i] <= 1);
            n += seen[i];
        }
        CHECK(n == sum);
        if (source == &images)
            CHECK(n == N);
        tt_shares_close(s);
    }
}

TEST(every_image_has_one_client)
{
    for (int kind = TT_SHARE_IID; kind <= TT_SHARE_CONTIGUOUS; kind++)
        check_parts(&images, kind);
}

TEST(every_window_has_one_client)
{
    check_parts(&words, TT_SHARE_IID);
    check_parts(&words, TT_SHARE_CONTIGUOUS);
}

// Together the clients of a dealt data set have the samples of a plain run.
TEST(dealt_clients_have_the_batch_of_a_plain_step)
{
    tt_shares *s = make(&images, TT_SHARE_IID, 0);
    const tt_order_of order = {.seed = 3, .n = N, .shuffle = true};
    bool is_there[N] = {false};
    int64_t place = 0;
    for (int32_t k = 0; k < CLIENTS; k++)
        for (int64_t i = 0; i < 7; i++) {
            CHECK(tt_shares_find(s, tt_shares_position(s, k, 1) + i, &place));
            is_there[place] = true;
        }
    for (int64_t p = 7 * CLIENTS; p < 2 * 7 * CLIENTS; p++)
        CHECK(is_there[tt_order_index(&order, p)]);
    tt_shares_close(s);
}

// The mean over clients of the part that its most frequent label has.
static double skew(int kind, double alpha)
{
    tt_shares *s = make(&images, kind, alpha);
    double sum = 0;
    int n = 0;
    for (int32_t k = 0; k < CLIENTS; k++) {
        int64_t count[CLASSES] = {0}, most = 0, place = 0;
        const int64_t size = tt_shares_size(s, k);
        for (int64_t b = 0; b < tt_shares_batches(s, k); b++)
            for (int64_t i = 0; i < 7; i++)
                if (tt_shares_find(s, tt_shares_position(s, k, b) + i, &place))
                    count[place % CLASSES]++;
        for (int c = 0; c < CLASSES; c++)
            most = count[c] > most ? count[c] : most;
        n += size > 0;
        sum += size > 0 ? (double)most / (double)size : 0;
    }
    tt_shares_close(s);
    return sum / n;
}

TEST(a_small_alpha_is_less_even)
{
    const double even = skew(TT_SHARE_IID, 0);
    CHECK(skew(TT_SHARE_DIRICHLET, 100) < even + 0.05);
    CHECK(skew(TT_SHARE_DIRICHLET, 1) > even + 0.1);
    CHECK(skew(TT_SHARE_DIRICHLET, 0.1) > 0.6);
    CHECK(skew(TT_SHARE_DIRICHLET, 0.001) > 0.75);
    CHECK(skew(TT_SHARE_LABEL, 0) >= 0.5);
}

// Of 24 parts drawn from Dirichlet(alpha) the variance is that of a beta variate.
TEST(parts_of_labels_have_the_variance_of_dirichlet)
{
    const double alphas[] = {0.5, 2};
    for (int a = 0; a < 2; a++) {
        double squares = 0;
        const double mean = 1.0 / CLIENTS;
        for (uint64_t seed = 0; seed < 40; seed++) {
            const tt_shares_options options = {.kind = TT_SHARE_DIRICHLET,
                                               .clients = CLIENTS,
                                               .seed = seed,
                                               .batch = 7,
                                               .alpha = alphas[a]};
            tt_source one = images;
            tt_shares *s = NULL;
            one.n = N;
            CHECK_OK(tt_shares_create(&one, &options, &s));
            for (int32_t k = 0; k < CLIENTS; k++) {
                const double part = (double)tt_shares_size(s, k) / N - mean;
                squares += part * part / CLIENTS / 40;
            }
            tt_shares_close(s);
        }
        // A size is the mean of the parts of ten labels.
        const double expected =
            mean * (1 - mean) / (CLIENTS * alphas[a] + 1) / CLASSES;
        CHECK(squares > 0.8 * expected && squares < 1.25 * expected);
    }
}

TEST(documents_stay_whole)
{
    enum { DOCUMENTS = 60 };
    int64_t end[DOCUMENTS];
    tt_source s = words;
    tt_shares *shares = NULL;
    for (int i = 0; i < DOCUMENTS; i++)
        end[i] = (i + 1) * (int64_t)MOST / DOCUMENTS;
    s.n_documents = DOCUMENTS;
    s.document_end = end;
    const tt_shares_options options = {
        .kind = TT_SHARE_DOCUMENT, .clients = CLIENTS, .seq = 8, .batch = 7};
    CHECK_OK(tt_shares_create(&s, &options, &shares));
    for (int32_t k = 0; k < CLIENTS; k++) {
        int64_t first = 0;
        CHECK(tt_shares_find(shares, tt_shares_position(shares, k, 0), &first));
        bool begins = first == 0;
        for (int i = 0; i < DOCUMENTS; i++)
            begins = begins || end[i] == first;
        CHECK(begins);
    }
    tt_shares_close(shares);
}

enum { USERS = 30 };

// Image i is of one of 30, whose names are not in the order of their numbers.
static const char *user_of(const tt_source *source, int64_t index,
                           int64_t *bytes_out)
{
    static char name[USERS][8];
    const int64_t who = index * 7 % USERS;
    (void)source;
    snprintf(name[who], sizeof name[who], "%c%lld", (char)('z' - who % 5),
             (long long)who);
    *bytes_out = (int64_t)strlen(name[who]);
    return name[who];
}

TEST(images_of_a_user_have_one_client)
{
    const tt_source_def owned = {
        .name = "owned", .image = image, .user = user_of};
    tt_source s = images;
    int32_t client[USERS];
    int n_seen = 0;
    s.def = &owned;
    tt_shares *shares = make(&s, TT_SHARE_USER, 0);
    memset(client, -1, sizeof client);
    CHECK(tt_shares_total(shares) == N);
    for (int32_t k = 0; k < CLIENTS; k++)
        for (int64_t i = 0; i < tt_shares_size(shares, k); i++, n_seen++) {
            int64_t place = -1;
            const int64_t at = tt_shares_position(shares, k, i / 7) + i % 7;
            CHECK(tt_shares_find(shares, at, &place));
            const int64_t who = place * 7 % USERS;
            CHECK(client[who] == -1 || client[who] == k);
            client[who] = k;
        }
    for (int u = 0; u < USERS; u++)
        CHECK(client[u] >= 0);
    CHECK(n_seen == N);
    tt_shares_close(shares);
}

// The last batch of an epoch is filled up with samples that count for nothing.
TEST(a_short_batch_is_filled_up)
{
    tt_shares *s = make(&images, TT_SHARE_IID, 0); // 50 each: 7 batches and 1
    const tt_loader_options options = {.seed = 3,
                                       .shuffle = true,
                                       .step_samples = 7,
                                       .n_micro = 1,
                                       .micro_samples = 7,
                                       .shares = s};
    tt_loader *loader = NULL;
    tt_batch batch;
    CHECK_OK(tt_loader_open(&images, &options, &loader));
    CHECK(tt_loader_next(loader, 10, &batch) == TT_ERR_STATE);
    CHECK_OK(tt_loader_seek_span(loader, tt_shares_position(s, 5, 7), 2));
    CHECK_OK(tt_loader_next(loader, 10, &batch));
    CHECK(batch.y[0] >= 0);
    for (int i = 1; i < 7; i++)
        CHECK(batch.y[i] == -1 && ((const float *)batch.x)[i] > 0);
    CHECK_OK(tt_loader_next(loader, 10, &batch));
    for (int i = 0; i < 7; i++)
        CHECK(batch.y[i] >= 0);
    CHECK(tt_loader_next(loader, 10, &batch) == TT_ERR_STATE);
    tt_loader_close(loader);
    tt_shares_close(s);
}

static void refused(const tt_source *source, const tt_shares_options *options,
                    const char *why)
{
    tt_shares *s = NULL;
    CHECK(tt_shares_create(source, options, &s) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), why) != NULL);
}

TEST(shares_that_have_no_meaning_are_refused)
{
    tt_shares_options o = {.kind = TT_SHARE_DIRICHLET,
                           .clients = CLIENTS,
                           .seq = 8,
                           .batch = 7,
                           .alpha = 1,
                           .labels = 2};
    refused(&words, &o, "exchange.split=contiguous would do");
    o.kind = TT_SHARE_DOCUMENT;
    refused(&words, &o, "does not say where documents end");
    o.kind = TT_SHARE_USER;
    refused(&images, &o, "does not say whose its samples are");
    const tt_source_def owned = {
        .name = "owned", .image = image, .user = user_of};
    tt_source s = images;
    s.def = &owned;
    o.clients = USERS + 1;
    refused(&s, &o, "exchange.replicas=30 would do");
    o.kind = TT_SHARE_IID;
    o.clients = 2 * N;
    refused(&images, &o, "too few for 2400 clients");
    o.kind = TT_SHARE_LABEL;
    o.clients = CLIENTS;
    o.labels = 51;
    refused(&images, &o, "exchange.labels=50 would do");
}
