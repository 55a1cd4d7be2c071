/*
 * library.c - libjpeg or libpng has another version at run time than at build time.
 *
 * shim_library.c passes another version to the library. The daemon must exit before READY, with the
 * status that keeps systemd from restarting it, and must not fetch a job.
 */
#include <string.h>

#include "tests/faults/rig.h"

/* Whether the daemon's only error message contains both texts. */
static void see_sentence(struct rig *rig, const struct process *daemon, const char *codec,
                         const char *reason)
{
    char *log = process_log(daemon), *at = strstr(log, " error ");
    char *end = at ? strchr(at, '\n') : NULL;
    if (end)
        *end = '\0';
    rig_saw_if(rig, at && strstr(at, text_of("the self-test of %s failed: ", codec)) &&
                        strstr(at, reason) &&
                        strstr(at, "; install the libraries with which gpuimgd was built"),
               "says why");
    rig_saw_if(rig, end && !strstr(end + 1, " error "), "once");
    free(log);
}

/* with: the function, and the codec and the reason in the message. */
static void meets(struct rig *rig)
{
    const char *const *with = rig->fault->with;
    rig_shim(rig, "library", with[0]);
    rig_push(rig, "n", 2);
    struct process *daemon = rig_start(rig, 0, NULL, NULL);
    rig_saw_end(rig, daemon, 20);
    see_sentence(rig, daemon, with[1], with[2]);
    rig_shim(rig, NULL, NULL);
    rig_start(rig, 1, NULL, NULL);
    rig_wait_done_at(rig, 20, "n", 1);
}

#define EXPECTED "daemon 0 does not start; exit 78; says why; once; 2 done once; all at attempt 1"

const struct fault_case library_faults[] = {
    CASE("libjpeg, writing", "another version", meets, EXPECTED,
         .with = {"jpeg_CreateCompress", "jpeg", "the JPEG cannot be written: Wrong JPEG library"}),
    CASE("libjpeg, reading", "another version", meets, EXPECTED,
         .with = {"jpeg_CreateDecompress", "jpeg", "in its header: Wrong JPEG library version"}),
    CASE("libjpeg, reading", "wrong pixels", meets, EXPECTED,
         .with = {"jpeg_read_scanlines", "jpeg", "the decoded image has wrong pixels"}),
    CASE("libpng, writing", "another version", meets, EXPECTED,
         .with = {"png_create_write_struct_2", "png", " refuses calls for version "}),
    CASE("libpng, reading", "another version", meets, EXPECTED,
         .with = {"png_create_read_struct_2", "png", " refuses calls for version "}),
    CASE("libpng, reading", "wrong pixels", meets, EXPECTED,
         .with = {"png_read_row", "png", "the decoded image has wrong pixels"}),
    {.name = NULL},
};
