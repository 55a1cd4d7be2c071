/* encode_quality.c - describes the searches of a batch of images. */
#include "gpu/jpeg/encode_quality.h"

#include <string.h>

/* The tiles along a side with so many windows. */
static uint32_t tiles_of(uint32_t windows)
{
    return windows <= QUALITY_WINDOWS + 1 ? 1
                                          : (windows - 1 + QUALITY_WINDOWS - 1) / QUALITY_WINDOWS;
}

uint32_t encode_search_describe(const struct jpeg_encode_image *image, uint32_t descriptor,
                                uint32_t index, struct encode_search *search,
                                struct encode_chunk *chunks)
{
    uint32_t across = ssim_blocks(image->source.width) - 1;
    uint32_t down = ssim_blocks(image->source.height) - 1;
    uint32_t tiles = tiles_of(across) * tiles_of(down);
    uint32_t count = (tiles + CHUNK_UNITS - 1) / CHUNK_UNITS;
    if (!search)
        return count;
    memset(search, 0, sizeof *search);
    search->start = (struct ssim_search){
        .target = image->ssim, .least = image->quality_min, .most = image->quality_max};
    search->first_quality = ssim_search_next(&search->start);
    search->image = descriptor;
    search->tables = image->source.channels > 1 ? 2 : 1;
    search->windows_across = across;
    search->windows_down = down;
    search->tiles_across = tiles_of(across);
    search->tile_count = tiles;
    memcpy(search->quants, image->header_quants, sizeof search->quants);
    search->found_quality = image->found_quality;
    search->found_ssim = image->found_ssim;
    for (uint32_t i = 0; i < count; i++)
        chunks[i] = (struct encode_chunk){index, i * CHUNK_UNITS};
    return count;
}

uint32_t encode_search_trials(const struct jpeg_encode_image *image)
{
    uint32_t qualities = (uint32_t)(image->quality_max - image->quality_min + 1);
    return qualities < SSIM_TRIALS_MAX ? qualities : SSIM_TRIALS_MAX;
}
