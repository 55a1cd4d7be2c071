/* fuzz_webp.c - any bytes as a WebP file, and files whose chunks are moved, nested and renamed. */
#include <string.h>

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    decode_check(bytes, length);
    return 0;
}

#ifdef GPUIMGD_WEBP

#include <webp/encode.h>

enum { width = 9, height = 7, canvas_side = 70, riff_bytes = 12, chunk_bytes = 8 };

static void put_le(uint8_t *at, size_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static void append_chunk(struct picture_file *file, const char *type, const void *data,
                         size_t bytes)
{
    uint8_t head[chunk_bytes];
    memcpy(head, type, 4);
    put_le(head + 4, bytes, 4);
    picture_insert(file, file->length, head, sizeof head);
    picture_insert(file, file->length, data, bytes);
    if (bytes % 2 != 0)
        picture_insert(file, file->length, "", 1);
    put_le(file->bytes + 4, file->length - 8, 4);
}

/* A container with the flags of VP8X, and the chunks of `plain` in a frame if it is animated. */
static struct picture_file extended(const struct picture_file *plain, int flags, bool animated)
{
    struct picture_file file = picture_cut(plain, riff_bytes);
    struct picture_file icc = picture_icc(144, "RGB "), exif = picture_exif(6, false, true);
    uint8_t right = animated ? canvas_side - 1 : width - 1;
    uint8_t bottom = animated ? canvas_side - 1 : height - 1;
    uint8_t vp8x[10] = {(uint8_t)flags, 0, 0, 0, right, 0, 0, bottom, 0, 0};
    uint8_t frame[16 + 4096] = {1, 0, 0, 1, 0, 0, width - 1, 0, 0, height - 1, 0, 0, 100};
    const uint8_t *image = plain->bytes + riff_bytes;
    size_t bytes = plain->length - riff_bytes;
    FUZZ_MUST(bytes <= sizeof frame - 16);
    append_chunk(&file, "VP8X", vp8x, sizeof vp8x);
    append_chunk(&file, "ICCP", icc.bytes, icc.length);
    if (animated) {
        memcpy(frame + 16, image, bytes);
        append_chunk(&file, "ANIM", "\xFF\xFF\xFF\xFF\0\0", 6);
        append_chunk(&file, "ANMF", frame, 16 + bytes);
    } else {
        picture_insert(&file, file.length, image, bytes);
    }
    append_chunk(&file, "EXIF", exif.bytes, exif.length);
    append_chunk(&file, "XMP ", "<x:xmpmeta/>", 12);
    picture_free(&icc);
    picture_free(&exif);
    return file;
}

static struct picture_file plain_file(uint32_t channels, bool lossless)
{
    uint8_t *pixels = picture_pixels(width, height, channels, 1), *bytes = NULL;
    int stride = (int)channels * width;
    size_t length = lossless
        ? (channels == 4 ? WebPEncodeLosslessRGBA(pixels, width, height, stride, &bytes)
                         : WebPEncodeLosslessRGB(pixels, width, height, stride, &bytes))
        : (channels == 4 ? WebPEncodeRGBA(pixels, width, height, stride, 75, &bytes)
                         : WebPEncodeRGB(pixels, width, height, stride, 75, &bytes));
    struct picture_file whole = {bytes, length}, file = picture_cut(&whole, length);
    FUZZ_MUST(length > 0);
    WebPFree(bytes);
    free(pixels);
    return file;
}

/* ---- an image that needs many groups of Huffman codes ---- */

struct bits {
    uint8_t bytes[4096];
    size_t count;
};

static void put_bits(struct bits *bits, unsigned value, unsigned count)
{
    FUZZ_MUST(bits->count + count <= 8 * sizeof bits->bytes);
    for (unsigned i = 0; i < count; i++, bits->count++)
        bits->bytes[bits->count / 8] |= (uint8_t)((value >> i & 1) << bits->count % 8);
}

/* Code lengths 2, 2, 2, 2 for four symbols, or one symbol with 0 bits. */
static void put_code(struct bits *bits, bool is_wide)
{
    put_bits(bits, !is_wide, 1);
    put_bits(bits, is_wide ? 12 - 4 : 0, is_wide ? 4 : 3);
    for (int i = 0; is_wide && i < 12; i++)
        put_bits(bits, i == 2 || i == 4, 3); /* of the lengths 0 and 2: one bit each */
    if (is_wide) {
        put_bits(bits, 1, 1); /* a maximum: four symbols */
        put_bits(bits, 0, 3);
        put_bits(bits, 4 - 2, 2);
        put_bits(bits, 0xF, 4);
    }
}

/* A lossless image of 64 x 64 pixels and 2.3 KB, for which libwebp has tables of 16 MB. */
static struct picture_file many_groups(void)
{
    enum { side = 64, blocks = 16 * 16, codes = 5 * (0x303 + 1) };
    struct picture_file file = {NULL, 0};
    struct bits bits = {.count = 0};
    put_bits(&bits, 0x2F, 8);
    put_bits(&bits, side - 1, 14);
    put_bits(&bits, side - 1, 14);
    put_bits(&bits, 1, 4); /* alpha, version 0 */
    put_bits(&bits, 0, 2); /* no transform, no colour cache */
    put_bits(&bits, 1, 4); /* groups in blocks of 4 x 4 */
    put_bits(&bits, 0, 1);
    for (int i = 0; i < 5; i++)
        put_code(&bits, i < 2);
    for (unsigned i = 0; i < blocks; i++)
        put_bits(&bits, i, 4); /* green and red: numbers up to 0x303 */
    for (unsigned i = 0; i < codes; i++)
        put_code(&bits, false);
    picture_insert(&file, 0, "RIFF\0\0\0\0WEBP", riff_bytes);
    append_chunk(&file, "VP8L", bits.bytes, bits.count / 8 + 8);
    return file;
}

/* ---- mutations of the chunks ---- */

enum { chunks_max = 64, frame_bytes = 16 };

/* The chunks of a file, and those in its frames. */
struct tree {
    uint8_t *bytes;
    size_t length, capacity;
    struct node {
        size_t at, bytes; /* with header and padding */
        size_t parent;    /* the offset of its frame's chunk; 0: none */
    } nodes[chunks_max];
    size_t count;
};

static size_t get_le(const uint8_t *at)
{
    return at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24;
}

static void find_chunks(struct tree *tree, size_t at, size_t end, size_t parent)
{
    while (end - at >= chunk_bytes && tree->count < chunks_max) {
        size_t data = get_le(tree->bytes + at + 4), left = end - at - chunk_bytes;
        data = data < left ? data : left;
        size_t bytes = chunk_bytes + data + (data % 2 != 0 && data < left);
        tree->nodes[tree->count++] = (struct node){at, bytes, parent};
        if (memcmp(tree->bytes + at, "ANMF", 4) == 0 && data >= frame_bytes && parent == 0)
            find_chunks(tree, at + chunk_bytes + frame_bytes, at + chunk_bytes + data, at);
        at += bytes;
    }
}

/* Replaces bytes, and changes the lengths of the frame and the file around them. */
static void splice(struct tree *tree, const struct node *node, size_t at, size_t removed,
                   const uint8_t *bytes, size_t count)
{
    uint8_t *copy = malloc(count + 1);
    FUZZ_MUST(copy != NULL && at + removed <= tree->length);
    if (tree->length - removed + count <= tree->capacity) {
        if (count > 0)
            memcpy(copy, bytes, count);
        memmove(tree->bytes + at + count, tree->bytes + at + removed, tree->length - at - removed);
        memcpy(tree->bytes + at, copy, count);
        tree->length += count - removed;
        if (node->parent != 0)
            put_le(tree->bytes + node->parent + 4,
                   get_le(tree->bytes + node->parent + 4) + count - removed, 4);
        put_le(tree->bytes + 4, tree->length - 8, 4);
    }
    free(copy);
}

static void mutate_chunk(struct tree *tree, uint32_t *random)
{
    static const char types[][5] = {"VP8 ", "VP8L", "VP8X", "ALPH", "ANIM", "ANMF",
                                    "RIFF", "WEBP", "ICCP", "EXIF", "XMP ", "XXXX"};
    const struct node *node = &tree->nodes[picture_random(random) % tree->count];
    const struct node *other = &tree->nodes[picture_random(random) % tree->count];
    const char *type = types[picture_random(random) % (sizeof types / sizeof types[0])];
    uint8_t head[riff_bytes + frame_bytes] = {0}, *size = tree->bytes + node->at + 4;
    uint32_t value = picture_random(random);
    size_t head_bytes = riff_bytes;
    struct picture_file seed = {NULL, 0};
    switch (picture_random(random) % 9) {
    case 0:
        splice(tree, other, other->at, 0, tree->bytes + node->at, node->bytes);
        break;
    case 1:
        splice(tree, node, node->at, node->bytes, NULL, 0);
        break;
    case 2:
        splice(tree, node, node->at, chunk_bytes, NULL, 0);
        break;
    case 3:
        memcpy(tree->bytes + node->at, type, 4);
        break;
    case 4:
        put_le(size, value % 4 ? get_le(size) + value % 8 - 4 : value >> value % 32, 4);
        break;
    case 5: /* nested in a file or a frame */
        memcpy(head, value % 2 ? "RIFF\0\0\0\0WEBP" : "ANMF", value % 2 ? 12 : 4);
        head_bytes = value % 2 ? riff_bytes : chunk_bytes + frame_bytes;
        put_le(head + 4, node->bytes + head_bytes - chunk_bytes, 4);
        splice(tree, node, node->at, 0, head, head_bytes);
        break;
    case 6: /* an empty chunk, or one with a few bytes */
        memcpy(head, type, 4);
        put_le(head + 4, value % 5, 4);
        splice(tree, node, node->at, 0, head, chunk_bytes + value % 5 + value % 2);
        break;
    case 7:
        seed = many_groups();
        splice(tree, node, node->at, value % 2 ? node->bytes : 0, seed.bytes + riff_bytes,
               seed.length - riff_bytes);
        picture_free(&seed);
        break;
    default:
        put_le(tree->bytes + 4, tree->length - 8 + value % 16 - 8, 4);
        break;
    }
}

/* libFuzzer's own mutations; replay.c has none. */
__attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *bytes, size_t length, size_t capacity);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t length, size_t capacity, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t length, size_t capacity, unsigned seed)
{
    uint32_t random = seed | 1;
    for (unsigned times = 1 + picture_random(&random) % 4; times > 0; times--) {
        struct tree tree = {.bytes = bytes, .length = length, .capacity = capacity};
        if (length > riff_bytes)
            find_chunks(&tree, riff_bytes, length, 0);
        if (tree.count > 0 && picture_random(&random) % 2 != 0)
            mutate_chunk(&tree, &random);
        else if (LLVMFuzzerMutate)
            tree.length = LLVMFuzzerMutate(bytes, length, capacity);
        length = tree.length;
    }
    return length;
}

/* ---- seeds ---- */

/* Some hundred mutations of a file, also without libFuzzer. */
static void check_mutations(const struct picture_file *file)
{
    enum { capacity = 16384, rounds = 80, steps = 8 };
    uint8_t *bytes = malloc(capacity);
    FUZZ_MUST(bytes != NULL && file->length <= capacity);
    decode_check(file->bytes, file->length);
    for (unsigned i = 0; i < rounds; i++) {
        size_t length = file->length;
        memcpy(bytes, file->bytes, length);
        for (unsigned j = 0; j < 1 + i % steps; j++)
            length = LLVMFuzzerCustomMutator(bytes, length, capacity, steps * i + j + 1);
        struct picture_file copy = picture_cut(&(struct picture_file){bytes, length}, length);
        decode_check(copy.bytes, copy.length);
        picture_free(&copy);
    }
    free(bytes);
}

void fuzz_seeds(fuzz_give *give, void *context)
{
    enum { tagged = 0x2C, animated = 0x02 };
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = {"lossy", "lossy-alpha", "lossless", "lossless-alpha"};
        struct picture_file plain = plain_file(3 + i % 2, i / 2);
        char name[40];
        snprintf(name, sizeof name, "%s.webp", names[i]);
        if (i != 1) {
            fuzz_give_file(give, context, "extended.webp", extended(&plain, tagged, false));
            fuzz_give_file(give, context, "animated.webp",
                           extended(&plain, tagged | animated, true));
        }
        fuzz_give_file(give, context, name, plain);
    }
    struct picture_file groups = many_groups(), frame = extended(&groups, tagged | animated, true);
    check_mutations(&groups);
    check_mutations(&frame);
    fuzz_give_file(give, context, "groups.webp", groups);
    fuzz_give_file(give, context, "groups-animated.webp", frame);
}

#else

void fuzz_seeds(fuzz_give *give, void *context)
{
    give(context, "header.webp", "RIFF\x24\0\0\0WEBPVP8 ", 16);
}

#endif
