/*
 * files.h - reads inputs below input_root and writes outputs below output_root.
 *
 * Paths come from jobs and are hostile. They are relative, and the job parser has checked their
 * syntax. They are resolved below the root without symbolic links, by openat with O_NOFOLLOW per
 * component.
 *
 * An output is written to a temporary file and renamed into place when it is complete. The folder
 * for temporary files is output_root/.gpuimgd, or the target's folder if that is on another
 * filesystem.
 *
 * Thread-safe, except files_open, files_open_inputs and files_close.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "conf/errors.h"
#include "queue/job/instance.h"

/* Folders on other filesystems whose leftover temporary files were removed: the latest are
 * remembered, and not searched again. */
#define FILES_SWEPT_MAX 64
/* The name of a temporary file, with its NUL. */
#define FILES_TEMPORARY_BYTES_MAX (INSTANCE_BYTES_MAX + 64)

/* Identifies a file independently of its names. inode 0: no file. */
struct files_identity {
    uint64_t device, inode;
};

/* Returns true if both are the same file; false if either has inode 0. */
static inline bool files_same(const struct files_identity *one, const struct files_identity *other)
{
    return one->inode != 0 && one->inode == other->inode && one->device == other->device;
}

struct files {
    int input_root, output_root; /* descriptors of the folders */
    int temporary;               /* descriptor of output_root/.gpuimgd */
    /* st_dev of `temporary`; a target with another st_dev is on another filesystem */
    _Atomic uint64_t temporary_device;
    _Atomic bool root_is_near; /* output_root is on the filesystem of `temporary` */
    _Atomic bool same_root;    /* input_root and output_root are the same folder */
    char instance[INSTANCE_BYTES_MAX];
    char user[33];                                /* the daemon's user name, for messages */
    pthread_mutex_t lock;                         /* guards swept and swept_next */
    struct files_identity swept[FILES_SWEPT_MAX]; /* ring */
    size_t swept_next;
};

/* Opens both roots and creates output_root/.gpuimgd, which only the daemon's user may write. false:
 * error has the reason. Call files_close in any case. */
bool files_open(struct files *files, const char *input_root, const char *output_root,
                const char *instance, struct error *error) MUST_CHECK;
/* Adds an error for each root that files_open would refuse, and creates nothing. Root may check for
 * the user of the daemon: then .gpuimgd may belong to that user. */
void files_check_roots(const char *input_root, const char *output_root, struct errors *errors);
/* Returns true if the path output_root still leads to the open output folder, and the .gpuimgd in
 * it is still the open one. */
bool files_has_root(const struct files *files, const char *output_root);
/* Opens output_root again if it is now another folder: it was mounted or created again. If the new
 * folder is on another filesystem than the old one, it must already have .gpuimgd. Without one, it
 * is probably the empty mount point of a filesystem that is not mounted. false: error has the
 * reason. */
bool files_follow_root(struct files *files, const char *output_root,
                       struct error *error) MUST_CHECK;
/* As files_open, but only for files_open_input: creates nothing. */
bool files_open_inputs(struct files *files, const char *input_root, struct error *error) MUST_CHECK;
void files_close(struct files *files);
/* Returns true if both paths lead to the same folder. */
bool files_same_folder(const char *one, const char *other);

/* Returns true if the path in the root, files->input_root or files->output_root, leads to this file
 * now. The number of a file that was replaced may belong to another file soon. */
bool files_leads_to(int root, const char *path, const struct files_identity *file);

struct files_input {
    int fd;        /* -1: not open */
    uint64_t size; /* bytes, at the time of open */
    struct files_identity identity;
    uint64_t modified_ns, changed_ns; /* Unix time of the last change of its bytes, and of any */
};

/* Opens an input of at most size_max bytes. The caller closes input->fd. Errors: path_refused,
 * input_missing, input_unreadable, input_too_large. */
enum status files_open_input(const struct files *files, const char *path, uint64_t size_max,
                             struct files_input *input, struct error *error) MUST_CHECK;
/* Reads the bytes from `from` to the end at `size` to the same offsets of `bytes`. A file whose
 * size has changed since it was opened is input_unreadable, which is retried: a program may still
 * be writing it. `bytes` must have room for size + 1: the additional byte shows that the file has
 * grown. */
enum status files_read_input(int fd, const char *path, uint8_t *bytes, uint64_t from, uint64_t size,
                             struct error *error) MUST_CHECK;
/* Flags for files_read_cached. May wait for a file server. */
int files_cache_flags(int fd);
/* Reads the bytes from `from` to `to` to the same offsets of `bytes`, without waiting for a disk or
 * a server as far as the kernel can avoid it. false: they are not all in the kernel's memory, the
 * file has ended, or its filesystem cannot tell (overlayfs, NFS, FUSE). */
bool files_read_cached(int fd, int flags, uint8_t *bytes, uint64_t from, uint64_t to) MUST_CHECK;

/* An output from files_output_begin to files_output_end. One thread at a time. */
struct files_output {
    int fd;              /* -1: not open */
    int folder;          /* folder of the target; -1: not open */
    bool own_folder;     /* `folder` must be closed: it is not output_root */
    bool is_temporary;   /* the temporary file exists */
    int temporary_folder; /* files->temporary or `folder` */
    char temporary_name[FILES_TEMPORARY_BYTES_MAX];
    const char *path;               /* for messages; borrowed */
    const char *user;               /* files->user, for messages */
    const char *name;               /* last component of path */
    struct files_identity identity; /* of the temporary file; the rename keeps it */
    int replaced;                   /* the replaced file, which files_output_place has left open;
                                     * -1: none. The caller may take the descriptor */
    int reason;                     /* errno of the step that failed; 0: no failure */
};

/* How missing folders are created. A path may have a thousand of them, and each fsync takes some
 * milliseconds. */
struct files_making {
    bool sync; /* sync the parent of each new folder, so that the folder survives a crash */
    /* Optional. Called before each folder is created; any error but STATUS_OK ends the output. */
    enum status (*may_go_on)(void *context, struct error *error);
    void *context;
};

/* Creates the parent folders (mode 0755) and a temporary file (0644). job, fetch and index make its
 * name unique. making NULL: all zero. Call files_output_end in any case. Errors: path_refused,
 * write_failed, those of may_go_on. */
enum status files_output_begin(struct files *files, struct files_output *output, const char *path,
                               uint64_t job, uint64_t fetch, size_t index,
                               const struct files_making *making, struct error *error) MUST_CHECK;
/* Appends to the temporary file. Errors of this, files_output_unmap, files_output_finish and
 * files_output_place: write_failed, path_refused. */
enum status files_output_write(struct files_output *output, const uint8_t *bytes, size_t length,
                               struct error *error) MUST_CHECK;
/* Maps the empty temporary file, so that several threads can write its first `length` bytes:
 * write(2) lets one thread at a time into a file. NULL: the file is not in a tmpfs, is not empty,
 * or has huge pages (then one thread is as fast), or the system refuses the map. The file may then
 * already have this length: write at least as many bytes with files_output_write. If it is mapped,
 * call files_output_unmap. */
uint8_t *files_output_map(struct files_output *output, size_t length) MUST_CHECK;
/* Copies the bytes from `from` to `to` to the same offsets of the map. `from` is a multiple of the
 * page size, and so is `to`, unless it is the end. false: not all is copied, because a page cannot
 * be allocated, another process has shortened the file, or the system refuses the call. Any
 * thread. */
bool files_map_write(uint8_t *map, const uint8_t *bytes, uint64_t from, uint64_t to) MUST_CHECK;
/* Ends the map. written: all of its bytes are written, and files_output_write appends to them. If
 * not, write at least `length` bytes with files_output_write, from the start. */
enum status files_output_unmap(struct files_output *output, uint8_t *map, size_t length,
                               bool written, struct error *error) MUST_CHECK;
/* Closes the complete temporary file, after fsync if `sync`. May block for as long as the disk
 * needs. */
enum status files_output_finish(struct files_output *output, bool sync,
                                struct error *error) MUST_CHECK;
/* Returns STATUS_OK if an output may replace the existing file `target`. */
typedef enum status files_may_replace(void *context, const struct files_identity *target,
                                      struct error *error);
/* Renames the closed temporary file into place, then syncs its folder if `sync`. Calls may_replace
 * if a file with this name exists; if that file cannot be looked at, nothing is replaced. If the
 * name is a symbolic link, the link is replaced. In a tmpfs, it leaves the replaced file open: the
 * close of output->replaced frees its memory, which takes 0.1 ms per MB. */
enum status files_output_place(struct files_output *output, bool sync,
                               files_may_replace *may_replace, void *context,
                               struct error *error) MUST_CHECK;
/* Sets the bytes that are free on the filesystem of the output's folder. false: unknown. */
bool files_output_room(const struct files_output *output, uint64_t *bytes) MUST_CHECK;
/* Closes the output and the file that it has replaced, and removes its temporary file, if that was
 * not renamed. Idempotent. */
void files_output_end(struct files_output *output);

/* Removes the temporary files of dead daemons and returns their number. Of a daemon that another
 * host or boot may run, a file must be older than age_s, by the filesystem's clock. */
size_t files_sweep(const struct files *files, double age_s);
