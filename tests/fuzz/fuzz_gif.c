/* fuzz_gif.c - any bytes as a GIF file. */
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    decode_check(bytes, length);
    return 0;
}

#ifdef GPUIMGD_GIF

#include "tests/fixtures/gif_file.h"

void fuzz_seeds(fuzz_give *give, void *context)
{
    static const struct gif_frame all = {.width = 9, .height = 7, .seed = 1};
    static const struct gif_frame frames[] = {
        {.width = 9, .height = 7, .seed = 3, .disposal = 1, .delay = 4},
        {.x = 2, .y = 1, .width = 6, .height = 5, .seed = 4, .transparent = 3, .interlaced = true},
        {.x = 6, .y = 5, .width = 7, .height = 9, .seed = 6, .disposal = 3},
        {.x = 1, .width = 4, .height = 4, .seed = 5, .local = true, .disposal = 2}};
    static const struct gif_frame interlaced = {.width = 20, .height = 30, .interlaced = true};
    static const struct {
        const char *name;
        struct gif_file file;
    } seeds[] = {
        {"one.gif", {.width = 9, .height = 7, .frames = &all, .count = 1}},
        {"animation.gif", {.width = 9, .height = 7, .frames = frames, .count = 4, .loops = 1}},
        {"interlaced.gif", {.frames = &interlaced, .count = 1, .comment = true}},
        {"no_palette.gif",
         {.width = 9, .height = 7, .frames = &all, .count = 1, .no_palette = true}},
        {"partial.gif", {.width = 30, .height = 20, .frames = &frames[1], .count = 3}},
    };
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        fuzz_give_file(give, context, seeds[i].name, gif_write(&seeds[i].file));
}

#else

void fuzz_seeds(fuzz_give *give, void *context)
{
    give(context, "header.gif", "GIF89a\1\0\1\0\0\0\0", 13);
}

#endif
