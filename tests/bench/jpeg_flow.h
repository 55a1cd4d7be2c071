/*
 * jpeg_flow.h - batches of JPEG files through a device: upload, decode, sobel, encode.
 *
 * A flow is one batch with a stream on one device and all memory that it needs. Files come from
 * pinned memory and go to pinned memory. A launch only enqueues. Each function selects the device
 * of its flow for the calling thread.
 */
#pragma once

#include "tests/bench/jpeg_photos.h"

struct flow;

/* Returns the number of devices. */
int flow_devices(void);

/* Takes `count` photographs in turn from `first`. photos_work must have been called for the work,
 * and stays valid until the flow is closed. Uploads the files to the device `device`, which is less
 * than flow_devices(). */
struct flow *flow_open(const struct photos *photos, size_t first, size_t count,
                       const struct jpeg_work *work, int device);
void flow_close(struct flow *flow);

/* Enqueues these steps of the work. A step without those before it uses what they left. */
void flow_launch(struct flow *flow, unsigned steps);
void flow_wait(struct flow *flow);

/* Compares the results with libjpeg's: lengths and verdicts of all images, and the bytes of the
 * first image of each photograph. Returns how many images differ or were declined. */
size_t flow_wrong(struct flow *flow);

double flow_megapixels(const struct flow *flow); /* of the files */
double flow_megabytes_in(const struct flow *flow);
double flow_megabytes_out(const struct flow *flow);
double flow_gibibytes(const struct flow *flow);  /* of device memory */

/* Runs the flows at the same time, each from its own thread, which waits for a batch before it
 * launches the next one. The threads sleep while they wait if there are more of them than cores.
 * Returns the seconds of all rounds. */
double flow_run(struct flow **flows, int count, unsigned steps, int rounds);

/* Returns the seconds of the steps of a flow alone on the device, without a wait between two
 * launches. */
double flow_time(struct flow *flow, unsigned steps);
