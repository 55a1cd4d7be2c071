#include "daemon/telemetry/trace_job.h"

#include <assert.h>

#include "conf/limits.h"

static_assert(WORKERS_CEILING * 2 < 0x8000, "each worker and its replacement has a track");
static_assert(DEVICES_MAX <= 0x80 && STREAMS_CEILING + LONG_STREAMS <= 0x100,
              "each stream has a track");

const char *const trace_names[TRACE_WHATS] = {
    [TRACE_READ] = "read",
    [TRACE_DECODE] = "decode",
    [TRACE_H2D] = "H2D",
    [TRACE_DEVICE_DECODE] = "device_decode",
    [TRACE_KERNEL] = "kernel",
    [TRACE_DEVICE_ENCODE] = "device_encode",
    [TRACE_D2H] = "D2H",
    [TRACE_ENCODE] = "encode",
    [TRACE_WAIT] = "wait",
    [TRACE_ADMIT] = "admit",
    [TRACE_ACK] = "ack",
};

const char *trace_job_name(const struct trace_job *job, char text[JOB_NAME_BYTES])
{
    return job_name_text(text, (struct job_name){job->number, job->shard, job->shards});
}

void trace_job_add(struct trace_job *job, enum trace_what what, uint16_t track,
                   uint64_t begin_ns, uint64_t end_ns)
{
    if (job->count == TRACE_SLICES_MAX) {
        job->left_out++;
        return;
    }
    job->slices[job->count++] = (struct trace_slice){
        begin_ns, end_ns > begin_ns ? end_ns : begin_ns, track, (uint8_t)what};
}
