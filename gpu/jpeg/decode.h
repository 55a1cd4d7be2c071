/*
 * decode.h - decodes JPEG files in device memory, with exactly the samples of libjpeg-turbo.
 *
 * The samples are those of libjpeg-turbo with JDCT_ISLOW and fancy upsampling, at 8/8, 4/8, 2/8 or
 * 1/8 of the size. The input is a sequential file, or the coefficients of a progressive file, which
 * progressive.h decodes. The device declines an image that is damaged, or for which libjpeg would
 * warn: the image's verdict is then not 0, and its pixels are undefined. The caller must decode it
 * on the host.
 *
 * A batch of images shares the kernel launches. The kernels read descriptors of the images, which
 * the host writes and uploads:
 *
 *     for each image: images[i].work = device memory of jpeg_decode_work_bytes(...) bytes;
 *     bytes = jpeg_decode_describe(images, count, NULL, 0, &batch);
 *     jpeg_decode_describe(images, count, pinned, bytes, &batch);
 *     cudaMemcpyAsync(descriptors, pinned, bytes, cudaMemcpyHostToDevice, stream);
 *     jpeg_decode_launch(&batch, descriptors, stream);
 *
 * The functions may be called on any thread. They neither allocate memory nor wait for the device.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/image.h"
#include "codecs/jpeg/frame.h"
#include "conf/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;
struct jpeg_plane;

/* Images of a batch, at most. */
#define JPEG_DECODE_BATCH_MAX 4096
/* Bit positions in a file are 32-bit numbers, which would allow 512 MiB. Half of that is far from
 * overflow when the kernels look ahead. */
#define JPEG_DECODE_FILE_BYTES_MAX (256u << 20)

/* Whether an image was decoded, or why the device has declined it. */
enum jpeg_decode_verdict {
    JPEG_DECODE_DONE,
    JPEG_DECODE_BAD_CODE,   /* bits that are no Huffman code, or a coefficient index above 63 */
    JPEG_DECODE_EARLY_END,  /* the data ends before the last block, or has no end marker */
    JPEG_DECODE_BYTES_LEFT, /* bytes between the last block and the restart or end marker */
    JPEG_DECODE_RESTART,    /* a restart marker is missing, not expected, or has a wrong number */
    JPEG_DECODE_MARKER,     /* another marker than a restart marker or EOI */
    JPEG_DECODE_RANGE,      /* Values outside of the range in which libjpeg's inverse DCTs in C and
                               with SIMD instructions give the same samples (idct.h). In blocks that
                               are not needed, they may go unnoticed. */
    JPEG_DECODE_NOT_SYNCHRONISED, /* The threads that decode parts of the file did not find the
                                     decoder's state within MEND_ROUNDS_MAX (decode_huffman.cu). */
    JPEG_DECODE_NO_INPUT,         /* the decoder of the progressive file has declined it */
};

/* An image of a batch. */
struct jpeg_decode_image {
    const struct jpeg_frame *frame; /* host memory */
    const uint8_t *file; /* Device address of the whole file, a multiple of 16. The memory must
                            be readable up to the next multiple of 16 bytes after the file. */
    uint32_t file_bytes;
    enum decode_as as;
    uint32_t eighths;        /* the scale of the decoded image, in eighths: 8, 4, 2 or 1; 0 is 8 */
    struct image image;      /* The result. pixels: device address, a multiple of BUFFER_ALIGN;
                                stride: image_stride(); width and height: image_scaled(). channels:
                                1 for a gray file or DECODE_LUMA, else 3 (RGB, or with DECODE_YCC
                                Y, Cb and Cr). */
    struct image_part needed; /* the pixels outside of this part of the result may stay undefined;
                                 width 0: all are needed */
    uint32_t *verdict;       /* receives an enum jpeg_decode_verdict; device or mapped memory */
    uint8_t *work;           /* device address, a multiple of BUFFER_ALIGN */
    const void *prepared;    /* by jpeg_decode_prepare, of the members above; NULL: not prepared */
    /* Only for a progressive file: */
    const struct jpeg_plane *coefficients; /* Host memory: the coefficients of each component that
                                              `as` needs, in the order of the frame's components.
                                              NULL: the file is sequential. */
    const uint32_t *coefficients_verdict;  /* device address: 0 if the coefficients are valid */
};

/* What jpeg_decode_launch must know of a batch. jpeg_decode_describe fills it, and callers do not
 * use its members. */
struct jpeg_decode_batch {
    uint32_t image_count;
    uint32_t table_set_count; /* distinct sets of Huffman tables */
    uint32_t sub_words;       /* the most words of a subsequence */
    /* Number of thread blocks in the launches of the kernels; decode_impl.h explains the units. */
    uint32_t chunks, spans, tiles, group_sets, bands;
    uint32_t span_threads, halo; /* of the kernels that have a block per span: threads per block,
                                    and those that decode subsequences before the span */
    bool has_restarts;     /* an image has restart markers */
};

/* Returns the bytes of device memory that an image needs besides its file and its pixels; 0: the
 * device cannot decode it. The device decodes gray and YCbCr files with 4:4:4, 4:2:2, 4:4:0 or
 * 4:2:0 sampling. A sequential file must have one scan, the same Huffman tables for Cb and Cr, and
 * at most JPEG_DECODE_FILE_BYTES_MAX. eighths must be a value of jpeg_decode_image.eighths. */
size_t jpeg_decode_work_bytes(const struct jpeg_frame *frame, size_t file_bytes, enum decode_as as,
                              uint32_t eighths);

/* Writes what the descriptor of a sequential file does not share with its batch to host memory of
 * JPEG_DECODE_PREPARED_BYTES, aligned to 64. A thread that describes batches is thus spared most of
 * the work; any thread can prepare an image. */
#define JPEG_DECODE_PREPARED_BYTES 896
void jpeg_decode_prepare(const struct jpeg_decode_image *image, void *prepared);

/* Writes the descriptors of 1 to JPEG_DECODE_BATCH_MAX images to `descriptors`, host memory of
 * `bytes` bytes whose address is a multiple of 16, and fills *batch. Returns the number of bytes
 * that the descriptors take. If this is more than `bytes`, nothing is written.
 * jpeg_decode_work_bytes must not be 0 for any image. */
size_t jpeg_decode_describe(const struct jpeg_decode_image *images, size_t count, void *descriptors,
                            size_t bytes, struct jpeg_decode_batch *batch);

/* Enqueues the decoding of a batch. descriptors: the uploaded descriptors, at a device address that
 * is a multiple of BUFFER_ALIGN. The descriptors, the files, the images and the work memory must
 * stay valid until the stream has run the kernels. The same descriptors can be launched again.
 * Returns a cudaError_t. */
int jpeg_decode_launch(const struct jpeg_decode_batch *batch, const void *descriptors,
                       struct CUstream_st *stream) MUST_CHECK;

#ifdef __cplusplus
}
#endif
