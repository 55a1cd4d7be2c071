/*
 * bench_tile - makes one large JPEG for host.py: a photograph, repeated and mirrored.
 *
 *     bench_tile --folder F --width W --height H [--quality 92] OUTPUT
 *
 * The photograph is the first of the baseline JPEGs in the folder. Its repetition has as many bits
 * per pixel as a photograph; an enlarged photograph would have fewer.
 */
#include <stdio.h>

#include "tests/bench/jpeg_photos.h"
#include "tests/fixtures/arguments.h"

static bool write_file(const char *path, const struct photo *photo)
{
    FILE *file = fopen(path, "wb");
    bool good = file && fwrite(photo->bytes, 1, photo->length, file) == photo->length;
    return file && fclose(file) == 0 && good;
}

int main(int argc, char **argv)
{
    const char *folder = NULL;
    unsigned width = 0, height = 0, quality = 92;
    const struct argument options[] = {{"folder", .text = &folder}, {"width", .number = &width},
                                       {"height", .number = &height},
                                       {"quality", .number = &quality}, {.name = NULL}};
    int first = arguments_read(argc, argv, options);
    if (first < 0 || first + 1 != argc || !folder || width < 1 || height < 1 ||
        width > SIDE_CEILING || height > SIDE_CEILING || quality < 1 || quality > 100) {
        fprintf(stderr, "usage: bench_tile --folder F --width W --height H [--quality 1-100] "
                        "OUTPUT\n");
        return 64;
    }
    struct photos photos = photos_read(folder, false);
    if (photos.count == 0) {
        fprintf(stderr, "bench_tile: no baseline JPEG in %s\n", folder);
        return 1;
    }
    struct photos made = photos_make(&photos, 1, width, height, (int)quality);
    bool good = made.count == 1 && write_file(argv[first], &made.list[0]);
    if (!good)
        fprintf(stderr, "bench_tile: %s cannot be written\n", argv[first]);
    photos_free(&photos);
    photos_free(&made);
    return good ? 0 : 1;
}
