#include "daemon/sets/set_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/clock.h"
#include "conf/options.h"
#include "daemon/overlays/overlays.h"
#include "daemon/pipeline/admission.h"
#include "queue/job/member_name.h"

/* The names of a folder, with the folder's own before each. */
#define NAMES_BYTES_MAX (4 * MIB)

bool set_source_wants(const struct job *job, const char *name)
{
    const struct format *format = format_to_read(name);
    if (job->pattern_count > 0)
        return member_matches(name, job->patterns, job->pattern_count);
    return format && !codec_lacks(format);
}

static bool is_wanted(const void *context, const char *name)
{
    return set_source_wants(context, name);
}

enum status set_source_spool(struct set_source *source, const uint8_t *bytes, size_t length,
                             struct files_spool *spool, struct error *error)
{
    if (files_spool_open(source->files, spool, error) != STATUS_OK ||
        files_spool_write(spool, bytes, length, error) != STATUS_OK)
        return error->status;
    source->fd = spool->fd;
    source->archive_bytes = length;
    return STATUS_OK;
}

static void note_skip(void *context, const char *name)
{
    struct set_source *source = context;
    source->skipped += source->copies || is_wanted(source->job, name);
}

struct archive_limits set_source_limits(uint64_t bytes_max)
{
    return (struct archive_limits){.members_max = SET_MEMBERS_MAX,
                                   .zip_members_max = SET_ZIP_MEMBERS_MAX,
                                   .zip_bytes_max = SET_ZIP_BYTES_MAX,
                                   .bytes_max = bytes_max,
                                   .name_bytes_max = SET_NAME_BYTES_MAX};
}

/* Opens the file of an archive or an animation, unless it is in a spool file. */
static enum status open_file(struct set_source *source, uint64_t bytes_max, struct error *error)
{
    struct files_input input;
    if (source->fd >= 0)
        return STATUS_OK;
    if (files_open_input(source->files, NULL, source->job->input.path, bytes_max, &input, error) !=
        STATUS_OK)
        return error->status;
    source->fd = input.fd;
    source->archive_bytes = input.size;
    source->identity = input.identity;
    return STATUS_OK;
}

static enum status open_archive(struct set_source *source, struct error *error)
{
    const struct archive_limits limits = set_source_limits(source->bytes_max);
    if (open_file(source, UINT64_MAX, error) != STATUS_OK)
        return error->status;
    source->reader = archive_reader_open(source->fd, &limits, error);
    if (source->reader)
        archive_reader_on_skip(source->reader, note_skip, source);
    return error->status;
}

static enum status list_folder(struct set_source *source, struct error *error)
{
    enum status status = files_list(source->files, source->job->input.path, is_wanted, source->job,
                                    JOB_FOLDER_FILES_MAX, NAMES_BYTES_MAX, &source->names, error);
    source->skipped = source->names.skipped;
    return status;
}

/* An AVIF sequence has a track for alpha, with a sample for each frame. */
bool set_source_keeps_alpha(const struct job *job)
{
    for (size_t i = 0; i < job->output_count; i++) {
        const struct job_output *output = &job->outputs[i];
        if (output->pack != JOB_MOVIE)
            continue;
        const struct format *format =
            output->format ? format_by_name(output->format) : format_of_path(output->place.path);
        if (format == &formats[FORMAT_avif])
            return true;
    }
    return false;
}

enum status set_source_open(struct set_source *source, struct error *error)
{
    switch (source->job->source) {
    case JOB_FOLDER:
        return list_folder(source, error);
    case JOB_ARCHIVE:
        return open_archive(source, error);
    case JOB_ANIMATION:
        source->frames.pool = source->pool;
        source->frames.keeps_alpha = set_source_keeps_alpha(source->job);
        return open_file(source, source->bytes_max, error);
    default:
        return STATUS_OK;
    }
}

/* ---- lists and folders ---------------------------------------------------------------------- */

static enum source_step next_place(struct set_source *source, struct source_image *image)
{
    if (source->next == source->job->input_count)
        return SOURCE_END;
    image->place = &source->job->inputs[source->next++];
    return SOURCE_IMAGE;
}

static enum source_step next_name(struct set_source *source, struct source_image *image,
                                  struct error *error)
{
    if (source->next == source->names.count)
        return SOURCE_END;
    const char *folder = source->job->input.path;
    const char *name = source->names.text + source->names.offsets[source->next++];
    size_t bytes = strlen(folder) + strlen(name) + 2;
    image->name = malloc(bytes);
    if (!image->name) {
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the name of a file");
        return SOURCE_FAILED;
    }
    member_of_folder(image->name, bytes, folder, name);
    return SOURCE_IMAGE;
}

/* ---- archives ------------------------------------------------------------------------------- */

/* Goes to the next member that the caller wants. */
static enum archive_step find_member(struct set_source *source, struct error *error)
{
    enum archive_step step = ARCHIVE_MEMBER;
    while (!source->has_member && step == ARCHIVE_MEMBER) {
        step = archive_reader_next(source->reader, &source->member, error);
        source->has_member = step == ARCHIVE_MEMBER &&
                             (source->copies || is_wanted(source->job, source->member.name));
    }
    return step;
}

/* false: there is no room now, or the error is set. Members that are read ahead leave half of the
 * pool to images that are in flight: these may need it for overlays. */
static bool take_room(struct set_source *source, struct source_image *image, struct error *error)
{
    bool exhausted = false;
    size_t bytes = source->member.bytes + 1; /* decoders may read one byte more */
    struct pool_usage usage = pool_usage(source->pool);
    if (!source->is_idle && usage.used + bytes > usage.budget / 2)
        return false;
    if (overlays_take(source->overlays, bytes, 0, &image->block, &exhausted)) {
        source->taken_bytes += bytes;
        return true;
    }
    if (exhausted)
        error_set(error, STATUS_OVER_BUDGET,
                  "the member \"%.100s\" of the archive has %" PRIu64
                  " bytes; half of host_bytes cannot hold it",
                  source->member.name, source->member.bytes);
    return false;
}

/* A member that is too large fails alone if it is an image; else the copy would lack it. */
static bool check_size(struct set_source *source, bool copy, struct source_image *image,
                       struct error *error)
{
    if (source->member.bytes <= source->bytes_max)
        return true;
    error_set(copy ? error : &image->error, STATUS_INPUT_TOO_LARGE,
              "the member \"%.100s\" of the archive has %" PRIu64 " bytes; the limit is %" PRIu64
              " (input_bytes_max)",
              source->member.name, source->member.bytes, source->bytes_max);
    return false;
}

/* SOURCE_IMAGE: the bytes are in image->block, or image->error says why not: in a zip, a broken
 * member fails alone, too. */
static enum source_step read_member(struct set_source *source, bool copy,
                                    struct source_image *image, struct error *error)
{
    if (!take_room(source, image, error))
        return error->status == STATUS_OK ? SOURCE_WAITS : SOURCE_FAILED;
    if (archive_reader_read(source->reader, image->block.memory, error) == STATUS_OK)
        return SOURCE_IMAGE;
    if (copy || !archive_reader_goes_on(source->reader))
        return SOURCE_FAILED;
    pool_give(source->pool, &image->block);
    image->error = *error;
    *error = (struct error){0};
    return SOURCE_IMAGE;
}

static enum source_step next_member(struct set_source *source, struct source_image *image,
                                    struct error *error)
{
    enum archive_step step = find_member(source, error);
    if (step != ARCHIVE_MEMBER)
        return step == ARCHIVE_END ? SOURCE_END : SOURCE_FAILED;
    bool copy = !is_wanted(source->job, source->member.name);
    image->is_in_file = !copy && source->member.offset != ARCHIVE_NO_OFFSET;
    image->offset = source->member.offset;
    if (check_size(source, copy, image, error) && !image->is_in_file) {
        enum source_step read = read_member(source, copy, image, error);
        if (read != SOURCE_IMAGE)
            return read;
    }
    image->name = strdup(source->member.name);
    image->bytes = source->member.bytes;
    image->modified_s = source->member.modified_s;
    source->has_member = false;
    if (!image->name)
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the name of a member");
    if (error->status != STATUS_OK)
        return SOURCE_FAILED;
    return copy ? SOURCE_COPY : SOURCE_IMAGE;
}

/* ---- animations ----------------------------------------------------------------------------- */

/* Takes a block. Frames that are composed ahead leave half of the pool to others, as members. */
static bool take_block(struct set_source *source, size_t bytes, struct pool_block *block,
                       struct error *error)
{
    bool exhausted = false;
    struct pool_usage usage = pool_usage(source->pool);
    if (!source->is_idle && usage.used + bytes > usage.budget / 2)
        return false;
    if (overlays_take(source->overlays, bytes, 0, block, &exhausted))
        return true;
    if (exhausted)
        error_set(error, STATUS_OVER_BUDGET,
                  "the animation needs a block of %zu bytes; half of host_bytes cannot hold it",
                  bytes);
    return false;
}

static bool fail_codec(size_t bytes, struct error *error)
{
    return error_fail(error, STATUS_OVER_BUDGET,
                      "decoding the animation needs %zu bytes; the limit is three sixteenths of "
                      "host_bytes: set it to %" PRIu64 "M or more",
                      bytes, options_host_mib(bytes, 3, 16));
}

/* Each of the animations that may run at once has its part of half of the pool. */
static bool fits_pool(size_t bytes, size_t pool_bytes, uint32_t sharers, struct error *error)
{
    size_t most = pool_bytes / HOST_FILES_PART / sharers;
    return bytes <= most ||
           error_fail(error, STATUS_OVER_BUDGET,
                      "the animation needs %zu bytes for its file and canvas; the limit is %zu, a "
                      "quarter of host_bytes divided by %" PRIu32 " workers: set host_bytes to "
                      "%" PRIu64 "M or more, or run fewer workers",
                      bytes, most, sharers, options_host_mib(bytes * sharers, 1, 4));
}

bool set_source_may_compose(const struct image_info *info, size_t file_bytes, uint64_t host_bytes,
                            uint32_t sharers, struct error *error)
{
    size_t codec = codec_animation_bytes(info);
    return fits_pool(frame_source_canvas_bytes(info, file_bytes), host_bytes / HOST_FILES_PART,
                     sharers, error) &&
           (codec <= admission_lane_bytes(host_bytes) / 2 || fail_codec(codec, error));
}

/* Reserves the memory of the codec, unless it has it. */
static bool take_loan(struct set_source *source, size_t bytes, struct error *error)
{
    bool exhausted = false;
    if (source->lent > 0 || bytes == 0)
        return true;
    if (source->lend(source->admission, bytes, &exhausted)) {
        source->lent = bytes;
        return true;
    }
    if (exhausted)
        fail_codec(bytes, error);
    return false;
}

static void close_frames(struct set_source *source)
{
    frame_source_close(&source->frames);
    if (source->lent > 0)
        source->end_loan(source->admission, source->lent);
    source->lent = 0;
}

/* The file and the canvas stay in memory for the whole job. All jobs that may be active together
 * leave half of the pool to their frames, so that these never wait for each other. */
static bool take_canvas(void *context, size_t bytes, size_t heap_bytes, struct pool_block *block,
                        struct error *error)
{
    struct set_source *source = context;
    return fits_pool(bytes, pool_usage(source->pool).budget, source->sharers, error) &&
           take_loan(source, heap_bytes, error) && take_block(source, bytes, block, error);
}

/* Of the next frame, or of the header. */
static uint64_t decode_deadline_ns(const struct set_source *source)
{
    uint64_t own_ns = clock_after_s(clock_now_ns(), source->decode_timeout_s);
    return own_ns < source->deadline_ns ? own_ns : source->deadline_ns;
}

static bool open_frames(struct set_source *source, struct error *error)
{
    struct frame_source *frames = &source->frames;
    struct codec_limits limits = source->limits;
    limits.deadline_ns = decode_deadline_ns(source);
    if (!frame_source_open(frames, source->fd, source->archive_bytes, &limits, take_canvas, source,
                           error))
        return false;
    source->animation = (struct image_info){.format = frames->animation.info.format,
                                            .width = frames->animation.info.width,
                                            .height = frames->animation.info.height,
                                            .frames = frames->animation.info.frames,
                                            .frames_apart = frames->animation.info.frames_apart};
    return true;
}

/* "a/b.gif" gives "a/b-000017.png". The file itself keeps its name. */
static char *name_frame(const struct set_source *source)
{
    char text[JOB_URL_BYTES_MAX + 1], url[JOB_URL_BYTES_MAX + 1];
    const struct job_place *place = &source->job->input;
    const char *name = place->path ? place->path : member_of_place(place, source->ns, url);
    if (!codec_is_animation(&source->frames.animation.info))
        return strdup(name);
    snprintf(text, sizeof text, "%.*s-%06" PRIu64 ".png", (int)member_stem(name), name,
             source->next);
    return strdup(text);
}

static enum source_step give_frame(struct set_source *source, struct source_image *image,
                                   struct error *error)
{
    struct frame_source *frames = &source->frames;
    size_t bytes = frame_source_bytes(frames);
    if (!take_block(source, bytes + 1, &image->block, error))
        return error->status == STATUS_OK ? SOURCE_WAITS : SOURCE_FAILED;
    source->taken_bytes += bytes;
    image->name = name_frame(source);
    image->bytes = frame_source_give(frames, image->block.memory, error);
    image->delay_ms = frames->animation.delay_ms;
    source->plays = frames->animation.plays;
    if (!image->name)
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the name of a frame");
    source->next++;
    return error->status == STATUS_OK ? SOURCE_IMAGE : SOURCE_FAILED;
}

static enum source_step next_frame(struct set_source *source, struct source_image *image,
                                   struct error *error)
{
    if (source->next > 0 && source->next == source->animation.frames) {
        close_frames(source);
        return SOURCE_END;
    }
    if (!source->frames.is_open && !open_frames(source, error))
        return error->status == STATUS_OK ? SOURCE_WAITS : SOURCE_FAILED;
    if (frame_source_compose(&source->frames, decode_deadline_ns(source), error) != STATUS_OK)
        return SOURCE_FAILED;
    return give_frame(source, image, error);
}

enum source_step set_source_next(struct set_source *source, struct source_image *image,
                                 struct error *error)
{
    *image = (struct source_image){0};
    switch (source->job->source) {
    case JOB_LIST:
        return next_place(source, image);
    case JOB_FOLDER:
        return next_name(source, image, error);
    case JOB_ANIMATION:
        return next_frame(source, image, error);
    default:
        return next_member(source, image, error);
    }
}

const char *set_source_path(const struct set_source *source, uint64_t index,
                            char text[JOB_URL_BYTES_MAX + 1])
{
    const struct job *job = source->job;
    if (job->source == JOB_LIST)
        return index < job->input_count ? job->inputs[index].path : NULL;
    if (index >= source->names.count)
        return NULL;
    member_of_folder(text, JOB_URL_BYTES_MAX + 1, job->input.path,
                     source->names.text + source->names.offsets[index]);
    return text;
}

/* ---- questions ------------------------------------------------------------------------------ */

bool set_source_is_quick(const struct set_source *source)
{
    return source->job->source == JOB_LIST || source->job->source == JOB_FOLDER;
}

static double part(uint64_t done, uint64_t all)
{
    return all > 0 && done < all ? (double)done / (double)all : 1;
}

double set_source_fraction(const struct set_source *source)
{
    switch (source->job->source) {
    case JOB_LIST:
        return part(source->next, source->job->input_count);
    case JOB_FOLDER:
        return part(source->next, source->names.count);
    case JOB_ANIMATION:
        return source->animation.frames > 0 ? part(source->next, source->animation.frames) : 0;
    default:
        return source->reader ? part(archive_reader_offset(source->reader), source->archive_bytes)
                              : 0;
    }
}

const char *set_source_format(const struct set_source *source)
{
    if (source->animation.format)
        return source->animation.format->name;
    return source->reader ? archive_reader_format(source->reader) : NULL;
}

void set_source_release(struct set_source *source)
{
    if (source->fd >= 0)
        close(source->fd);
    source->fd = -1;
}

void set_source_close(struct set_source *source)
{
    close_frames(source);
    archive_reader_close(source->reader);
    source->reader = NULL;
    set_source_release(source);
    files_names_clear(&source->names);
}
