/*
 * reader.c - probes and decodes files in a codec process (process.h): copies files to the process,
 * and metadata and pixels from it.
 */
#include <stdlib.h>

#include "codecs/animation.h"
#include "codecs/process/transfer.h"

/* A probe gets this much of a file at first: the header of most files, or a whole small file. */
#define HEAD_BYTES (64 * KIB)

static size_t round_up(size_t bytes)
{
    enum { page = 4096 };
    return (bytes + page - 1) / page * page;
}

/* The number of the task's format in calls. */
static uint32_t number_of(const struct codec_task *task)
{
    return task->draws_text ? CODEC_TEXT : (uint32_t)(task->format - formats);
}

static bool is_text(const struct image_info *info)
{
    return info->format == &codec_text_format;
}

/* ---- probe ---- */

/* Copies the bytes of the file that the library reads next. */
static enum status put_part(struct codec_process *process, const struct codec_task *task,
                            const uint8_t *bytes, size_t length, uint64_t *left,
                            const struct codec_reply *reply, struct error *error)
{
    if (reply->at > length || reply->bytes > length - reply->at || reply->bytes > *left)
        return codec_process_distrust(process, task, error);
    *left -= reply->bytes;
    return codec_process_put(process, reply->at, bytes + reply->at, reply->bytes, error);
}

static enum status ask_for_header(struct codec_process *process, const struct codec_task *task,
                                  const uint8_t *bytes, size_t length, struct codec_call *call,
                                  struct codec_reply *reply, struct error *error)
{
    /* Libraries read a header up to three times, and ahead; some read all of the file. */
    uint64_t left = length + 4 * CODEC_KEPT_BYTES_MAX;
    enum status status = codec_process_put(process, 0, bytes, (size_t)call->ready_bytes, error);
    while (status == STATUS_OK) {
        status = codec_process_ask(process, task, call, reply, error);
        if (status != STATUS_OK || reply->kind == CODEC_DONE)
            break;
        status = put_part(process, task, bytes, length, &left, reply, error);
        call->kind = CODEC_GO_ON;
    }
    return status;
}

static enum status fail_metadata(const struct image_info *info, struct error *error)
{
    return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the metadata of %s",
                     info->format->noun);
}

static enum status keep_metadata(const uint8_t *bytes, const struct codec_reply *reply,
                                 const struct codec_limits *limits, struct image_info *info,
                                 struct error *error)
{
    const uint8_t *exif = bytes + reply->icc_bytes, *xmp = exif + reply->exif_bytes;
    const uint8_t *iptc = xmp + reply->xmp_bytes;
    if ((reply->icc_bytes > 0 && !codec_keep_icc(bytes, reply->icc_bytes, info)) ||
        (reply->exif_bytes > 0 && !codec_keep_exif(limits, exif, reply->exif_bytes, info)) ||
        (reply->xmp_bytes > 0 && !codec_keep_xmp(limits, xmp, reply->xmp_bytes, info)) ||
        (reply->iptc_bytes > 0 && !codec_keep_iptc(limits, iptc, reply->iptc_bytes, info)))
        return fail_metadata(info, error);
    codec_fit_icc(info, reply->is_gray);
    return STATUS_OK;
}

static uint64_t metadata_bytes(const struct codec_reply *reply)
{
    return reply->icc_bytes + reply->exif_bytes + reply->xmp_bytes + reply->iptc_bytes;
}

static enum status read_metadata(struct codec_process *process, const struct codec_call *call,
                                 const struct codec_reply *reply, const struct codec_limits *limits,
                                 struct image_info *info, struct error *error)
{
    size_t bytes = metadata_bytes(reply);
    uint8_t *metadata = bytes > 0 ? malloc(bytes) : NULL;
    if (bytes == 0)
        return STATUS_OK;
    if (!metadata)
        return fail_metadata(info, error);
    if (codec_process_get(process, call->results_at, metadata, bytes, error) == STATUS_OK)
        keep_metadata(metadata, reply, limits, info, error);
    free(metadata);
    return error->status;
}

/* Whether the values are possible. If not, hostile code runs in the codec process. */
static bool is_header(const struct codec_reply *reply)
{
    return (reply->channels == 1 || reply->channels == 3 || reply->channels == 4) &&
           (!reply->is_cmyk || reply->channels == 3) && reply->orientation >= 1 &&
           reply->orientation <= ORIENTATION_MAX && reply->icc_bytes <= CODEC_METADATA_BYTES_MAX &&
           reply->exif_bytes <= CODEC_METADATA_BYTES_MAX &&
           reply->xmp_bytes <= CODEC_METADATA_BYTES_MAX &&
           reply->iptc_bytes <= CODEC_METADATA_BYTES_MAX &&
           metadata_bytes(reply) <= CODEC_METADATA_BYTES_MAX;
}

static size_t decode_region(size_t length)
{
    return CODEC_WINDOW_BYTES + round_up(length);
}

static enum status take_header(const struct codec_reply *reply, size_t length,
                               const struct codec_limits *limits, struct image_info *info,
                               struct error *error)
{
    const char *title = format_title(info->format);
    if (codec_check_size(title, reply->width, reply->height, limits, error) != STATUS_OK)
        return error->status;
    if (reply->width == 0 || reply->height == 0)
        return error_set(error, STATUS_DECODE_FAILED, "the %s is %u x %u pixels", title,
                         reply->width, reply->height);
    info->width = reply->width;
    info->height = reply->height;
    info->channels = reply->channels;
    info->frames = reply->frames;
    info->may_have_alpha = reply->may_have_alpha != 0;
    info->ends_early = reply->ends_early != 0;
    info->cmyk = reply->is_cmyk != 0;
    info->deep = reply->is_deep != 0;
    if (reply->per_metre_x > 0 && reply->per_metre_y > 0)
        info->density =
            (struct image_density){reply->per_metre_x, reply->per_metre_y, DENSITY_METRE};
    info->orientation = (int)reply->orientation;
    info->codec_bytes = decode_region(length) + (size_t)reply->decode_bytes;
    return STATUS_OK;
}

static enum status probe(struct codec_process *process, const struct codec_task *task,
                         const uint8_t *bytes, size_t length, const struct codec_limits *limits,
                         struct image_info *info, struct error *error)
{
    struct codec_reply reply;
    /* EXIF is always read: it may have the density. A copyright notice may be in EXIF or in XMP. */
    bool wants_xmp = limits->metadata & (METADATA_XMP | METADATA_COPYRIGHT);
    struct codec_call call = {.kind = CODEC_PROBE,
                              .format = number_of(task),
                              .page = limits->page,
                              .metadata = METADATA_EXIF | (wants_xmp ? METADATA_XMP : 0),
                              .region_bytes = task->region_bytes,
                              .file_bytes = length,
                              .ready_bytes = length < HEAD_BYTES ? length : HEAD_BYTES,
                              .results_at = round_up(length)};
    if (ask_for_header(process, task, bytes, length, &call, &reply, error) != STATUS_OK)
        return error->status;
    if (reply.frames > 0 && reply.frames <= call.page) {
        info->frames = reply.frames;
        return STATUS_OK;
    }
    if (reply.frames == 0 || !is_header(&reply))
        return codec_process_distrust(process, task, error);
    if (take_header(&reply, length, limits, info, error) != STATUS_OK)
        return error->status;
    if (reply.decode_bytes > SIZE_MAX / 4) /* though the size is allowed */
        return codec_process_distrust(process, task, error);
    if (read_metadata(process, &call, &reply, limits, info, error) == STATUS_OK &&
        !codec_keep_orientation(limits, info))
        fail_metadata(info, error);
    return error->status;
}

enum status codec_process_probe(void *state, const uint8_t *bytes, size_t length,
                                const struct codec_limits *limits, struct image_info *info,
                                struct error *error)
{
    struct codec_task task = {.kind = CODEC_PROBE,
                              .format = info->format,
                              .region_bytes = round_up(length) + CODEC_METADATA_BYTES_MAX,
                              .draws_text = is_text(info),
                              .work_bytes = is_text(info) ? TEXT_WORK_BYTES : CODEC_PROBE_BYTES,
                              .deadline_ns = limits->deadline_ns,
                              .caller = limits->caller};
    do {
        if (codec_process_begin(state, &task, error) == STATUS_OK)
            probe(state, &task, bytes, length, limits, info, error);
        codec_process_end(state);
    } while (codec_process_take_retry(state, error));
    return error->status;
}

/* ---- decode ---- */

static enum status decode(struct codec_process *process, const struct codec_task *task,
                          const uint8_t *bytes, size_t length, uint32_t page,
                          const struct image *dst, struct error *error)
{
    struct codec_reply reply;
    struct codec_call call = {.kind = CODEC_DECODE,
                              .format = number_of(task),
                              .page = page,
                              .region_bytes = task->region_bytes,
                              .file_bytes = length,
                              .ready_bytes = length,
                              .width = dst->width,
                              .height = dst->height,
                              .channels = dst->channels};
    enum status status = codec_process_put(process, CODEC_WINDOW_BYTES, bytes, length, error);
    for (uint32_t row = 0; row < dst->height && status == STATUS_OK; row += reply.rows) {
        status = codec_process_ask(process, task, &call, &reply, error);
        if (status != STATUS_OK)
            break;
        bool is_last = reply.rows == dst->height - row;
        if (!codec_is_next_rows(&reply, dst, row) || is_last != (reply.kind == CODEC_DONE))
            return codec_process_distrust(process, task, error);
        struct image rows = codec_rows_of(dst, row, reply.rows);
        status = codec_process_get_image(process, reply.at, &rows, error);
        call.kind = CODEC_GO_ON;
    }
    return status;
}

enum status codec_process_decode(void *state, const uint8_t *bytes, size_t length,
                                 const struct image_info *info,
                                 const struct decode_request *request,
                                 const struct codec_limits *limits, const struct image *dst,
                                 struct error *error)
{
    size_t region = decode_region(length);
    struct codec_task task = {.kind = CODEC_DECODE,
                              .format = info->format,
                              .draws_text = is_text(info),
                              .region_bytes = region,
                              .work_bytes = info->codec_bytes - region,
                              .deadline_ns = limits->deadline_ns,
                              .caller = limits->caller};
    (void)request; /* the channels of dst say how the file is decoded */
    do {
        if (codec_process_begin(state, &task, error) == STATUS_OK)
            decode(state, &task, bytes, length, limits->page, dst, error);
        codec_process_end(state);
    } while (codec_process_take_retry(state, error));
    return error->status;
}

/* ---- frames ---- */

/* Begins to decode the frames. */
static enum status begin_frames(struct codec_process *process, struct codec_animation *animation,
                                struct codec_call *call, struct error *error)
{
    const struct image_info *info = &animation->info;
    size_t region = decode_region(animation->length);
    animation->task = (struct codec_task){.kind = CODEC_FRAMES,
                                          .format = info->format,
                                          .region_bytes = region,
                                          .work_bytes = codec_animation_bytes(info) -
                                                        CODEC_LIBRARIES_BYTES - region,
                                          .caller = animation->limits.caller};
    if (codec_process_begin(process, &animation->task, error) != STATUS_OK)
        return error->status;
    *call = (struct codec_call){.kind = CODEC_FRAMES,
                                .format = number_of(&animation->task),
                                .region_bytes = region,
                                .file_bytes = animation->length,
                                .ready_bytes = animation->length,
                                .width = info->width,
                                .height = info->height,
                                .channels = 4};
    return codec_process_put(process, CODEC_WINDOW_BYTES, animation->bytes, animation->length,
                             error);
}

enum status codec_process_next_frame(void *state, struct codec_animation *animation,
                                     const struct image *canvas, struct error *error)
{
    struct codec_process *process = state;
    struct codec_reply reply;
    struct codec_call call = {.kind = CODEC_GO_ON};
    if (animation->next == 0 && begin_frames(process, animation, &call, error) != STATUS_OK)
        return error->status;
    animation->task.deadline_ns = animation->limits.deadline_ns;
    for (uint32_t row = 0; row < canvas->height; row += reply.rows) {
        if (codec_process_ask(process, &animation->task, &call, &reply, error) != STATUS_OK)
            return error->status;
        if (reply.kind != CODEC_ROWS || !codec_is_next_rows(&reply, canvas, row))
            return codec_process_distrust(process, &animation->task, error);
        struct image rows = codec_rows_of(canvas, row, reply.rows);
        if (codec_process_get_image(process, reply.at, &rows, error) != STATUS_OK)
            return error->status;
        call.kind = CODEC_GO_ON;
    }
    animation->delay_ms = reply.delay_ms;
    animation->plays = reply.plays;
    return STATUS_OK;
}
