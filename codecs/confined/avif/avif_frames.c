/*
 * avif_frames.c - refuses an AVIF image that has too many AV1 frames, before dav1d decodes them.
 *
 * In an AVIF file, an image is an AV1 stream, which may have many frames. libavif shows only the
 * last frame, but the decoder dav1d decodes all of them. A small file may have thousands.
 *
 * libavif passes the stream of an image, of a cell of a grid or of an alpha plane to dav1d in a
 * single call of dav1d_send_data. This file defines a function of the same name in the program.
 * The dynamic linker binds libavif's call to the program's function, because it looks there first.
 * The function counts the frames, and calls dav1d's function, which dlsym(RTLD_NEXT) finds. So it
 * counts exactly the frames that dav1d would decode.
 *
 * If libavif uses another decoder or contains dav1d, this function is never called. Then only the
 * deadline of the job limits the time.
 */
#ifdef GPUIMGD_AVIF

#include <dlfcn.h>
#include <errno.h>

#include "codecs/confined/avif/avif.h"

/* The first members of dav1d's struct Dav1dData, whose header is not needed for the build. Only a
 * pointer to such a struct is passed on. */
struct dav1d_data_prefix {
    const uint8_t *bytes;
    size_t length;
};

typedef int send_data_fn(void *context, struct dav1d_data_prefix *data);
send_data_fn dav1d_send_data __attribute__((visibility("default")));

static size_t refused_frames; /* the frames of the last image that was refused; 0: none */

size_t avif_take_refused_frames(void)
{
    size_t frames = refused_frames;
    refused_frames = 0;
    return frames;
}

/* Reads a number of variable length: leb128 in the AV1 specification, section 4.10.5. */
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

/* Counts the frame headers in a stream of OBUs (open bitstream units, the packets of AV1: section
 * 5.3 of the specification). It stops at damaged data, and so does dav1d. */
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

int dav1d_send_data(void *context, struct dav1d_data_prefix *data)
{
    static send_data_fn *send_data; /* the function of dav1d itself */
    if (!send_data)
        *(void **)&send_data = dlsym(RTLD_NEXT, "dav1d_send_data");
    size_t frames = data->bytes ? count_frames(data->bytes, data->length) : 0;
    if (frames > AVIF_FRAMES_MAX)
        refused_frames = frames;
    return frames <= AVIF_FRAMES_MAX && send_data ? send_data(context, data) : -EINVAL;
}

#endif
