/*
 * limits.h - every fixed bound of gpuimgd, with its reason.
 *
 * Bounds that a user may change are options (conf/options.def); what stands here is either the
 * default of such an option or a bound that no user needs to move. Other code takes its numbers
 * from here, so that their relations can be asserted in one place.
 */
#ifndef GPUIMGD_CONF_LIMITS_H
#define GPUIMGD_CONF_LIMITS_H

#include <assert.h>

#define KIB (1024ull)
#define MIB (1024ull * KIB)
#define GIB (1024ull * MIB)

/* Up to so many nodes a job's tree is kept while the job is in flight: more than a usual job has,
 * 10 KB with names and short strings. */
#define JOB_NODES_MAX 64
/* A job is a page of JSON: 16 outputs of 32 operations at ~100 bytes each come to 50 KiB. */
#define JOB_BYTES_MAX (64 * KIB)
/* job > outputs > output > ops > op > parameter > matrix row is 7 deep; meta is the user's. */
#define JOB_DEPTH_MAX 16
/* Texts of all jobs in flight: of the job, and of the result that repeats its meta and its paths.
 * No more jobs are fetched than have room if each is as large as can be: numbers of its operations
 * may be printed with three times as many digits as they were given with. 4,096 usual jobs fit. */
#define JOB_TEXT_BYTES_MAX (5 * JOB_BYTES_MAX)
#define JOB_TEXTS_BYTES    (32 * MIB)
#define JOB_ID_BYTES_MAX 128
#define JOB_OPS_MAX 32
#define JOB_OUTPUTS_MAX 16
/* Linux's PATH_MAX less the root that is put in front; a name's own limit is the filesystem's. */
#define JOB_PATH_BYTES_MAX 2048
#define JOB_KEY_BYTES_MAX 512
/* Of a job whose input could not be read, the result shows the beginning: two lines of a terminal
 * in its log line, and enough to search for. */
#define JOB_EXCERPT_BYTES_MAX 160

/* Job numbers come from a Redis counter; a list entry that names one is '@' and up to 16 digits,
 * which a double and a Lua number hold exactly (10^16 > 2^53 is never reached in practice). */
#define JOB_NUMBER_DIGITS_MAX 16

/* A larger image in a file than 50 MP needs than this only when it is hostile or uncompressed. */
#define INPUT_BYTES_DEFAULT (64 * MIB)
#define INPUT_BYTES_CEILING (1 * GIB)
/* 50 MP is the largest common full-frame sensor; RGB of it is 150 MB. */
#define PIXELS_DEFAULT 50000000ull
#define PIXELS_CEILING 1000000000ull
/* 16,384 a side: the largest texture side that every GPU of the last ten years takes, and twice
 * 8K video; a row of RGBA is 64 KiB, which bounds each codec's row buffers. */
#define SIDE_DEFAULT 16384
/* JPEG cannot express more (16-bit fields); PNG could, and is held to the same. */
#define SIDE_CEILING 65500

#define CHANNELS_MAX 4
#define ORIENTATION_MAX 8

/* Scripts that libjpeg writes have 10 scans; a hostile file may hold thousands, each of which
 * costs a pass over the whole picture. */
#define JPEG_SCANS_DEFAULT 100
/* An honest 64 MiB file of full segments has 1,000. libjpeg walks its list of them for each new
 * one, so that 100,000 empty ones in 400 KB take it half a minute. */
#define JPEG_SEGMENTS_MAX 4096
/* Of APP1 and APP2 segments so much is kept while the header is read, which is before the job is
 * admitted: room for EXIF and the largest profile behind 12 MiB of XMP (depth maps). */
#define JPEG_KEPT_BYTES_MAX (4 * ICC_BYTES_MAX)
/* Harmless warnings (bytes before a marker) before the file is called broken. */
#define JPEG_WARNINGS_MAX 100
/* zTXt, iCCP and friends: no honest profile or text is larger; stops decompression bombs. */
#define PNG_CHUNK_BYTES_MAX 8000000
#define PNG_CHUNKS_MAX 100
/* ICC profiles of printers reach 3 MB; RGB display profiles are a few KB. */
#define ICC_BYTES_MAX (4 * MIB)
/* An EXIF APP1 segment is at most 64 KiB; eXIf chunks are held to the same. */
#define EXIF_BYTES_MAX (64 * KIB)

/* Tables of a plan, which lie in pinned memory after the image: a resize at the default sides
 * needs up to 2 MB, and a hostile job may hold 512 of them. */
#define PLAN_CONSTANTS_BYTES_MAX (64 * MIB)

/* Rows start at a multiple of this: one GPU memory sector, and one AVX register. */
#define STRIDE_ALIGN 32
/* Buffers start at a multiple of this: cudaMalloc's own alignment, and four cache lines. */
#define BUFFER_ALIGN 256

/* Pools grow in pieces of this, or of one job's need where that is larger: big enough that a
 * piece is allocated a few times in a daemon's life, small enough that an idle daemon is small. */
#define POOL_SEGMENT_BYTES (64 * MIB)

/* A job that needs no more memory than this is carried from the file to the file by one worker:
 * some 20 ms for a megapixel, after which what it held is free again. What would be free earlier
 * is small. */
#define SMALL_JOB_BYTES (4 * MIB)

/* host_bytes has three users: input files have a half of it, memory that workers keep from one
 * progressive JPEG to the next an eighth, and the rest is for all else that a job needs on the heap
 * after it was admitted (daemon/pipeline/admission.h). */
#define HOST_FILES_PART 2
#define HOST_KEPT_PART  8

/* Before a job is admitted, it keeps no more of a plan and of a colour profile than this: six
 * passes, and a display's profile. Larger ones are measured, freed, and made again. */
#define PLAN_KEPT_BYTES (8 * KIB)
#define ICC_KEPT_BYTES  (4 * KIB)

/* Encoders write through a buffer of this size a worker: most outputs are one write(2). */
#define SINK_BYTES (1 * MIB)
/* Outputs that go to Redis are held in memory until DONE is acknowledged, all of a job's in one
 * call, during which Redis does nothing else. */
#define KEY_OUTPUTS_BYTES_MAX (64 * MIB)

/* So many bytes must fit on the disk after a write failed, if the output had as many: one that is
 * larger may be too large for a disk on which all others fit. */
#define DISK_TRY_BYTES_MAX (64 * MIB)

#define WORKERS_CEILING 1024
#define STREAMS_CEILING 64
/* On an H200, which copies both ways at once, 4 streams take up to 1.14 times the time that copies
 * or kernels alone need, 8 take 1.05 at most and 16 gain nothing. Where one engine does all copies,
 * there is a copy less to hide behind the others. */
#define STREAMS_BOTH_WAYS 8
#define STREAMS_ONE_WAY 4
/* Tasks that need no more than this on a device share a stream's turn: a stream and what reports
 * its end cost the loop some 15 us, the copies and the kernel of 512 x 512 pixels the device twice
 * that. What is larger gains nothing, and on a stream of its own it runs beside others. */
#define BATCH_TASK_BYTES (2 * MIB)
/* So many at most: by then a turn's cost is 1 us a task, and one that is the first of a batch still
 * waits for its end less than a millisecond. A device that fails charges all that are on it. */
#define BATCH_TASKS_MAX 16
#define DEVICES_MAX 16
#define INFLIGHT_CEILING 4096
/* Unless `inflight` is given, while jobs are short, so many more are held as the workers end in
 * this time: a call to Redis and back under load, during which they shall not run dry. It is also
 * how much work a daemon may keep from others. */
#define INFLIGHT_AHEAD_MS 10
#define INFLIGHT_AHEAD_MAX 128

/* Inputs that were read from Redis and have no room in a pool yet: so many of less than 64 KiB, and
 * so many larger ones, which have so many bytes together, or one alone has more. */
#define READS_SMALL_MAX   256
#define READS_LARGE_MAX   4
#define READS_LARGE_BYTES (16 * MIB)

/* Resident memory stays below pinned_bytes + host_bytes + these: for the daemon itself, per worker,
 * and per job of `inflight`. One input of a key that is larger than READS_LARGE_BYTES comes on top,
 * twice: as it arrives, and whole. README says so, and tests/faults/ceiling.c attacks it.
 *
 * The daemon: texts; one copy of a job's keys on its way to Redis; inputs from Redis; a reply to
 * FETCH as it arrives, and whole; 24 MiB for the program, libraries, and what malloc keeps.
 * A worker: while it looks at a header, the segments or chunks that it kept and a profile of them;
 * its sink; 8 MiB for the tree of a job's operations, a plan being built, and an encoder.
 * A job: struct work, a small tree, plan and profile (asserted in daemon/pipeline/pipeline.c);
 * later its result, without texts. */
#define HEAP_BASE_BYTES   (160 * MIB)
#define HEAP_WORKER_BYTES (32 * MIB)
#define HEAP_JOB_BYTES    (40 * KIB)

/* Jobs a FETCH, DONE or RENEW call: 64 cost Redis 15 us each, 8 cost 25, one alone 80. */
#define QUEUE_BATCH_MAX 64

/* A sentence for a person: thing, value, bound. Longer texts are cut. */
#define ERROR_TEXT_MAX 320

static_assert(SIDE_DEFAULT <= SIDE_CEILING, "the default side must be allowed");
static_assert((unsigned long long)SIDE_CEILING * SIDE_CEILING * CHANNELS_MAX < (1ull << 40),
              "byte sizes of any image must be far from overflow in 64 bits");
static_assert(BUFFER_ALIGN % STRIDE_ALIGN == 0, "a buffer's first row must be aligned too");
static_assert(HEAP_BASE_BYTES >= JOB_TEXTS_BYTES + KEY_OUTPUTS_BYTES_MAX +
                                     READS_SMALL_MAX * 64 * KIB + READS_LARGE_BYTES +
                                     2 * QUEUE_BATCH_MAX * JOB_BYTES_MAX + 24 * MIB,
              "the daemon's own memory must hold all of its parts");
static_assert(HEAP_WORKER_BYTES >= JPEG_KEPT_BYTES_MAX + ICC_BYTES_MAX + SINK_BYTES + 8 * MIB &&
                  HEAP_WORKER_BYTES >= 3ull * PNG_CHUNK_BYTES_MAX + SINK_BYTES,
              "a worker's memory must hold what a header can bring");
static_assert(JOB_TEXTS_BYTES / JOB_TEXT_BYTES_MAX >= QUEUE_BATCH_MAX,
              "an idle daemon must be able to fetch a whole batch");
static_assert(JOB_ID_BYTES_MAX < JOB_BYTES_MAX, "an id must fit its job");

#endif
