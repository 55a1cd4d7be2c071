/*
 * test_webp_coder.c - the boolean coder of devices with tokens that images hardly have.
 *
 * An image is encoded. Then its tokens in device memory are replaced, and coded again.
 */
#include "tests/fixtures/test.h"

#ifdef GPUIMGD_WEBP

#include "gpu/webp/encode_impl.h"
#include "tests/cuda/webp_encode_rig.h"

#define TOKENS_MAX 60000
#define TOKEN_ONE  0x100 /* in a token: its bit; the others are the probability of 0 */

enum tokens {
    RANDOM,   /* any probabilities and bits */
    LONGEST,  /* improbable bits: up to 7 bits of code per token */
    SHORTEST, /* probable ones */
    UPWARDS,  /* a carry runs through many 1s of the code, again and again */
    IN_TURNS, /* hundreds of each kind */
    TOKEN_KINDS
};

/* The definition of the coder (RFC 6386, section 7.3), with a carry at once. */
struct coder {
    uint8_t bytes[TOKENS_MAX + 8];
    size_t count;
    uint32_t range, bottom;
    int bits_left; /* until the next byte */
};

static void add_carry(struct coder *coder)
{
    size_t at = coder->count;
    while (at > 0 && ++coder->bytes[--at] == 0)
        continue;
}

static uint32_t split_of(uint32_t range, uint32_t probability)
{
    return 1 + ((range - 1) * probability >> 8);
}

static void code_token(struct coder *coder, uint16_t token)
{
    uint32_t split = split_of(coder->range, token & 255u);
    if (token & TOKEN_ONE) {
        coder->bottom += split;
        coder->range -= split;
    } else {
        coder->range = split;
    }
    while (coder->range < 128) {
        coder->range *= 2;
        if (coder->bottom & 1u << 31)
            add_carry(coder);
        coder->bottom *= 2;
        if (--coder->bits_left > 0)
            continue;
        coder->bytes[coder->count++] = (uint8_t)(coder->bottom >> 24);
        coder->bottom &= (1u << 24) - 1;
        coder->bits_left = 8;
    }
}

static void end_code(struct coder *coder)
{
    if (coder->bottom & 1u << (32 - coder->bits_left))
        add_carry(coder);
}

/* ---- tokens ---- */

/* What the next token depends on. */
struct source {
    uint32_t random, range;
    uint32_t low;  /* the 8 bits of the code that may still change */
    uint32_t left; /* from the code to the carry that it approaches; 0: it approaches none */
};

/* Chooses the bit by which the code stays below the next carry, and can still reach it. */
static bool bit_upwards(struct source *source, uint32_t split)
{
    if (source->left == 0 && 256 - source->low < source->range)
        source->left = 256 - source->low;
    if (source->left == 0)
        return picture_random(&source->random) & 1;
    return source->left >= split;
}

static uint16_t make_token(struct source *source, enum tokens kind)
{
    uint32_t probability = 1 + picture_random(&source->random) % 255;
    bool one = picture_random(&source->random) & 1;
    if (kind == LONGEST || kind == SHORTEST)
        probability = one ? 1 : 255;
    if (kind == LONGEST)
        one = !one;
    uint32_t split = split_of(source->range, probability);
    if (kind == UPWARDS)
        one = bit_upwards(source, split);
    else
        source->left = 0;
    if (one) {
        source->low += split;
        source->left -= source->left > 0 ? split : 0;
    }
    source->range = one ? source->range - split : split;
    for (; source->range < 128; source->range *= 2) {
        source->low *= 2;
        source->left *= 2;
    }
    source->low &= 255;
    return (uint16_t)(probability | (one ? TOKEN_ONE : 0));
}

static void make_tokens(uint16_t *tokens, uint32_t count, enum tokens kind, uint32_t seed)
{
    struct source source = {.random = seed, .range = 255};
    for (uint32_t i = 0; i < count; i++)
        tokens[i] =
            make_token(&source, kind == IN_TURNS ? (enum tokens)(i / 700 % IN_TURNS) : kind);
}

/* ---- the device ---- */

static struct coder coder;
static uint16_t tokens[TOKENS_MAX];

static void copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    check(cudaMemcpyAsync(to, from, bytes, kind, webp.stream));
    check(cudaStreamSynchronize(webp.stream));
}

/* Replaces the tokens of the coefficients of the first image. */
static struct webp_encode_descriptor replace_tokens(enum tokens kind, uint32_t seed)
{
    struct webp_encode_descriptor image;
    uint8_t *description = webp.arena.device + webp.description_at;
    copy(&image, description + webp.batch.images_at, sizeof image, cudaMemcpyDeviceToHost);
    uint32_t count = image.coefficients.token_count, none = 0;
    assert_true(count > 8000 && count <= TOKENS_MAX);
    make_tokens(tokens, count, kind, seed);
    copy(image.coefficients.tokens, tokens, count * sizeof *tokens, cudaMemcpyHostToDevice);
    copy(description + offsetof(struct webp_encode_common, piece_count), &none, sizeof none,
         cudaMemcpyHostToDevice);
    return image;
}

/* Compares the second partition with the definition; not its end, which libwebp does its own way,
 * and which other tests compare. */
static void expect_code(const struct webp_encode_descriptor *image, enum tokens kind,
                        uint32_t length)
{
    enum { heads = WEBP_RIFF_BYTES + 8 + 10 };
    const uint8_t *file = webp.arena.after + webp.cases[0].file_at;
    coder = (struct coder){.range = 255, .bits_left = 24};
    for (uint32_t i = 0; i < image->coefficients.token_count; i++)
        code_token(&coder, tokens[i]);
    end_code(&coder);
    const uint8_t *code = file + heads + image->modes.byte_count;
    assert_true(length >= heads + image->modes.byte_count + coder.count);
    for (size_t i = 0; i + 2 < coder.count; i++)
        if (code[i] != coder.bytes[i])
            fail_msg("tokens %d: byte %zu of %zu is %d, not %d", (int)kind, i, coder.count, code[i],
                     coder.bytes[i]);
}

/* Returns the length of the file. */
static uint32_t check_tokens(uint32_t side, int quality, enum tokens kind, uint32_t seed,
                             size_t capacity)
{
    add_case(side, side, 3, quality, DRAWING_PHOTOGRAPH, 3)->capacity = capacity;
    make_all_references();
    open_batch();
    uint8_t *description = webp.arena.device + webp.description_at;
    check((cudaError_t)webp_encode_launch(&webp.batch, description, webp.stream));
    struct webp_encode_descriptor image = replace_tokens(kind, seed);
    check((cudaError_t)webp_launch_code(&webp.batch, description, webp.stream));
    check(cudaStreamSynchronize(webp.stream));
    UNPOISON(webp.arena.device, webp.arena.bytes);
    arena_download(&webp.arena, webp.stream);
    uint32_t length = *(const uint32_t *)(webp.arena.after + webp.lengths_at);
    if (length > 0)
        expect_code(&image, kind, length);
    arena_allow(&webp.arena, webp.cases[0].file_at, webp.cases[0].capacity);
    expect_rest_untouched();
    close_batch();
    return length;
}

/* ---- tests ---- */

static bool no_device;

TEST(codes_of_any_tokens)
{
    if (no_device) {
        print_message("no CUDA device\n");
        skip();
    }
    for (int kind = 0; kind < TOKEN_KINDS; kind++) {
        for (uint32_t seed = 1; seed <= (ON_DEVICE ? 40 : 6); seed++) {
            webp.chunk_tokens = WEBP_CHUNK_TOKENS_MIN << seed % 3;
            assert_true(check_tokens(64, 90, (enum tokens)kind, seed * 1000003, 0) > 0);
        }
    }
    webp.chunk_tokens = 0;
}

/* A file that is as long as its memory, and one that is longer by a byte. */
TEST(the_longest_file)
{
    if (no_device)
        skip();
    uint32_t length = check_tokens(192, 85, LONGEST, 5, 1 << 20);
    assert_true(length > webp_encode_capacity(192, 192, 85, WEBP_RIFF_BYTES, 0));
    assert_int_equal(check_tokens(192, 85, LONGEST, 5, length), length);
    assert_int_equal(check_tokens(192, 85, LONGEST, 5, length - 1), 0);
}

/* Encodes an image with room for so many tokens of its coefficients, and sets *token_count to those
 * that it has. Returns the length of the file. */
static uint32_t encode_with_room(uint32_t room, uint32_t *token_count)
{
    struct webp_encode_descriptor image;
    uint32_t length;
    add_case(90, 90, 3, 90, DRAWING_PHOTOGRAPH, 4);
    make_all_references();
    open_batch();
    uint8_t *description = webp.arena.device + webp.description_at;
    uint8_t *at = description + webp.batch.images_at;
    copy(&image, at, sizeof image, cudaMemcpyDeviceToHost);
    image.coefficients.token_room = room;
    copy(at, &image, sizeof image, cudaMemcpyHostToDevice);
    check((cudaError_t)webp_encode_launch(&webp.batch, description, webp.stream));
    copy(&image, at, sizeof image, cudaMemcpyDeviceToHost);
    copy(&length, webp.arena.device + webp.lengths_at, sizeof length, cudaMemcpyDeviceToHost);
    UNPOISON(webp.arena.device, webp.arena.bytes);
    *token_count = image.coefficients.token_count;
    close_batch();
    return length;
}

TEST(the_most_tokens)
{
    uint32_t count, none;
    if (no_device)
        skip();
    uint32_t length = encode_with_room(60000, &count);
    assert_true(length > 0);
    assert_int_equal(encode_with_room(count, &none), length);
    assert_int_equal(encode_with_room(count - 1, &none), 0);
    assert_int_equal(none, 0);
}

/* The image itself is encoded as by libwebp. */
TEST(the_image)
{
    if (no_device)
        skip();
    webp.count = 0;
    add_case(64, 64, 3, 90, DRAWING_PHOTOGRAPH, 3);
    run_batch(1);
    assert_int_equal(webp.equal, 1);
}

static int setup(void **state)
{
    int devices = 0;
    no_device = cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0;
    if (!no_device)
        check(cudaStreamCreateWithFlags(&webp.stream, cudaStreamNonBlocking));
    return 0;
}

static int teardown(void **state)
{
    if (!no_device)
        check(cudaStreamDestroy(webp.stream));
    return 0;
}

TEST_MAIN(.name = "webp_coder", .setup = setup, .teardown = teardown)

#else

TEST(the_coder)
{
    print_message("built without libwebp (WEBP=no)\n");
    skip();
}

TEST_MAIN(.name = "webp_coder")

#endif
