/*
 * frames.c - refuses an AVIF image with too many frames before they are decoded.
 *
 * dav1d decodes all frames of an image until the one that libavif wants, and thousands of them fit
 * a small file. libavif gives it the data of an image, a cell or an alpha plane at once, by
 * dav1d_send_data. The function of that name here takes its place. So the frames that are counted
 * are those that dav1d would read, wherever they are in the file. With another decoder, or if
 * libavif contains dav1d, it is never called; then only the deadline bounds the time.
 */
#include <dlfcn.h>
#include <errno.h>

#include "codecs/confined/avif.h"

/* The first members of Dav1dData. */
struct dav1d_data {
    const uint8_t *bytes;
    size_t length;
};

typedef int send_data_fn(void *context, struct dav1d_data *data);
send_data_fn dav1d_send_data __attribute__((visibility("default")));

static size_t too_many;

size_t avif_frames_refused(void)
{
    size_t frames = too_many;
    too_many = 0;
    return frames;
}

/* Reads leb128: AV1, section 4.10.5. */
static size_t read_size(const uint8_t **at, const uint8_t *end)
{
    enum { bytes_max = 8, bits = 7, more = 128 };
    size_t size = 0;
    for (unsigned i = 0; i < bytes_max && *at < end; i++) {
        uint8_t byte = *(*at)++;
        size |= (size_t)(byte & (more - 1)) << i * bits;
        if (!(byte & more))
            break;
    }
    return size;
}

/* Frame headers in OBUs: AV1, section 5.3. Where the data is damaged, dav1d stops as well. */
static size_t count_frames(const uint8_t *at, size_t length)
{
    enum { frame_header = 3, frame = 6, redundant_header = 7 };
    enum { has_size = 2, has_extension = 4 };
    size_t frames = 0;
    for (const uint8_t *end = at + length; at < end;) {
        unsigned header = *at++, type = header >> 3 & 15;
        if (header & has_extension && at < end)
            at++;
        size_t size = header & has_size ? read_size(&at, end) : (size_t)(end - at);
        if (size > (size_t)(end - at))
            break;
        frames += type == frame_header || type == frame || type == redundant_header;
        at += size;
    }
    return frames;
}

int dav1d_send_data(void *context, struct dav1d_data *data)
{
    static send_data_fn *send_data;
    if (!send_data)
        *(void **)&send_data = dlsym(RTLD_NEXT, "dav1d_send_data");
    size_t frames = data->bytes ? count_frames(data->bytes, data->length) : 0;
    if (frames > AVIF_FRAMES_MAX)
        too_many = frames;
    return frames <= AVIF_FRAMES_MAX && send_data ? send_data(context, data) : -EINVAL;
}
