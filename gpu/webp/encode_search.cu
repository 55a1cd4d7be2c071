/*
 * encode_search.cu - finds the quality at which a file has at most a given number of bytes: encodes
 * the images again and again, and chooses the next quality by quality_search.h.
 */
#include "gpu/simt/simt.h"
#include "gpu/webp/encode_impl.h"

#define SEARCH_THREADS 32

struct webp_search_args {
    struct webp_encode_descriptor *images;
    const uint8_t (*quants)[256]; /* of each quality */
    uint32_t image_count;
    uint32_t is_first; /* the images are not encoded yet */
};

/* Returns the quality of the next encode. */
DEVICE int next_quality(struct webp_encode_descriptor *image)
{
    struct quality_search *search = &image->search;
    uint32_t bytes = *image->file_bytes;
    if (image->is_found || bytes == 0)
        return image->quality;
    quality_search_add(search, image->quality, bytes);
    int quality = quality_search_next(search);
    image->is_found = quality == 0;
    if (quality > 0)
        return quality;
    return search->fits.quality > 0 ? search->fits.quality : search->above.quality;
}

KERNEL(choose_quality, SEARCH_THREADS, 1, struct webp_search_args)
{
    uint32_t index = (uint32_t)(block_index() * SEARCH_THREADS + thread_index());
    struct webp_encode_descriptor *image = args.images + index;
    struct quality_search none = {0};
    if (index >= args.image_count || image->bytes_max == 0)
        return;
    if (args.is_first) {
        image->search = none;
        image->search.bytes_max = image->bytes_max;
        image->is_found = false;
    }
    image->quality = args.is_first ? image->quality_max : next_quality(image);
    *image->found_quality = (uint32_t)image->quality;
    for (int i = 0; i < 256; i++)
        image->quants[i] = args.quants[image->quality][i];
}

int webp_encode_search(const struct webp_encode_batch *batch, void *description,
                       struct CUstream_st *stream)
{
    uint8_t *start = (uint8_t *)description;
    uint32_t blocks = (batch->image_count + SEARCH_THREADS - 1) / SEARCH_THREADS;
    uint32_t encodes = batch->quants_at > 0 ? QUALITY_TRIALS_MAX + 1 : 1;
    struct webp_search_args args;
    int status = 0;
    args.images = (struct webp_encode_descriptor *)(start + batch->images_at);
    args.quants = (const uint8_t(*)[256])(start + batch->quants_at);
    args.image_count = batch->image_count;
    for (uint32_t i = 0; i < encodes && status == 0; i++) {
        args.is_first = i == 0;
        if (batch->quants_at > 0)
            status = LAUNCH(choose_quality, SEARCH_THREADS, blocks, 0, stream, args);
        if (status == 0)
            status = webp_encode_launch(batch, description, stream);
    }
    return status;
}
