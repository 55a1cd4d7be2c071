/*
 * files.h - inputs read from below input_root, outputs renamed into place below output_root.
 *
 * Paths come from jobs and are hostile. They are relative, were checked lexically by the job
 * parser, and are resolved beneath the root without symbolic links (openat2 RESOLVE_BENEATH; a
 * walk with O_NOFOLLOW where the kernel has no such call). All functions may be called on any
 * worker.
 */
#ifndef GPUIMGD_DAEMON_FILES_FILES_H
#define GPUIMGD_DAEMON_FILES_FILES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/status.h"
#include "queue/job/instance.h"

/* Folders on other filesystems that are remembered as free of leftovers. */
#define FILES_SWEPT_MAX 64
/* The name of a temporary file, with its terminator. */
#define FILES_TEMPORARY_BYTES_MAX (INSTANCE_BYTES_MAX + 64)

/* One file, under whichever of its names. inode 0: none. */
struct files_identity {
    uint64_t device, inode;
};

struct files {
    int input_root, output_root; /* folders, O_PATH or readable */
    int temporary;               /* output_root/.gpuimgd */
    /* st_dev, to see other filesystems below output_root */
    _Atomic uint64_t temporary_device;
    _Atomic bool root_is_near;   /* output_root itself is on that one */
    _Atomic bool same_root;      /* input_root is output_root */
    char instance[INSTANCE_BYTES_MAX];
    char user[33];               /* whom the daemon runs as, for messages */
    pthread_mutex_t lock;        /* guards what follows */
    struct files_identity swept[FILES_SWEPT_MAX];
    size_t swept_next;
};

/* Opens both roots, makes output_root/.gpuimgd, and checks that it can be written, and by nobody
 * else. false with a sentence in error. files_close is due in any case. */
bool files_open(struct files *files, const char *input_root, const char *output_root,
                const char *instance, struct error *error) MUST_CHECK;
/* Whether output_root still leads to the folder that was opened, with .gpuimgd in it. */
bool files_has_root(const struct files *files, const char *output_root);
/* If it leads to another one (it was mounted or made again), that one is used from now on. On
 * another filesystem than before it must have its .gpuimgd: else the right one is not mounted.
 * false with a sentence in error. */
bool files_follow_root(struct files *files, const char *output_root,
                       struct error *error) MUST_CHECK;
/* The same for files_open_input alone; nothing is made. */
bool files_open_inputs(struct files *files, const char *input_root,
                       struct error *error) MUST_CHECK;
void files_close(struct files *files);
/* Whether both paths lead to the same folder. */
bool files_same_folder(const char *one, const char *other);
bool files_same(const struct files_identity *one, const struct files_identity *other);

struct files_input {
    int fd;        /* -1: not open */
    uint64_t size; /* bytes, when it was opened */
    struct files_identity identity;
};

/* Opens an input for reading. path_refused, input_missing, input_unreadable, input_too_large. The
 * caller closes input->fd. */
enum status files_open_input(const struct files *files, const char *path, uint64_t size_max,
                             struct files_input *input, struct error *error) MUST_CHECK;
/* Reads exactly size bytes; a file that has become shorter or longer meanwhile is
 * input_unreadable (retryable: it is still being written). bytes: room for size + 1. */
enum status files_read_input(int fd, const char *path, uint8_t *bytes, uint64_t size,
                             struct error *error) MUST_CHECK;

/* An output being written. */
struct files_output {
    int fd;              /* -1: not open */
    int folder;          /* of the target, -1: not open */
    bool own_folder;     /* it is to be closed: not output_root */
    bool is_temporary;   /* there is a temporary file */
    int temporary_folder; /* files->temporary or folder */
    char temporary_name[FILES_TEMPORARY_BYTES_MAX];
    const char *path;    /* borrowed, for messages, as is files->user */
    const char *user;
    const char *name;    /* last part of path */
    struct files_identity identity; /* of the temporary file, and so of the output once placed */
    int reason;          /* the errno of the step that failed; 0: none has */
};

/* Makes the parent folders (0755) and a temporary file (0644). path_refused, write_failed. */
enum status files_output_begin(struct files *files, struct files_output *output,
                               const char *path, uint64_t job, uint64_t fetch, size_t index,
                               struct error *error) MUST_CHECK;
enum status files_output_write(struct files_output *output, const uint8_t *bytes, size_t length,
                               struct error *error) MUST_CHECK;
/* All of it is written: fsync (where sync) and close, which may take as long as the disk likes. */
enum status files_output_finish(struct files_output *output, bool sync,
                                struct error *error) MUST_CHECK;
/* Says whether a file that exists may be replaced by an output. */
typedef enum status files_may_replace(void *context, const struct files_identity *target,
                                      struct error *error);
/* After that: rename into place, fsync of the folder. may_replace is asked only if there is a file
 * of that name already. A symbolic link is itself replaced, not its target. */
enum status files_output_place(struct files_output *output, bool sync,
                               files_may_replace *may_replace, void *context,
                               struct error *error) MUST_CHECK;
/* Closes everything; removes the temporary file unless it was renamed. Idempotent. */
void files_output_end(struct files_output *output);

/* Removes temporary files of daemons that are gone: of this host, boot and pid namespace when
 * their process is; of others when they are older than age_s by the filesystem's own clock, which
 * may be a file server's. Returns how many. */
size_t files_sweep(const struct files *files, double age_s);

#endif
