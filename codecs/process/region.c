/* region.c - copies files and pixels to and from the region, the memory that the daemon shares with
 * a codec process (process.h). */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "codecs/process/process.h"

/* Rows in one system call; the kernel's limit is 1,024. */
#define ROWS_MAX 256

static enum status fail_put(struct error *error)
{
    return error_set(error, STATUS_OUT_OF_MEMORY, "no shared memory for the codec process: %s",
                     strerror(errno));
}

static enum status fail_get(struct error *error)
{
    return error_set(error, STATUS_INTERNAL, "the shared memory of the codec process cannot be "
                     "read: %s", strerror(errno));
}

enum status codec_process_put(struct codec_process *process, uint64_t at, const void *bytes,
                              size_t count, struct error *error)
{
    const uint8_t *from = bytes;
    while (count > 0) {
        ssize_t done = pwrite(process->region, from, count, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return fail_put(error);
        from += done;
        at += (uint64_t)done;
        count -= (size_t)done;
    }
    return STATUS_OK;
}

enum status codec_process_get(struct codec_process *process, uint64_t at, void *bytes,
                              size_t count, struct error *error)
{
    uint8_t *to = bytes;
    while (count > 0) {
        ssize_t done = pread(process->region, to, count, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return fail_get(error);
        to += done;
        at += (uint64_t)done;
        count -= (size_t)done;
    }
    return STATUS_OK;
}

/* The rows of an image from `row` on, at most ROWS_MAX. Returns their number. */
static int take_rows(const struct image *image, uint32_t row, struct iovec parts[ROWS_MAX])
{
    int count = 0;
    for (; count < ROWS_MAX && row < image->height; row++)
        parts[count++] = (struct iovec){image->pixels + row * image->stride,
                                        (size_t)image->width * image->channels};
    return count;
}

/* Copies an image with preadv or pwritev. If a call copies less than all, the next one begins with
 * the first row that was not copied completely. */
static enum status copy_image(struct codec_process *process, uint64_t at,
                              const struct image *image,
                              ssize_t (*copy)(int, const struct iovec *, int, off_t),
                              enum status (*fail)(struct error *), struct error *error)
{
    struct iovec parts[ROWS_MAX];
    size_t row_bytes = (size_t)image->width * image->channels;
    for (uint32_t row = 0; row < image->height;) {
        int count = take_rows(image, row, parts);
        ssize_t done = copy(process->region, parts, count, (off_t)(at + row * row_bytes));
        if (done < 0 && errno == EINTR)
            continue;
        if (done < (ssize_t)row_bytes)
            return fail(error);
        row += (uint32_t)((size_t)done / row_bytes);
    }
    return STATUS_OK;
}

enum status codec_process_put_image(struct codec_process *process, uint64_t at,
                                    const struct image *image, struct error *error)
{
    return copy_image(process, at, image, pwritev, fail_put, error);
}

enum status codec_process_get_image(struct codec_process *process, uint64_t at,
                                    const struct image *image, struct error *error)
{
    return copy_image(process, at, image, preadv, fail_get, error);
}
