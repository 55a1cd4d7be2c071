/*
 * png_corpus - the PNG reader against libpng alone, over many files.
 *
 *     png_corpus FOLDER...     every file *.png below the folders
 *
 * Each file is decoded strictly and leniently. Both readers must give the same status, message and
 * pixels. Prints a line per file: the size, the channels and the CRC of the pixels of a strict
 * decode, or its error; tests/peers/check_png.py compares these with Pillow. Then it counts.
 *
 * Exit status: 0 nothing is different, 1 something is, 2 wrong arguments.
 */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/png/png_stream.h"
#include "tests/fixtures/picture.h"

#define FOLDERS_OPEN_MAX 16

struct reading {
    struct png_state state;
    struct error error;
    struct image image;
};

static struct {
    struct codec_context *codec;
    unsigned long files, by_stream, equal, refused, different;
} corpus;

static void need(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "png_corpus: %s\n", what);
    exit(2);
}

static void read_as(codec_decode_fn *decode, const struct picture_file *file,
                    const struct codec_limits *limits, const struct image_info *info,
                    struct reading *reading)
{
    struct decode_request request = {0};
    reading->error = (struct error){0};
    reading->image = (struct image){.width = info->width,
                                    .height = info->height,
                                    .channels = info->channels,
                                    .stride = (size_t)info->width * info->channels};
    reading->image.pixels = calloc(info->height, reading->image.stride);
    need(reading->image.pixels != NULL, "no memory");
    if (decode(&reading->state, file->bytes, file->length, info, &request, limits, &reading->image,
               &reading->error) != reading->error.status)
        corpus.different++;
}

static size_t bytes_of(const struct image *image)
{
    return image->stride * image->height;
}

static bool are_equal(const struct reading *own, const struct reading *plain)
{
    return own->error.status == plain->error.status &&
           strcmp(own->error.text, plain->error.text) == 0 &&
           (own->error.status != STATUS_OK ||
            memcmp(own->image.pixels, plain->image.pixels, bytes_of(&own->image)) == 0);
}

static void say(const char *path, const struct reading *own)
{
    const struct image *image = &own->image;
    if (own->error.status == STATUS_OK)
        printf("%ux%u %u %08lx\t%s\n", image->width, image->height, image->channels,
               crc32_z(0, image->pixels, bytes_of(image)), path);
    else
        printf("refused: %s\t%s\n", own->error.text, path);
}

static void compare(const char *path, const struct picture_file *file, bool lenient)
{
    static struct reading own, plain;
    struct codec_limits limits = {
        .pixels_max = PIXELS_DEFAULT, .side_max = SIDE_CEILING, .lenient = lenient};
    struct image_info info;
    struct error error = {0};
    if (codec_probe(corpus.codec, file->bytes, file->length, &limits, &info, &error) != STATUS_OK) {
        corpus.refused++;
        if (!lenient)
            printf("refused: %s\t%s\n", error.text, path);
        image_info_clear(&info);
        return;
    }
    if (info.format == &formats[FORMAT_png]) {
        read_as(png_decode, file, &limits, &info, &own);
        read_as(png_decode_by_libpng, file, &limits, &info, &plain);
        corpus.by_stream += own.error.status == STATUS_OK && own.state.at < plain.state.at;
        bool equal = are_equal(&own, &plain);
        *(!equal                          ? &corpus.different
          : own.error.status == STATUS_OK ? &corpus.equal
                                          : &corpus.refused) += 1;
        if (!equal)
            printf("DIFFERENT, %s: \"%s\" and \"%s\"\t%s\n", lenient ? "lenient" : "strict",
                   own.error.text, plain.error.text, path);
        else if (!lenient)
            say(path, &own);
        free(own.image.pixels);
        free(plain.image.pixels);
    }
    image_info_clear(&info);
}

static int on_file(const char *path, const struct stat *stat, int kind, struct FTW *place)
{
    (void)stat, (void)place;
    size_t length = strlen(path);
    if (kind != FTW_F || length < 4 || strcmp(path + length - 4, ".png") != 0)
        return 0;
    struct picture_file file = picture_load(path);
    corpus.files++;
    compare(path, &file, false);
    compare(path, &file, true);
    picture_free(&file);
    return 0;
}

int main(int count, char **arguments)
{
    need(count > 1, "usage: png_corpus FOLDER...");
    corpus.codec = codec_context_create();
    need(corpus.codec != NULL, "no memory");
    for (int i = 1; i < count; i++)
        need(nftw(arguments[i], on_file, FOLDERS_OPEN_MAX, FTW_PHYS) == 0, "cannot read a folder");
    printf("%lu files, each strict and lenient: %lu equal (%lu without libpng), %lu refused alike, "
           "%lu different\n",
           corpus.files, corpus.equal, corpus.by_stream, corpus.refused, corpus.different);
    codec_context_destroy(corpus.codec);
    return corpus.different > 0;
}
