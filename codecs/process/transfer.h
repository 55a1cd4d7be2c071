/*
 * transfer.h - reads and writes files with a codec process (process.h): the functions of the codecs
 * whose format has a `.library` in conf/formats.def.
 *
 * Before a task, the pipeline reserves info->codec_bytes or encoder_bytes for it. These are also
 * the limits of the process's memory, so a task cannot use more than was reserved.
 */
#pragma once

#include "codecs/codec_impl.h"
#include "codecs/process/process.h"

/* text.c: a text is no format of files, but probed and decoded like one. */
extern const struct format codec_text_format;
/* Why this program cannot draw texts; NULL: it can. */
const char *codec_text_refusal(void);

/* reader.c: probe and decode with the library of info->format. The state is the worker's struct
 * codec_process. */
codec_probe_fn codec_process_probe;
codec_decode_fn codec_process_decode;
/* The process stays in the task until codec_process_end. */
codec_next_frame_fn codec_process_next_frame;

/* writer.c: encodes with the library of request->format. encoder_bytes: the memory that the library
 * needs, with the window; metadata_copies: of struct codec. */
enum status codec_process_encode(struct codec_process *process, const struct image *src,
                                 const struct encode_request *request, size_t encoder_bytes,
                                 size_t metadata_copies, struct codec_sink *sink,
                                 struct error *error);

/* writer.c: makes another file of a file without its pixels, with the library of JPEG XL.
 * work_bytes: the memory that it needs besides the file. Only the deadline, the caller and the
 * effort of the request are used. */
enum status codec_process_recompress(struct codec_process *process, const uint8_t *bytes,
                                     size_t length, const struct encode_request *request,
                                     size_t work_bytes, struct codec_sink *sink,
                                     struct error *error);

/* A view of `count` rows of an image, from `row` on. */
static inline struct image codec_rows_of(const struct image *image, uint32_t row, uint32_t count)
{
    struct image rows = *image;
    rows.pixels += row * image->stride;
    rows.height = count;
    return rows;
}

/* Whether the reply can be about the rows from `row` on. If not, hostile code runs in the codec
 * process. */
static inline bool codec_is_next_rows(const struct codec_reply *reply, const struct image *image,
                                      uint32_t row)
{
    uint64_t bytes = (uint64_t)reply->rows * image->width * image->channels;
    return reply->rows > 0 && reply->rows <= image->height - row && bytes <= CODEC_WINDOW_BYTES &&
           reply->at <= CODEC_WINDOW_BYTES - bytes;
}
