/*
 * library.c - libjpeg or libpng has another version at run time than at build time.
 *
 * shim_library.c passes another version to the library. The daemon must exit before READY, with the
 * status that keeps systemd from restarting it, and must not fetch a job.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/faults/rig.h"

/* Whether the daemon's only error message contains both texts. */
static void see_sentence(struct rig *rig, const struct process *daemon, const char *codec,
                         const char *reason)
{
    char *log = process_log(daemon), *at = strstr(log, " error "), wanted[80];
    char *end = at ? strchr(at, '\n') : NULL;
    if (end)
        *end = '\0';
    snprintf(wanted, sizeof wanted, "the self-test of %s failed: ", codec);
    rig_saw_if(rig, at && strstr(at, wanted) && strstr(at, reason) &&
                        strstr(at, "; install the libraries with which gpuimgd was built"),
               "says why", at ? at : "says nothing");
    rig_saw_if(rig, end && !strstr(end + 1, " error "), "once", "and more");
    free(log);
}

static void meets(struct rig *rig, const char *function, const char *codec, const char *reason)
{
    rig_shim(rig, "library", function);
    rig_push(rig, "n", 2);
    struct process *daemon = rig_start(rig, 0, NULL, NULL);
    rig_saw(rig, "%s", rig_end_of(daemon, 20));
    see_sentence(rig, daemon, codec, reason);
    rig_shim(rig, NULL, NULL);
    rig_start(rig, 1, NULL, NULL);
    rig_wait(rig, 20);
    rig_saw_done(rig, "n");
    rig_saw_attempts(rig, "n", 1);
}

static void jpeg_writer(struct rig *rig)
{
    meets(rig, "jpeg_CreateCompress", "jpeg", "the JPEG cannot be written: Wrong JPEG library");
}

static void jpeg_reader(struct rig *rig)
{
    meets(rig, "jpeg_CreateDecompress", "jpeg", "in its header: Wrong JPEG library version");
}

static void jpeg_pixels(struct rig *rig)
{
    meets(rig, "jpeg_read_scanlines", "jpeg", "the decoded image has wrong pixels");
}

static void png_writer(struct rig *rig)
{
    meets(rig, "png_create_write_struct_2", "png", " refuses calls for version ");
}

static void png_reader(struct rig *rig)
{
    meets(rig, "png_create_read_struct_2", "png", " refuses calls for version ");
}

static void png_pixels(struct rig *rig)
{
    meets(rig, "png_read_row", "png", "the decoded image has wrong pixels");
}

#define EXPECTED "daemon 0 does not start; exit 78; says why; once; 2 done once; all at attempt 1"

static const struct fault_case cases[] = {
    {"libjpeg, writing", "another version", .run = jpeg_writer, .quick = true,
     .expected = EXPECTED},
    {"libjpeg, reading", "another version", .run = jpeg_reader, .quick = true,
     .expected = EXPECTED},
    {"libjpeg, reading", "wrong pixels", .run = jpeg_pixels, .quick = true,
     .expected = EXPECTED},
    {"libpng, writing", "another version", .run = png_writer, .quick = true,
     .expected = EXPECTED},
    {"libpng, reading", "another version", .run = png_reader, .quick = true,
     .expected = EXPECTED},
    {"libpng, reading", "wrong pixels", .run = png_pixels, .quick = true,
     .expected = EXPECTED},
    {.name = NULL},
};

const struct fault_group library_faults = {"library", cases};
