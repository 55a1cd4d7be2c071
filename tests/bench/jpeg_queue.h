/*
 * jpeg_queue.h - decodes progressive photographs from a queue, with many in flight on a device.
 *
 * One thread of the host feeds all streams. An idle stream takes the next photographs of the
 * folder in turn, so no stream waits for another one. A photograph takes two steps: its scans to
 * coefficients, which take long, and its coefficients to samples. Memory for samples is taken only
 * after the scans, for a short time.
 */
#pragma once

#include "tests/bench/jpeg_photos.h"

struct queue_load {
    int streams, batch; /* batch: photographs per launch */
    size_t budget;      /* bytes of device memory; photographs wait for room */
};

struct queue_figures {
    double gigapixels_per_s, images_per_s;
    double images_in_flight;     /* on average */
    double host_us;              /* of the host's thread per image */
    size_t bytes_max;            /* of device memory in use */
    size_t pool_bytes;           /* that CUDA's pool has held for them, at most */
    size_t compared;             /* images whose samples were compared with libjpeg's */
    size_t wrong;                /* images that differ or were declined */
};

/* Decodes for about `seconds`, after a warm-up. photos_work must have been called for the work,
 * which only decodes. Samples are compared at the start of the warm-up and after the measured time:
 * those of each photograph at least once. Verdicts are always checked. */
struct queue_figures queue_run(const struct photos *photos, const struct jpeg_work *work,
                               const struct queue_load *load, double seconds);
