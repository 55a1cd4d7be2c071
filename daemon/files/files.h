/*
 * files.h - reads inputs below input_root and writes outputs below output_root.
 *
 * The two roots are options. Paths come from jobs and may be hostile. They are relative, and the
 * job parser has checked their syntax. Here each component of a path is opened by its own openat
 * with O_NOFOLLOW, so that no symbolic link leads out of the root.
 *
 * An output is written to a temporary file and renamed into place when it is complete, so that no
 * program ever sees a part of it. Temporary files are in the folder output_root/.gpuimgd. If the
 * target is on another filesystem, its temporary file is in the folder of the target, because files
 * cannot be renamed across filesystems.
 *
 * If output_root is a tmpfs, the file has no name until it is complete (O_TMPFILE). Then linkat
 * gives it its name under the lock of one folder. A rename needs the locks of two folders and that
 * of all renames of the filesystem, for which all workers would wait. Only a file that replaces
 * another one gets a temporary name, for the rename. A daemon that dies leaves no file without a
 * name.
 *
 * Any thread may call the functions, except files_open, files_open_inputs and files_close.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "conf/errors.h"
#include "daemon/files/known.h"
#include "queue/job/instance.h"

/* The daemon searches each folder with outputs on another filesystem once for temporary files of
 * dead daemons. It remembers this many folders. */
#define FILES_SWEPT_MAX 64
/* The name of a temporary file, with its NUL. */
#define FILES_TEMPORARY_BYTES_MAX (INSTANCE_BYTES_MAX + 64)

/* Identifies a file independently of its names. inode 0: no file. */
struct files_identity {
    uint64_t device, inode;
};

/* Whether both are the same file; false if either is no file. */
static inline bool files_same(const struct files_identity *one, const struct files_identity *other)
{
    return one->inode != 0 && one->inode == other->inode && one->device == other->device;
}

/* How a new output gets its name. */
enum files_naming {
    FILES_RENAMED,       /* it has a temporary name from its creation on, and is renamed */
    FILES_LINKED,        /* it has no name; linkat finds it by its descriptor. Before Linux 6.10,
                            this needs CAP_DAC_READ_SEARCH */
    FILES_LINKED_BY_PROC /* it has no name; linkat finds it in /proc/self/fd */
};

struct files {
    int input_root, output_root; /* descriptors of the folders */
    int temporary;               /* descriptor of output_root/.gpuimgd */
    _Atomic uint64_t temporary_device; /* its filesystem: st_dev of `temporary` */
    _Atomic enum files_naming naming;  /* of outputs on that filesystem */
    _Atomic bool root_is_near;         /* output_root is on the same filesystem as `temporary` */
    _Atomic bool same_root;            /* input_root and output_root are the same folder */
    char instance[INSTANCE_BYTES_MAX]; /* identifies this process (queue/job/instance.h) */
    char user[33];                     /* the daemon's user name, for messages */
    pthread_mutex_t lock;              /* guards the following members */
    struct files_identity swept[FILES_SWEPT_MAX]; /* ring: the next goes to [swept_next % size] */
    size_t swept_next;
};

/* Opens both roots and creates output_root/.gpuimgd, which only the daemon's user may write. false:
 * error has the reason. Call files_close in any case. */
bool files_open(struct files *files, const char *input_root, const char *output_root,
                const char *instance, struct error *error) MUST_CHECK;
/* Adds an error for each root that files_open would refuse, and creates nothing. The superuser may
 * call it for a daemon that runs as another user: .gpuimgd may then belong to that user. */
void files_check_roots(const char *input_root, const char *output_root, struct errors *errors);
/* Whether the path output_root still leads to the folder that files_open has opened, and that
 * folder still has the same .gpuimgd. */
bool files_has_root(const struct files *files, const char *output_root);
/* Opens output_root again if it is now another folder, because it was mounted or created again. If
 * the new folder is on another filesystem than the old one, it must already have .gpuimgd.
 * Otherwise it is probably the empty mount point of a filesystem that is not mounted. false: error
 * has the reason. */
bool files_follow_root(struct files *files, const char *output_root,
                       struct error *error) MUST_CHECK;
/* As files_open, but only for files_open_input: creates nothing. */
bool files_open_inputs(struct files *files, const char *input_root, struct error *error) MUST_CHECK;
void files_close(struct files *files);
/* Returns true if both paths lead to the same folder. */
bool files_same_folder(const char *one, const char *other);

/* Returns true if `path` leads to this file now; root: files->input_root or files->output_root. An
 * old identity is no proof, because the inode number of a replaced file may be used again. */
bool files_leads_to(int root, const char *path, const struct files_identity *file);

/* Whether an errno stays until somebody changes permissions or a setting: a program that tries
 * again a second later gets the same one. */
bool files_is_lasting(int reason);

struct files_input {
    int fd;        /* -1: not open */
    int reason;    /* errno of the step that failed; 0: no failure, or none of the system */
    uint64_t size; /* bytes, at the time of open */
    struct files_identity identity;
    uint64_t modified_ns; /* Unix time of the last change of its bytes */
    uint64_t changed_ns;  /* Unix time of the last change of its bytes or attributes */
};

/* Opens an input of at most size_max bytes. known: where to keep its folder; NULL: nowhere. The
 * caller closes input->fd. Errors: path_refused, input_missing, input_unreadable,
 * input_too_large. */
enum status files_open_input(const struct files *files, struct files_known *known, const char *path,
                             uint64_t size_max, struct files_input *input,
                             struct error *error) MUST_CHECK;
/* Reads an input from offset `from` to its end at `size`, to the same offsets of `bytes`. `bytes`
 * must have room for size + 1: one byte more is read to find out if the file has grown. If the size
 * has changed since the file was opened, a program may still be writing it; the error is then
 * input_unreadable, so that the job is retried. */
enum status files_read_input(int fd, const char *path, uint8_t *bytes, uint64_t from, uint64_t size,
                             struct error *error) MUST_CHECK;
/* Reads a part of a file, which begins at `offset`, from the part's byte `from` to its end at
 * `size`, to the same offsets of `bytes`. The error is input_unreadable if the file is shorter. */
enum status files_read_part(int fd, const char *path, uint64_t offset, uint8_t *bytes,
                            uint64_t from, uint64_t size, struct error *error) MUST_CHECK;
/* Returns the flags that files_read_cached needs for this file. May wait for a file server. */
int files_cache_flags(int fd);
/* Reads the bytes from offset `from` to `to`, to the same offsets of `bytes`, if they are in the
 * kernel's page cache: without waiting for a disk or a server, as far as the kernel can avoid it.
 * false: some bytes are not there, the file has ended, or its filesystem cannot read like this
 * (overlayfs, NFS, FUSE). */
bool files_read_cached(int fd, int flags, uint8_t *bytes, uint64_t from, uint64_t to) MUST_CHECK;

/* An output that is being written, from files_output_begin to files_output_end. One thread at a
 * time. */
struct files_output {
    int fd;               /* the temporary file; -1: not open */
    int folder;           /* folder of the target; -1: not open */
    bool own_folder;      /* files_output_end must close `folder`: it is not output_root itself,
                             nor that of `known` */
    struct files_folder *known; /* has `folder`, and ends with the output; or NULL */
    struct files_known *keeps;  /* that has found it */
    enum files_naming naming;
    bool is_temporary;    /* the temporary name exists: the file was not renamed yet */
    int temporary_folder; /* folder of the temporary name: files->temporary or `folder` */
    char temporary_name[FILES_TEMPORARY_BYTES_MAX];
    const char *path;               /* of the target, for messages; borrowed */
    const char *user;               /* files->user, for messages */
    const char *name;               /* last component of path */
    struct files_identity identity; /* of the file, before and after the rename */
    int replaced; /* descriptor of the file that files_output_place has replaced, if it has left it
                     open; -1: none. The caller may take and close it */
    int reason;   /* errno of the step that failed; 0: no failure */
};

/* How the folder of an output is opened, and created if it is missing. A path may have a thousand
 * missing folders, and each fsync takes some milliseconds: hence may_go_on. */
struct files_making {
    bool sync; /* sync the parent of each new folder, so that the folder survives a crash */
    /* Optional. Called before each folder is created; an error ends the output. */
    enum status (*may_go_on)(void *context, struct error *error);
    void *context;
    struct files_known *known; /* where to keep the folder; NULL: nowhere */
};

/* Creates the missing folders of `path` (mode 0755) and a temporary file (mode 0644). The numbers
 * of the job, of its fetch and of the output make its temporary name unique. making NULL: all zero.
 * Call files_output_end in any case. Errors: path_refused, write_failed, those of may_go_on. */
enum status files_output_begin(struct files *files, struct files_output *output, const char *path,
                               uint64_t job, uint64_t fetch, size_t index,
                               const struct files_making *making, struct error *error) MUST_CHECK;
/* Appends to the temporary file. Errors: write_failed, path_refused; files_output_unmap,
 * files_output_finish and files_output_place have the same errors. */
enum status files_output_write(struct files_output *output, const uint8_t *bytes, size_t length,
                               struct error *error) MUST_CHECK;
/* Maps the first `length` bytes of the empty temporary file into memory, so that several threads
 * can write them with files_map_write: write(2) lets only one thread at a time into a file. Call
 * files_output_unmap afterwards. NULL: the file is not in a tmpfs or not empty, or it has huge
 * pages (one thread is then as fast), or the system refuses the map. The file may then already have
 * this length: write at least `length` bytes with files_output_write. */
uint8_t *files_output_map(struct files_output *output, size_t length) MUST_CHECK;
/* Copies the bytes from offset `from` to `to`, to the same offsets of the map. `from` is a multiple
 * of the page size, and so is `to`, unless it is the end of the map. false: not everything was
 * copied, because a page cannot be allocated, another process has shortened the file, or the system
 * refuses the call. Any thread. */
bool files_map_write(uint8_t *map, const uint8_t *bytes, uint64_t from, uint64_t to) MUST_CHECK;
/* Removes the map. written: all of its bytes are written, so files_output_write appends to them.
 * Otherwise files_output_write begins at the start of the file; write at least `length` bytes. */
enum status files_output_unmap(struct files_output *output, uint8_t *map, size_t length,
                               bool written, struct error *error) MUST_CHECK;
/* Closes the temporary file when it is complete, unless it has no name. sync: calls fsync before,
 * which may block for as long as the disk needs. */
enum status files_output_finish(struct files_output *output, bool sync,
                                struct error *error) MUST_CHECK;
/* Decides whether an output may replace the existing file `target`. Other than STATUS_OK: it may
 * not, and error has the reason. */
typedef enum status files_may_replace(void *context, const struct files_identity *target,
                                      struct error *error);
/* Gives the temporary file, which files_output_finish has ended, its name. If a file with this name
 * exists, may_replace decides; if that file cannot be examined, nothing is replaced. If the name is
 * a symbolic link, the link is replaced, not its target. sync: syncs the folder after that; only if
 * files_output_begin was called with making->sync. In a tmpfs, the replaced file stays open as
 * output->replaced: its close frees its memory, which takes 0.1 ms per MB, and the caller can do
 * that later. */
enum status files_output_place(struct files_output *output, bool sync,
                               files_may_replace *may_replace, void *context,
                               struct error *error) MUST_CHECK;
/* Whether both outputs have the same name in the same folder, also by different paths. */
bool files_output_same(const struct files_output *one, const struct files_output *other);
/* The file that the output would replace now; inode 0: none. */
struct files_identity files_output_target(const struct files_output *output);
/* Sets *bytes to the free space on the filesystem of the output's folder. false: it is unknown. */
bool files_output_room(const struct files_output *output, uint64_t *bytes) MUST_CHECK;
/* Closes all descriptors of the output, and removes the temporary file if it is not in its place.
 * Idempotent. */
void files_output_end(struct files_output *output);

/* Removes the temporary files of dead daemons in output_root/.gpuimgd, and returns their number. If
 * a daemon runs on another host, this host cannot see whether it is dead: its files are removed
 * when they are older than age_s, by the clock of the filesystem. */
size_t files_sweep(const struct files *files, double age_s);
