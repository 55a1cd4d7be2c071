#include "tests/bench/floor.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jpeglib.h>
#include <png.h>

#include "conf/limits.h"
#include "gpu/plan/op_list.h"
#include "tests/fixtures/measure.h"
#include "tests/fixtures/process.h"

#define QUALITY 85

/* ---- buffers of one thread ------------------------------------------------------------------- */

struct buffer {
    uint8_t *bytes;
    size_t capacity;
};

static uint8_t *buffer_need(struct buffer *buffer, size_t bytes)
{
    if (buffer->capacity < bytes) {
        free(buffer->bytes);
        buffer->capacity = (bytes + 4095) / 4096 * 4096;
        buffer->bytes = aligned_alloc(4096, buffer->capacity);
        if (!buffer->bytes)
            abort();
    }
    return buffer->bytes;
}

struct floor_thread {
    pthread_t id;
    struct floor *floor;
    struct buffer file, input, output, scratch, encoded;
    struct jpeg_decompress_struct decoder;
    struct jpeg_compress_struct encoder;
    struct jpeg_error_mgr errors;
    size_t file_bytes;
};

/* ---- the floor's steps ----------------------------------------------------------------------- */

static bool read_file(struct floor_thread *thread, const struct floor_photo *photo)
{
    char path[1024];
    if (photo->bytes) {
        memcpy(buffer_need(&thread->file, photo->length), photo->bytes, photo->length);
        thread->file_bytes = photo->length;
        return true;
    }
    snprintf(path, sizeof path, "%s/%s", thread->floor->folder, photo->name);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    setvbuf(file, NULL, _IONBF, 0);
    fseek(file, 0, SEEK_END);
    thread->file_bytes = (size_t)ftell(file);
    rewind(file);
    uint8_t *to = buffer_need(&thread->file, thread->file_bytes);
    bool ok = fread(to, 1, thread->file_bytes, file) == thread->file_bytes;
    fclose(file);
    return ok;
}

static void jpeg_head(struct floor_thread *thread)
{
    jpeg_mem_src(&thread->decoder, thread->file.bytes, thread->file_bytes);
    jpeg_read_header(&thread->decoder, TRUE);
}

static void jpeg_pixels(struct floor_thread *thread, const struct floor_photo *photo,
                        const struct image *to)
{
    jpeg_head(thread);
    thread->decoder.out_color_space = to->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    thread->decoder.scale_num = photo->plan.source.eighths;
    thread->decoder.scale_denom = DECODE_EIGHTHS;
    jpeg_start_decompress(&thread->decoder);
    while (thread->decoder.output_scanline < thread->decoder.output_height) {
        JSAMPROW rows[8];
        unsigned at = thread->decoder.output_scanline;
        for (unsigned i = 0; i < 8; i++)
            rows[i] = to->pixels + (at + i < to->height ? at + i : to->height - 1) * to->stride;
        jpeg_read_scanlines(&thread->decoder, rows, 8);
    }
    jpeg_finish_decompress(&thread->decoder);
}

struct span {
    const uint8_t *bytes;
    size_t left;
};

static void png_take(png_structp png, png_bytep to, size_t count)
{
    struct span *span = png_get_io_ptr(png);
    if (count > span->left)
        png_error(png, "truncated");
    memcpy(to, span->bytes, count);
    span->bytes += count;
    span->left -= count;
}

static void png_quiet(png_structp png, png_const_charp message)
{
}

/* If `to` is NULL, reads only the header, into photo. */
static bool png_pixels(struct floor_thread *thread, struct floor_photo *photo,
                       const struct image *to)
{
    struct span span = {thread->file.bytes, thread->file_bytes};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, png_quiet);
    png_infop info = png_create_info_struct(png);
    if (setjmp(png_jmpbuf(png))) {
        png_destroy_read_struct(&png, &info, NULL);
        return false;
    }
    png_set_read_fn(png, &span, png_take);
    png_read_info(png, info);
    png_set_expand(png);
    png_set_scale_16(png);
    if (png_get_valid(png, info, PNG_INFO_tRNS) ||
        png_get_color_type(png, info) == PNG_COLOR_TYPE_GRAY_ALPHA)
        png_set_gray_to_rgb(png);
    int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    if (to) {
        for (int pass = 0; pass < passes; pass++)
            for (uint32_t y = 0; y < to->height; y++)
                png_read_row(png, to->pixels + y * to->stride, NULL);
        png_read_end(png, NULL);
    } else {
        photo->width = png_get_image_width(png, info);
        photo->height = png_get_image_height(png, info);
        photo->channels = png_get_channels(png, info);
    }
    png_destroy_read_struct(&png, &info, NULL);
    return true;
}

static size_t encode(struct floor_thread *thread, const struct image *from)
{
    struct jpeg_compress_struct *jpeg = &thread->encoder;
    unsigned long size = thread->encoded.capacity;
    unsigned char *bytes = thread->encoded.bytes;
    jpeg_mem_dest(jpeg, &bytes, &size);
    jpeg->image_width = from->width;
    jpeg->image_height = from->height;
    jpeg->input_components = (int)from->channels;
    jpeg->in_color_space = from->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(jpeg);
    jpeg_set_quality(jpeg, QUALITY, TRUE);
    jpeg_start_compress(jpeg, TRUE);
    while (jpeg->next_scanline < jpeg->image_height) {
        JSAMPROW row = from->pixels + jpeg->next_scanline * from->stride;
        jpeg_write_scanlines(jpeg, &row, 1);
    }
    jpeg_finish_compress(jpeg);
    if (bytes != thread->encoded.bytes) { /* libjpeg outgrew the buffer: make it larger */
        free(bytes);
        buffer_need(&thread->encoded, size * 2);
    }
    return size;
}

/* Writes a temporary file and renames it: the least that any program needs for an atomic output. */
static bool write_file(struct floor_thread *thread, unsigned number, size_t bytes)
{
    char temporary[64], name[32];
    int folder = thread->floor->output_folder;
    snprintf(temporary, sizeof temporary, "floor%u.tmp", number);
    snprintf(name, sizeof name, "floor%u.jpg", number);
    int fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    bool ok = fd >= 0 && write(fd, thread->encoded.bytes, bytes) == (ssize_t)bytes;
    return fd >= 0 && close(fd) == 0 && ok && renameat(folder, temporary, folder, name) == 0;
}

/* Runs one job. */
static bool run_job(struct floor_thread *thread, struct floor_photo *photo, unsigned number)
{
    struct engine_memory memory = {
        .input = buffer_need(&thread->input, photo->plan.input_bytes),
        .output = buffer_need(&thread->output, photo->plan.output_bytes + 1),
        .scratch = buffer_need(&thread->scratch, photo->plan.scratch_bytes + 1)};
    struct image input = plan_input(&photo->plan, memory.input);
    buffer_need(&thread->encoded, 1 << 22);
    if (!read_file(thread, photo))
        return false;
    if (!photo->png)
        jpeg_pixels(thread, photo, &input);
    else if (!png_pixels(thread, photo, &input))
        return false;
    plan_put_constants(&photo->plan, memory.input);
    struct engine_task task = {.plan = &photo->plan, .memory = &memory};
    engine_run(thread->floor->engine, &task);
    if (task.error.status != STATUS_OK)
        return false;
    struct image result = plan_result(&photo->plan, 0, memory.input, memory.output);
    photo->output_bytes = encode(thread, &result);
    return thread->floor->output_folder < 0 || write_file(thread, number, photo->output_bytes);
}

static void *thread_main(void *argument)
{
    struct floor_thread *thread = argument;
    struct floor *floor = thread->floor;
    unsigned at;
    while ((at = atomic_fetch_add(&floor->next, 1)) < floor->total)
        if (!run_job(thread, &floor->photos[at % floor->count], at))
            atomic_fetch_add(&floor->failed, 1);
    return NULL;
}

struct floor_turn floor_run(struct floor *floor, unsigned total)
{
    struct floor_turn turn = {process_now(), clock_s(CLOCK_PROCESS_CPUTIME_ID)};
    atomic_store(&floor->next, 0);
    floor->total = total;
    for (unsigned i = 0; i < floor->threads; i++)
        if (pthread_create(&floor->pool[i].id, NULL, thread_main, &floor->pool[i]))
            abort();
    for (unsigned i = 0; i < floor->threads; i++)
        pthread_join(floor->pool[i].id, NULL);
    return (struct floor_turn){process_now() - turn.wall_s,
                               clock_s(CLOCK_PROCESS_CPUTIME_ID) - turn.cpu_s};
}

/* ---- headers and plans ----------------------------------------------------------------------- */

static bool read_head(struct floor_thread *thread, struct floor_photo *photo, bool *ycc)
{
    if (!read_file(thread, photo))
        return false;
    if (photo->png)
        return png_pixels(thread, photo, NULL);
    jpeg_head(thread);
    photo->width = thread->decoder.image_width;
    photo->height = thread->decoder.image_height;
    photo->channels = thread->decoder.num_components == 1 ? 1 : 3;
    *ycc = thread->decoder.jpeg_color_space == JCS_YCbCr;
    bool usable = thread->decoder.num_components <= 3;
    jpeg_abort_decompress(&thread->decoder);
    return usable;
}

bool floor_take(struct floor *floor, struct floor_photo *photo, const cJSON *operations,
                struct error *error)
{
    struct op_item *ops;
    struct plan_target target = {.opaque = true};
    struct plan_limits limits = {100000000, 65500};
    bool ycc = false;
    if (!read_head(&floor->pool[0], photo, &ycc)) {
        error_set(error, STATUS_UNSUPPORTED_FORMAT, "cannot be read");
        return false;
    }
    enum status status = op_list_parse(&ops, operations, -1, error);
    target.ops = ops;
    /* The daemon chooses in the same way (daemon/pipeline/planning.c). */
    struct plan_source source = {.width = photo->width, .height = photo->height, .orientation = 1,
                                 .background = {255, 255, 255}};
    if (ycc && plan_decode_as(&target, 1) == DECODE_LUMA)
        photo->channels = 1;
    source.channels = photo->channels;
    source.eighths = photo->png ? DECODE_EIGHTHS : plan_eighths(&source, ops);
    if (!status)
        status = plan_build(&photo->plan, &source, &target, 1, &limits, error);
    op_list_free(ops);
    return status == STATUS_OK;
}

void floor_open(struct floor *floor, const char *folder, unsigned threads)
{
    struct engine_config config = {.kind = "cpu", .devices = "all", .streams = 1,
                                   .pinned_bytes = 64 * MIB};
    struct error error = {0};
    floor->folder = folder;
    floor->output_folder = -1;
    floor->threads = threads;
    floor->pool = calloc(threads, sizeof *floor->pool);
    if (!floor->pool || engine_open(&config, &floor->engine, &error) != STATUS_OK)
        abort();
    for (unsigned i = 0; i < threads; i++) {
        struct floor_thread *thread = &floor->pool[i];
        thread->floor = floor;
        thread->decoder.err = thread->encoder.err = jpeg_std_error(&thread->errors);
        jpeg_create_decompress(&thread->decoder);
        jpeg_create_compress(&thread->encoder);
    }
}

void floor_close(struct floor *floor)
{
    for (unsigned i = 0; i < floor->threads; i++) {
        struct floor_thread *thread = &floor->pool[i];
        jpeg_destroy_decompress(&thread->decoder);
        jpeg_destroy_compress(&thread->encoder);
        free(thread->file.bytes);
        free(thread->input.bytes);
        free(thread->output.bytes);
        free(thread->scratch.bytes);
        free(thread->encoded.bytes);
    }
    for (size_t i = 0; i < floor->count; i++) {
        plan_clear(&floor->photos[i].plan);
        free(floor->photos[i].name);
    }
    free(floor->pool);
    engine_close(floor->engine);
}
