/*
 * job_stages.h - the stages of a job, in order, and the names under which the daemon reports them.
 *
 * daemon/pipeline/spine.h says how a job passes through them. They are declared in this folder,
 * because metrics count the jobs of each stage, and the pipeline includes metrics, not vice versa.
 */
#pragma once

enum stage {
    STAGE_ASK, /* asks Redis if the job may start; skipped by most jobs */
    STAGE_READ,
    STAGE_ADMIT,
    STAGE_DECODE,
    STAGE_GPU,
    STAGE_ENCODE,
    STAGE_UPLOAD, /* outputs to URLs; skipped by jobs without them */
    STAGE_SET, /* only jobs with many images, while these run; and an image until it is in its tar
                  or array */
    STAGE_ACK,
    STAGE_COUNT
};

static inline const char *stage_name(enum stage stage)
{
    static const char *const names[STAGE_COUNT] = {
        [STAGE_ASK] = "ask",       [STAGE_READ] = "read", [STAGE_ADMIT] = "admit",
        [STAGE_DECODE] = "decode", [STAGE_GPU] = "gpu",   [STAGE_ENCODE] = "encode",
        [STAGE_UPLOAD] = "upload", [STAGE_SET] = "set",   [STAGE_ACK] = "ack",
    };
    return names[stage];
}
