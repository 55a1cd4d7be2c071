/* limits.h - the fixed limits of gpuimgd that several files use or that depend on each other, with
 * their reasons, and the defaults of limits that are options. Assertions at the end check their
 * relations. A limit of one file is in that file. */
#pragma once

#include <assert.h>

#define KIB (1024ull)
#define MIB (1024ull * KIB)
#define GIB (1024ull * MIB)

/* Size of a job's JSON: 16 outputs with 32 operations of about 100 bytes each take 50 KiB. */
#define JOB_BYTES_MAX (64 * KIB)
/* Nesting: job > outputs > output > ops > op > parameter > matrix row is 7 deep. The user's meta
 * may be deeper. */
#define JOB_DEPTH_MAX 16
/* Memory for the texts of all jobs in flight: the strings, the places of a list of inputs and the
 * parsed operations of a job, and its result, which repeats its meta and paths. A number of a
 * matrix takes 8 bytes, and 2 or more in the job; an operation takes at most four times its text
 * and OP_BYTES_MORE. The daemon fetches only as many jobs as fit at the largest size. 4,096 usual
 * jobs fit. */
#define OP_BYTES_MORE      32
#define JOB_TEXT_BYTES_MAX                                                                         \
    (5 * JOB_BYTES_MAX + JOB_OUTPUTS_MAX * JOB_OPS_MAX * OP_BYTES_MORE +                           \
     JOB_INPUTS_MAX * JOB_PLACE_BYTES)
#define JOB_TEXTS_BYTES    (32 * MIB)
#define JOB_ID_BYTES_MAX 128
/* The label of the client that pushed a job. */
#define JOB_TAG_BYTES_MAX 64
/* A traceparent of version 00 has 55 bytes. Programs must be able to pass on 512 bytes of
 * tracestate (W3C Trace Context, 3.3.1.5). */
#define JOB_TRACEPARENT_BYTES_MAX 128
#define JOB_TRACESTATE_BYTES_MAX  512
/* Priorities are one digit, 0 to 9: the lists NS:jobs:0 to NS:jobs:9. */
#define JOB_PRIORITIES 10
#define JOB_OPS_MAX 32
#define JOB_OUTPUTS_MAX 16
/* Images of a list: a job of JOB_BYTES_MAX has 64 bytes for each. */
#define JOB_INPUTS_MAX  1024
#define JOB_PLACE_BYTES 24 /* of struct job_place */
/* The most frames or pages of an input; a file with more is refused. The last page that a job can
 * name. */
#define FRAMES_MAX   65536
#define JOB_PAGE_MAX (FRAMES_MAX - 1)
/* The frames of a contact strip. More of them than fit into SIDE_CEILING are of no use. */
#define JOB_STRIP_MAX 64
/* Files of a folder. Their names are kept and sorted. */
#define JOB_FOLDER_FILES_MAX 65536
/* Patterns that choose files of a folder or members of an archive. A name is compared with all. */
#define JOB_PATTERNS_MAX      8
#define JOB_PATTERN_BYTES_MAX 128
/* Half of Linux's PATH_MAX: the other half is for input_root or output_root. */
#define JOB_PATH_BYTES_MAX 2048
#define JOB_KEY_BYTES_MAX 512
/* A presigned URL with a session token has 2,000 bytes. */
#define JOB_URL_BYTES_MAX 4096
/* Headers of an upload: a value of Cache-Control, Content-Disposition or metadata; a name of
 * metadata; and, as S3 allows, all names and values of metadata. S3 accepts 8 KiB of headers. The
 * lines fit into them, with the names once more in the signature. A session token may not: it has
 * up to 4 KiB, usually 1 to 1.4. S3 then refuses the upload with RequestHeaderSectionTooLarge. */
#define JOB_HEADER_BYTES_MAX      1024
#define JOB_HEADER_NAME_BYTES_MAX 64
#define JOB_METADATA_BYTES_MAX    2048
#define JOB_METADATA_NAMES_MAX    32
#define JOB_HEADERS_BYTES_MAX                                                                      \
    (2 * (JOB_HEADER_BYTES_MAX + 32) + JOB_METADATA_BYTES_MAX + JOB_METADATA_NAMES_MAX * 16 + 1)
/* If a job cannot be parsed, the result and the log show this much of its beginning. */
#define JOB_EXCERPT_BYTES_MAX 160

/* A file of 50 megapixels is larger than this only if it is hostile or uncompressed. */
#define INPUT_BYTES_DEFAULT (64 * MIB)
#define INPUT_BYTES_CEILING (1 * GIB)
/* The largest common full-frame sensor has 50 megapixels; its RGB pixels take 150 MB. */
#define PIXELS_DEFAULT 50000000ull
#define PIXELS_CEILING 1000000000ull
/* Pixels per side: the largest texture side that every GPU of the last ten years supports, and
 * twice 8K video. A row of RGBA takes 64 KiB, which bounds each codec's row buffers. */
#define SIDE_DEFAULT 16384
/* JPEG's 16-bit fields allow no more. PNG could, but gets the same limit. */
#define SIDE_CEILING 65500

#define CHANNELS_MAX 4
#define ORIENTATION_MAX 8

/* libjpeg writes 10 scans. A hostile file may have thousands, and each costs a pass over the whole
 * image. */
#define JPEG_SCANS_DEFAULT 100
/* A 64 MiB file of full segments has 1,000. */
#define JPEG_SEGMENTS_MAX 4096
/* Bytes of a file that a library in a codec process may read for the header: in an AVIF, the boxes
 * with the profile, then the profile again, EXIF and XMP. The second limit is for profile, EXIF and
 * XMP together. */
#define CODEC_KEPT_BYTES_MAX     (10 * MIB)
#define CODEC_METADATA_BYTES_MAX (5 * MIB)
/* Frames of one image. All are decoded to show the last one. AV1 has at most 32 layers, and a shown
 * frame may refer to 8 hidden ones. */
#define AVIF_FRAMES_MAX 64
/* Images of a sequence that are read or written: libavif has a table of all, for which a probe has
 * no more memory. */
#define AVIF_IMAGES_MAX 10000
/* The memory of a codec process (codecs/process/process.h). While it reads a header: two copies of
 * the metadata, and tables of 4 MiB for items, properties, tracks and samples. 256 AV1 streams need
 * 2.5 MiB of these, and a usual sequence of 10,000 images 0.3 MiB. */
#define CODEC_PROBE_BYTES (2 * CODEC_METADATA_BYTES_MAX + 4 * MIB)
/* From one task to the next, a codec process keeps this much free memory at the end of its heap,
 * and of the memory that it shares with the daemon: enough for images of some megapixels. */
#define CODEC_HEAP_KEPT_BYTES   (24 * MIB)
#define CODEC_REGION_KEPT_BYTES (8 * MIB)
/* Resident memory of a codec process for the code and data of libraries: 6 MiB after the start, 12
 * MiB after images of all kinds. The tables that fontconfig and Pango make for texts are a part of
 * the heap, and fonts are in the page cache. */
#define CODEC_LIBRARIES_BYTES (16 * MIB)
/* A text that is drawn: bytes of UTF-8, and pixels of an em and between two lines. A page of text
 * has 3,000 bytes. */
#define TEXT_BYTES_MAX      4096
#define TEXT_FONT_BYTES_MAX 128
#define TEXT_SIZE_MAX       2000
#define TEXT_SPACING_MAX    2000
/* Memory of the codec process for a text besides its pixels: tables of fonts, the layout, and
 * glyphs. Fonts are mapped files in the page cache, so they take addresses only. Those of Chinese
 * have 20 MB, colour emoji 10 MB, and each is mapped twice. */
#define TEXT_WORK_BYTES   (32 * MIB)
#define TEXT_MAPPED_BYTES (256 * MIB)
/* Limit of private memory while the process reads fontconfig's configuration and opens the fonts.
 */
#define TEXT_START_BYTES (128 * MIB)
/* With more harmless warnings of libjpeg (bytes before a marker) the file counts as corrupt. */
#define JPEG_WARNINGS_MAX 100
/* Decompressed size of zTXt, iCCP and similar chunks. Larger ones are decompression bombs. */
#define PNG_CHUNK_BYTES_MAX 8000000
/* ICC profiles of printers reach 3 MB; RGB display profiles are a few KB. */
#define ICC_BYTES_MAX (4 * MIB)
/* Memory of lcms2 while it computes the tables of a profile, which it expands to 16 bits. */
#define COLOUR_BUILD_BYTES_MAX (20 * MIB)
/* The EXIF of a JPEG has at most 64 KiB. Other formats hold more, mostly MakerNote. */
#define EXIF_BYTES_MAX (1 * MIB)
/* Metadata that outputs keep must fit one APP1 segment of a JPEG, after its length and its name:
 * "Exif\0\0", or 29 bytes for XMP, for which its specification allows two bytes less. */
#define EXIF_KEPT_BYTES_MAX 65527
#define XMP_BYTES_MAX 65502
/* An input's XMP packet may be larger, because its thumbnails are removed. The number of its
 * elements, attributes and texts is also limited, so that a hostile packet takes only milliseconds.
 */
#define XMP_SOURCE_BYTES_MAX (4 * MIB)
#define XMP_PARTS_MAX 65536

/* A reader of an archive holds one block, and for gzip a block of the file and zlib's 40 KiB. While
 * libarchive reads the headers before a member of a tar, it gets what is left of one block, and
 * then at most ARCHIVE_HEADER_BYTES_MAX. It copies them some times, and the map of a sparse file
 * takes up to 20 times its bytes. */
#define ARCHIVE_BLOCK_BYTES      (128 * KIB)
/* The largest read of an uncompressed tar while its headers are walked. A read of this size costs
 * 0.5 us more than one of 512 bytes, which is a third of the time per member. */
#define ARCHIVE_WALK_BYTES       (4 * KIB)
#define ARCHIVE_PACKED_BYTES     (64 * KIB)
#define ARCHIVE_HEADER_BYTES_MAX (128 * KIB)
#define ARCHIVE_READER_BYTES     (8 * MIB)
/* libarchive keeps the directory of a zip: 160 bytes per member. */
#define ARCHIVE_ZIP_MEMBER_BYTES 256
/* A tar is written in blocks of this size; larger files are not copied. */
#define TAR_BLOCK_BYTES  (256 * KIB)
#define TAR_WRITER_BYTES (TAR_BLOCK_BYTES + 4 * KIB)
/* What one call unpacks to skip the contents of members in gzip: about a second. */
#define ARCHIVE_SKIP_BYTES_MAX (512 * MIB)

/* Tables of a plan, which are in pinned memory after the image. A resize at the default sides needs
 * up to 2 MB, and a hostile job may have 512 of them. */
#define PLAN_CONSTANTS_BYTES_MAX (64 * MIB)
/* The visible pixels of the overlays of a plan, 4 bytes each, which are copied there: one overlay
 * of PIXELS_DEFAULT, or hundreds of logos. */
#define PLAN_OVERLAYS_BYTES_MAX (256 * MIB)

/* Tables of weights of `resize` that are kept from one job to the next. Three sizes of a photograph
 * of 15 megapixels need 0.6 MiB. */
#define WEIGHTS_CACHE_BYTES (4 * MIB)

/* Alignment of rows: one GPU memory sector, and one AVX register. */
#define STRIDE_ALIGN 32
/* Alignment of buffers: that of cudaMalloc, and four cache lines. */
#define BUFFER_ALIGN 256

/* A pool grows by this, or by the need of one job if that is larger. So it rarely grows, and an
 * idle daemon needs little memory. */
#define POOL_SEGMENT_BYTES (64 * MIB)
/* A pool of device memory grows by this part of its budget, but not by less than the above, and not
 * by more than the second number: photographs take 10 to 60 MiB each, and would leave a large part
 * of small segments unused. */
#define DEVICE_SEGMENT_PART      64
#define DEVICE_SEGMENT_BYTES_MAX (512 * MIB)

/* One worker carries a job of at most this size from input to output. That takes about 20 ms per
 * megapixel, so the job holds little memory, and not for long. */
#define SMALL_JOB_BYTES (4 * MIB)

/* Shares of host_bytes: input files, and tables of ICC profiles that are kept from one job to the
 * next. The rest is for all other heap memory of admitted jobs (daemon/pipeline/admission.h). */
#define HOST_FILES_PART 2
/* The pool of input files is this much larger than its part: an input may be as large as the part,
 * and files_read_input reads one byte more than the file has. */
#define HOST_FILES_SPARE BUFFER_ALIGN
#define HOST_COLOUR_PART 8
/* Before its memory is admitted, a job keeps a plan and metadata of at most these sizes: six
 * passes, and the ICC profile of a display. Larger ones are measured, freed, and made again
 * afterwards. */
#define PLAN_KEPT_BYTES     (8 * KIB)
#define METADATA_KEPT_BYTES (4 * KIB)

/* If a device decodes a file that is larger than this, a worker reads only this much of it before
 * the job's memory is admitted, and then the whole file into pinned memory. The headers of most
 * photographs fit, even with an EXIF segment of the largest size. */
#define INPUT_HEAD_BYTES (64 * KIB)
/* It first reads this much. Many files have no metadata, and less than 1 KiB of header. */
#define INPUT_HEAD_FIRST_BYTES (8 * KIB)
/* Size of each worker's write buffer: most outputs need only one write(2). */
#define SINK_BYTES (1 * MIB)
/* Bytes of the outputs of one job that have a key, or of one image of a job with many images. They
 * stay in memory until Redis has acknowledged DONE. That call sends all of them, and Redis serves
 * no other client meanwhile. Those of an image are stored one by one (queue/lease/store.h). */
#define KEY_OUTPUTS_BYTES_MAX (64 * MIB)
/* With several shards, KEY_OUTPUTS_BYTES_MAX bounds the calls of all shards together. Calls of at
 * most this size do not count: a batch of usual results. */
#define CALL_SMALL_BYTES (64 * KIB)

/* Jobs with many images that run at once, at most (options_sets): each reads its archive, or writes
 * its tar, with one worker at a time. */
#define SETS_MAX 64
/* The tars and arrays of these jobs that are open at once: one for each, and so many more. */
#define SET_PACKS_MORE JOB_OUTPUTS_MAX
/* Images of such a job that have begun and whose predecessors have not all ended: as many as a
 * device has of small images, or a slow one lets the others wait. */
#define SET_WINDOW 2048
/* Members of an archive: those of a tar of 100 GB of images. */
#define SET_MEMBERS_MAX 10000000ull
/* Members of a zip, whose directory is in memory: ARCHIVE_ZIP_MEMBER_BYTES for each. And the bytes
 * of that directory. */
#define SET_ZIP_MEMBERS_MAX 32768
#define SET_ZIP_BYTES_MAX (4 * MIB)
/* Bytes of the name of a member: as those of a path. */
#define SET_NAME_BYTES_MAX JOB_PATH_BYTES_MAX
/* Names of outputs, without those with an index, that are compared to refuse equal ones: those of a
 * folder, 4 outputs each. Their hashes take 4 MiB. A job with more of them fails. */
#define SET_NAMES_MAX 262144
/* Names of the members of one sample that a tar remembers, to refuse equal ones. */
#define SET_SAMPLE_BYTES_MAX (64 * KIB)

#define WORKERS_CEILING 1024
#define STREAMS_CEILING 64
/* Tasks that take at most this much memory on a device share batches: one stream runs them
 * together. To start a stream and to handle its end costs the device's thread about 15 us; the
 * copies and the kernel of 512 x 512 pixels take the device twice that. Larger tasks gain nothing
 * from a batch, unless they share the launches of the JPEG codec. They run in parallel on separate
 * streams. */
#define BATCH_TASK_BYTES (2 * MIB)
/* Tasks in a batch of more than BATCH_PIXELS_LIGHT pixels, at most. The cost of a stream is then
 * 1 us per task, and the first task waits less than a millisecond for the last one. The number is
 * small because all jobs on a device that fails lose an attempt. */
#define BATCH_TASKS_HEAVY 16
/* Tasks in any batch, at most; only a batch that is light, or has only small images, may have more
 * than BATCH_TASKS_HEAVY. The device's thread needs 50 us to enqueue a batch that uses the JPEG
 * codec, for any number of images, and further 1 to 2 us per image. */
#define BATCH_TASKS_MAX 256
/* Images that the device encodes for a batch, in one launch. A task has up to JOB_OUTPUTS_MAX. */
#define BATCH_IMAGES_MAX 512
/* Pixels of the sources of a batch. The launches of the JPEG codec take the device's thread about
 * 50 us, and on an H200 its kernels process 60 pixels per nanosecond. A batch of BATCH_PIXELS_MAX
 * runs for 1 ms: the launches cost 5%, and the first task waits 1 ms for the last one. A batch of
 * at most BATCH_PIXELS_LIGHT is light: its launches take about as long as its kernels, so its tasks
 * share the batch even if other streams are free. */
#define BATCH_PIXELS_MAX (64u * 1000 * 1000)
#define BATCH_PIXELS_LIGHT (4u << 20)
/* A batch whose tasks all encode AVIFs may have this many times as many tasks and pixels, because
 * most steps of the encoder depend on the one before: an H200 takes 12 ms for 64 images of 640 x
 * 427, and 25 ms for 300. */
#define BATCH_AVIF_TIMES 4
/* The same while a device decodes the scans of many progressive JPEGs. */
#define BATCH_PIXELS_SCANS (16u << 20)
/* While this many streams run light batches, queued tasks of the codec with fewer pixels than
 * BATCH_PIXELS_WAIT together wait until one of these batches ends. Otherwise the device's thread
 * would start a batch for each one to four images, and a batch costs it the same for any size. */
#define BATCHES_LIGHT     2
#define BATCH_PIXELS_WAIT (1u << 20)
/* An image of at most this many pixels is small. While BATCHES_LIGHT light batches run, small
 * images also wait until they are BATCH_TASKS_HEAVY, or more if the device has more tasks
 * (cuda_queue.c), so that the batches grow with the load. A batch of small
 * images may then have this many pixels, and counts as light: on an H200 it runs for less than a
 * millisecond. */
#define BATCH_PIXELS_SMALL  (256u << 10)
#define BATCH_PIXELS_SMALLS (16u << 20)
/* While this many streams run light batches, an image of at most BATCH_PIXELS_TINY waits until one
 * ends, however many wait. A batch of tiny images runs for less time than the device's thread needs
 * to take its results and to start another. If each stream had one, they would all end at about the
 * same time, and the device would idle meanwhile. On an H200, shards of 256 x 256 are 6% faster
 * with three batches than without a limit, and slower with two or four. */
#define BATCHES_TINY      3
#define BATCH_PIXELS_TINY (64u << 10)
/* Further streams of a device, with a lower priority, for files that take long: progressive JPEGs
 * and PNGs. Other tasks never use these streams, because a file can take half a second. A device
 * runs at most 128 kernels at once, and the short tasks need some of them. */
#define LONG_STREAMS 112
/* Progressive JPEGs whose scans share a launch on such a stream. Together, a thousand can be
 * decoded at once. */
#define SCANS_TASKS_MAX 16
#define DEVICES_MAX 16
/* Each stream of a device holds descriptions of files: this much pinned memory, and as much memory
 * of the device. pinned_bytes and device_bytes do not include it; the manual states this. */
#define STREAM_CODEC_BYTES (4 * MIB)
/* The same for each stream for files that take long, 7 MiB per device. A progressive JPEG needs 4
 * KiB for its scans, and 18 KiB at most. A PNG needs 1 KiB, and its outputs as much as others:
 * JPEGs to encode need a byte per 8,192 pixels, so that 16 outputs of 250 megapixels in all fit.
 * WebPs need a byte per 140 to 300 pixels at a quality of 75, and per 80 to 160 at 95, and 26 KiB
 * more if one has max_bytes: 13 megapixels fit up to a quality of 85, 10 up to 95, and 3 above. */
#define LONG_CODEC_BYTES (64 * KIB)
#define INFLIGHT_CEILING 4096
/* If `inflight` is auto and jobs are short, the daemon also holds the jobs that its workers finish
 * during a call to Redis under load: at most this many, because other daemons cannot run them. */
#define INFLIGHT_AHEAD_MAX 128
/* The most jobs that are sent to one device. If `inflight` is auto, they are added to it, because
 * they need no worker: a device that stalls must not keep jobs from the workers. A device decodes a
 * thousand small progressive JPEGs at once. */
#define INFLIGHT_DEVICE_MAX 1024

/* Inputs that are read from Redis, until a worker has copied them to a memory pool and returned the
 * job (after READ, or after ENCODE if it carries the job): the number of inputs under 64 KiB, and
 * the number and total size of larger ones. A single one may exceed the total. */
#define READS_SMALL_MAX   256
#define READS_LARGE_MAX   4
#define READS_LARGE_BYTES (16 * MIB)

/* Outputs of images of jobs with many images that are on their way to Redis: their number, and the
 * total size, which a single one may exceed. Outputs of more than CALL_SMALL_BYTES also count as
 * calls, towards KEY_OUTPUTS_BYTES_MAX. */
#define STORES_MAX   64
#define STORES_BYTES (16 * MIB)

/* Memory of a running transfer of a URL: libcurl's two buffers of 64 KiB, its TLS state, and
 * response headers of at most TRANSFER_HEADERS_BYTES. */
#define TRANSFER_BYTES         (256 * KIB)
#define TRANSFER_HEADERS_BYTES (64 * KIB)
#define URL_CONNECTIONS_CEILING 1024

/* malloc keeps blocks of up to this size in its heap: mapping them for each image costs page
 * faults; larger blocks return to the system when they are freed. */
#define HEAP_BLOCK_BYTES (4 * MIB)
/* Free memory that malloc keeps at the end of the heap. */
#define HEAP_KEPT_BYTES (16 * MIB)
/* Resident memory stays below pinned_bytes + host_bytes + these limits: for the daemon, per worker,
 * and per job of `inflight`. An input from a key that is larger than READS_LARGE_BYTES adds twice
 * its size: the receive buffer and the copy. gpuimgd.conf(5) states this; tests/faults/ceiling.c
 * attacks it.
 * URLs add url_bytes, one input, and TRANSFER_BYTES per url_connections: gpuimgd.conf(5).
 * The CUDA engine adds STREAM_CODEC_BYTES per stream, LONG_STREAMS x LONG_CODEC_BYTES per device,
 * HEAP_SET_BYTES for each further job with many images (options_sets), and the memory of the CUDA
 * driver.
 *
 * Daemon: texts of jobs; one copy of a job's outputs on their way to Redis; inputs from Redis; a
 * reply to FETCH, twice (receive buffer and copy); WEIGHTS_CACHE_BYTES; 24 MiB for the program,
 * libraries and malloc.
 * Worker: segments or chunks kept while it reads a header, and the profile in them; the profile of
 * the input, while this is the header of an overlay; its write buffer; 8 MiB for a plan under
 * construction, an encoder, and a piece of a mapped output.
 * Job: a slot with struct job_run, plan and profile (asserted in daemon/pipeline/pipeline.c), later
 * its result, without texts. And IMAGES_PER_JOB slots for images of jobs with many images: these
 * wait for each other, so a device needs more of them than of single jobs. */
#define HEAP_BASE_BYTES (164 * MIB)
/* Of each shard, if there are several: its part of the replies to FETCH, which together bring at
 * most as many jobs as JOB_TEXTS_BYTES allow; its connections; its part of snapshots. With several
 * shards, the memory of HEAP_JOB_BYTES is also needed for `inflight` spare places
 * (queue/lease/group.h). */
#define HEAP_SHARD_BYTES  (4 * MIB)
#define HEAP_WORKER_BYTES (36 * MIB)
#define HEAP_SLOT_BYTES   (40 * KIB)
#define IMAGES_PER_JOB    2
#define HEAP_JOB_BYTES    ((1 + IMAGES_PER_JOB) * HEAP_SLOT_BYTES)
/* A job with many images. At most as many as workers run at once, beside devices twice as many. It
 * holds the reader of an archive and the directory of a zip, a writer for each output, the ring of
 * its images, and the parts of its result; or the names of a folder. */
#define HEAP_SET_BYTES (24 * MIB)
/* The codec process of a worker while it reads a header and gives the metadata to the daemon.
 * Memory for its other tasks is reserved by admission. */
#define CODEC_PROCESS_BYTES                                                                        \
    (CODEC_LIBRARIES_BYTES + CODEC_REGION_KEPT_BYTES + CODEC_HEAP_IDLE_BYTES)
/* Heap of a codec process without a task: at most the memory that reading a header needs. */
#define CODEC_HEAP_IDLE_BYTES                                                                      \
    (CODEC_HEAP_KEPT_BYTES + CODEC_PROBE_BYTES + CODEC_KEPT_BYTES_MAX + CODEC_METADATA_BYTES_MAX)
#define WORKER_BYTES (HEAP_WORKER_BYTES + HEAP_SET_BYTES + CODEC_PROCESS_BYTES)

/* Connections to metrics_listen: a few scrapers, probes and open pages. */
#define HTTP_CONNECTIONS_MAX 40

/* The most jobs in one call of FETCH, DONE or RENEW. A job costs Redis 15 us in a call of 64 jobs,
 * 25 us in one of 8, and 80 us alone. */
#define QUEUE_BATCH_MAX 64

/* The most shards of a namespace (queue/redis/shard.h). Each needs three connections. One Redis
 * serves more jobs than most fleets run, and four on their own servers serve almost four times as
 * many. */
#define SHARDS_MAX 64

/* Seconds from the start until the self-test must have passed: TimeoutStartSec= of the systemd
 * unit. The first start on a new kind of GPU compiles the kernels. */
#define START_S_MAX 180

/* Size of a configuration file. All options at their longest, with comments, take under 100 KiB. */
#define CONF_BYTES_MAX (1 * MIB)
/* Seconds that a start waits for data if a configuration file is a pipe: the command of a shell's
 * <(...) needs a moment. A reload does not wait. */
#define CONF_PIPE_S 1
/* Errors of a configuration show at most these many bytes of a path and of a value, so that the
 * sentence fits ERROR_TEXT_MAX. */
#define CONF_PATH_SHOWN_BYTES 100
#define OPTION_SHOWN_BYTES    80
/* The most errors of a configuration that are shown: a file of another format has one per line. */
#define ERRORS_SAID_MAX 100

/* Bytes of an error message with its NUL. Longer messages are cut. */
#define ERROR_TEXT_MAX 320

static_assert(JOB_HEADERS_BYTES_MAX + JOB_METADATA_BYTES_MAX + JOB_METADATA_NAMES_MAX * 12 + KIB <=
                  8 * KIB,
              "headers of an upload, their names in a signature, and the other headers must fit");
static_assert(SIDE_DEFAULT <= SIDE_CEILING, "the default side must be allowed");
static_assert((unsigned long long)SIDE_CEILING * SIDE_CEILING * CHANNELS_MAX < (1ull << 40),
              "byte sizes of any image must be far from overflow in 64 bits");
static_assert(BATCH_TASKS_HEAVY <= BATCH_TASKS_MAX &&
                  BATCH_TASKS_HEAVY * JOB_OUTPUTS_MAX <= BATCH_IMAGES_MAX,
              "a batch of tasks with many outputs must fit");
static_assert(BUFFER_ALIGN % STRIDE_ALIGN == 0, "a buffer's first row must be aligned too");
static_assert(HEAP_BASE_BYTES >= JOB_TEXTS_BYTES + KEY_OUTPUTS_BYTES_MAX +
                                     READS_SMALL_MAX * 64 * KIB + READS_LARGE_BYTES +
                                     2 * QUEUE_BATCH_MAX * JOB_BYTES_MAX + WEIGHTS_CACHE_BYTES +
                                     24 * MIB,
              "the daemon's own memory must hold all of its parts");
static_assert(2 * HEAP_SHARD_BYTES >= 2 * JOB_BYTES_MAX * (JOB_TEXTS_BYTES / JOB_TEXT_BYTES_MAX -
                                                          QUEUE_BATCH_MAX) +
                                          2 * 2 * CALL_SMALL_BYTES + 2 * MIB,
              "the memory of two shards must hold the replies and calls that the base does not");
static_assert(HEAP_WORKER_BYTES >=
                      CODEC_METADATA_BYTES_MAX + 2 * ICC_BYTES_MAX + SINK_BYTES + 8 * MIB &&
                  HEAP_WORKER_BYTES >= 3ull * PNG_CHUNK_BYTES_MAX + SINK_BYTES &&
                  HEAP_WORKER_BYTES >= 2 * ICC_BYTES_MAX + COLOUR_BUILD_BYTES_MAX + SINK_BYTES,
              "a worker's memory must hold what a header can bring");
static_assert(JOB_TEXTS_BYTES / JOB_TEXT_BYTES_MAX >= QUEUE_BATCH_MAX,
              "an idle daemon must be able to fetch a whole batch");
static_assert(ARCHIVE_READER_BYTES >= 24 * (ARCHIVE_BLOCK_BYTES + ARCHIVE_HEADER_BYTES_MAX) +
                                          ARCHIVE_BLOCK_BYTES + ARCHIVE_PACKED_BYTES + 512 * KIB,
              "an archive's reader must hold the headers of a member");
static_assert(INPUT_HEAD_BYTES <= SINK_BYTES, "the head of an input is read into a write buffer");
static_assert(JOB_ID_BYTES_MAX < JOB_BYTES_MAX, "an id must fit its job");
