#include "daemon/pipeline/dispatch.h"

#include <assert.h>
#include <string.h>

#include "conf/clock.h"
#include "conf/lock.h"

/* The most sequential JPEGs among the jobs that are sent to one device: a batch for each of eight
 * streams. Smaller batches keep a device waiting for kernels of few blocks of threads. Two batches
 * while the device's jobs need more than half of its memory, and while it has files of other kinds
 * or the cores decode, too: then more jobs would only wait for each other. */
#define INFLIGHT_SEQUENTIAL       128
#define INFLIGHT_SEQUENTIAL_LEAST 32
/* The same for JPEGs that become AVIFs, whose batches are larger (BATCH_AVIF_TIMES), while they
 * need at most some eighths of the device's memory. */
#define INFLIGHT_AVIF        512
#define AVIFS_EIGHTHS_ENOUGH 5
/* The memory of the progressive JPEGs on one device. When they have enough, the daemon does not
 * fetch more jobs because of them: an H200 decodes 400 photographs of 8 megapixels as fast as more,
 * and half of these are jobs that it fetches anyway. Beyond the maximum, the cores get them. A
 * small device gives them some eighths of its memory, and has the rest for other jobs. */
#define SCANS_BYTES_ENOUGH   (9 * GIB)
#define SCANS_EIGHTHS_ENOUGH 4
#define SCANS_BYTES_MAX      (15 * GIB)
#define SCANS_EIGHTHS_MAX    6

/* PNGs on a device: one for each of its streams for long files, and some that wait for a stream. */
#define PNGS_MOST (LONG_STREAMS + 16)
/* A PNG of fewer bytes per pixel is drawn, or as smooth as one. Smaller ones keep the device busy
 * if there are many, and do not wait long for it. */
#define DRAWN_BYTES  0.5
#define DRAWN_PIXELS (8u * 1000 * 1000)

/* When a device stalls, per file and pixel. A core takes 10 ns for a pixel of a sequential JPEG. An
 * H200 takes 15 for the others, and 30 if it has many. 512 photographs that become thumbnails take
 * it 70 ms as AVIFs. */
static const struct {
    uint64_t file_ns;
    double pixel_ns;
} stall_ages[DISPATCH_KINDS] = {
    [DISPATCH_SEQUENTIAL] = {NS_PER_S / 50, 10},
    [DISPATCH_AVIF] = {NS_PER_S / 5, 60},
    [DISPATCH_PROGRESSIVE] = {NS_PER_S / 50, 60},
    [DISPATCH_PNG] = {NS_PER_S / 50, 60},
};

/* ---- files ---------------------------------------------------------------------------------- */

static bool is_long(const struct dispatch_request *request)
{
    return request->kind == DISPATCH_PROGRESSIVE || request->kind == DISPATCH_PNG;
}

static bool is_large_drawn(const struct dispatch_request *request)
{
    return request->kind == DISPATCH_PNG && request->pixels > DRAWN_PIXELS &&
           (double)request->file_bytes < DRAWN_BYTES * (double)request->pixels;
}

static uint64_t limit_ns(const struct dispatch_request *request)
{
    return stall_ages[request->kind].file_ns +
           (uint64_t)(stall_ages[request->kind].pixel_ns * (double)request->pixels);
}

/* The ages of the running jobs, together. */
static int64_t ages_ns(const struct dispatch_backlog *backlog, uint64_t now_ns)
{
    return (int64_t)(backlog->running * now_ns - backlog->began_sum_ns);
}

static bool stalls(const struct dispatch_backlog *backlog, uint64_t now_ns)
{
    return ages_ns(backlog, now_ns) > (int64_t)backlog->limit_sum_ns;
}

static int64_t scans_bytes(const struct dispatch_device *device, int eighths, uint64_t most)
{
    int64_t part = device->room_bytes / 8 * eighths;
    return part < (int64_t)most ? part : (int64_t)most;
}

static bool has_room(const struct dispatch_device *device, const struct dispatch_request *request)
{
    int64_t bytes = (int64_t)request->device_bytes;
    int64_t of_kind = device->backlog[request->kind].bytes;
    return device->bytes + bytes <= device->room_bytes &&
           (request->kind != DISPATCH_PNG || device->backlog[DISPATCH_PNG].jobs < PNGS_MOST) &&
           (request->kind != DISPATCH_PROGRESSIVE ||
            of_kind + bytes <= scans_bytes(device, SCANS_EIGHTHS_MAX, SCANS_BYTES_MAX));
}

/* ---- charges -------------------------------------------------------------------------------- */

static struct dispatch_device *device_of(struct dispatch *dispatch,
                                         const struct dispatch_charge *charge)
{
    return &dispatch->devices[charge->device];
}

static void charge_device(struct dispatch *dispatch, const struct dispatch_charge *charge, int sign)
{
    struct dispatch_device *device = device_of(dispatch, charge);
    struct dispatch_backlog *backlog = &device->backlog[charge->request.kind];
    device->bytes += sign * (int64_t)charge->request.device_bytes;
    backlog->bytes += sign * (int64_t)charge->request.device_bytes;
    backlog->jobs += sign;
    assert(device->bytes >= backlog->bytes && backlog->bytes >= 0);
    assert(backlog->jobs >= 0);
}

static void charge_place(struct dispatch *dispatch, struct dispatch_charge *charge)
{
    charge->state = DISPATCH_SENT;
    dispatch->jobs++;
    dispatch->long_files += !charge->on_device || is_long(&charge->request);
    if (charge->on_device) {
        charge_device(dispatch, charge, 1);
    } else {
        dispatch->on_cores++;
        dispatch->heap_bytes += (int64_t)charge->request.heap_bytes;
    }
}

static void leave_device(struct dispatch *dispatch, struct dispatch_charge *charge)
{
    struct dispatch_backlog *backlog = &device_of(dispatch, charge)->backlog[charge->request.kind];
    if (!charge->on_device || charge->state == DISPATCH_RETURNED)
        return;
    if (charge->state == DISPATCH_RUNS) {
        backlog->running--;
        backlog->began_sum_ns -= charge->began_ns;
        backlog->limit_sum_ns -= limit_ns(&charge->request);
    }
    charge_device(dispatch, charge, -1);
    charge->state = DISPATCH_RETURNED;
}

/* For a job on the cores. */
static void free_heap(struct dispatch *dispatch, struct dispatch_charge *charge)
{
    dispatch->heap_bytes -= (int64_t)charge->request.heap_bytes;
    charge->request.heap_bytes = 0;
}

static void release(struct dispatch *dispatch, struct dispatch_charge *charge)
{
    if (charge->state == DISPATCH_NONE)
        return;
    leave_device(dispatch, charge);
    if (!charge->on_device) {
        free_heap(dispatch, charge);
        dispatch->on_cores--;
    }
    dispatch->jobs--;
    dispatch->long_files -= !charge->on_device || is_long(&charge->request);
    assert(dispatch->on_cores >= 0 && dispatch->heap_bytes >= 0 && dispatch->jobs >= 0);
    *charge = (struct dispatch_charge){0};
}

/* ---- choosing ------------------------------------------------------------------------------- */

/* Whether the device can have the file now. */
static bool takes(const struct dispatch_device *device, const struct dispatch_request *request,
                  uint64_t now_ns)
{
    return has_room(device, request) && !stalls(&device->backlog[request->kind], now_ns);
}

/* How many files of the kind the device has. A slower device has older ones, which count more. */
static int64_t load_of(const struct dispatch_device *device, const struct dispatch_request *request,
                       uint64_t now_ns)
{
    const struct dispatch_backlog *backlog = &device->backlog[request->kind];
    int64_t load = backlog->jobs * (int64_t)NS_PER_MS + ages_ns(backlog, now_ns);
    return takes(device, request, now_ns) ? load : INT64_MAX / 2 + load;
}

/* The least loaded device in service; those that cannot have the file now come last.
 * false: none is in service. */
static bool best_device(const struct dispatch *dispatch, const struct dispatch_request *request,
                        uint64_t now_ns, uint32_t *best)
{
    int64_t best_load = INT64_MAX;
    bool found = false;
    for (uint32_t d = 0; d < dispatch->device_count; d++) {
        int64_t load = load_of(&dispatch->devices[d], request, now_ns);
        if (request->out_of_service >> d & 1 || load >= best_load)
            continue;
        found = true;
        best_load = load;
        *best = d;
    }
    return found;
}

/* Whether a core gets the file, not this device, which is the best one. The rules of dispatch.h. */
static bool cores_take(const struct dispatch *dispatch, const struct dispatch_request *request,
                       uint64_t now_ns, const struct dispatch_device *device)
{
    if (dispatch->heap_bytes + (int64_t)request->heap_bytes > dispatch->heap_room_bytes)
        return false;
    return !takes(device, request, now_ns) || is_large_drawn(request) ||
           (is_long(request) && dispatch->long_files < dispatch->workers);
}

/* ---- public --------------------------------------------------------------------------------- */

void dispatch_open(struct dispatch *dispatch, uint32_t workers, size_t heap_room_bytes,
                   uint32_t device_count, const size_t *room_bytes)
{
    assert(workers > 0 && device_count <= DEVICES_MAX);
    memset(dispatch, 0, sizeof *dispatch);
    lock_init(&dispatch->lock);
    dispatch->workers = workers;
    dispatch->heap_room_bytes = (int64_t)heap_room_bytes;
    dispatch->device_count = device_count;
    for (uint32_t d = 0; d < device_count; d++)
        dispatch->devices[d].room_bytes = room_bytes[d] > 0 ? (int64_t)room_bytes[d] : 1;
}

void dispatch_close(struct dispatch *dispatch)
{
    bool idle = dispatch_is_idle(dispatch);
    assert(idle);
    (void)idle;
    pthread_mutex_destroy(&dispatch->lock);
}

void dispatch_choose(struct dispatch *dispatch, const struct dispatch_request *request,
                     uint64_t now_ns, struct dispatch_charge *charge)
{
    bool must = request->rule == DISPATCH_TO_DEVICE;
    if (dispatch->device_count == 0)
        return;
    pthread_mutex_lock(&dispatch->lock);
    release(dispatch, charge);
    charge->request = *request;
    charge->on_device =
        request->rule != DISPATCH_TO_CORES && request->kind != DISPATCH_OTHER &&
        best_device(dispatch, request, now_ns, &charge->device) &&
        (must || !cores_take(dispatch, request, now_ns, device_of(dispatch, charge)));
    charge_place(dispatch, charge);
    pthread_mutex_unlock(&dispatch->lock);
}

void dispatch_move(struct dispatch *dispatch, struct dispatch_charge *charge, uint32_t device)
{
    if (!charge->on_device || charge->device == device)
        return;
    assert(charge->state == DISPATCH_SENT && device < dispatch->device_count);
    pthread_mutex_lock(&dispatch->lock);
    charge_device(dispatch, charge, -1);
    charge->device = device;
    charge_device(dispatch, charge, 1);
    pthread_mutex_unlock(&dispatch->lock);
}

void dispatch_forget_avif(struct dispatch *dispatch, struct dispatch_charge *charge)
{
    if (!charge->on_device || charge->request.kind != DISPATCH_AVIF)
        return;
    assert(charge->state == DISPATCH_SENT);
    pthread_mutex_lock(&dispatch->lock);
    charge_device(dispatch, charge, -1);
    charge->request.kind = DISPATCH_SEQUENTIAL;
    charge_device(dispatch, charge, 1);
    pthread_mutex_unlock(&dispatch->lock);
}

void dispatch_start(struct dispatch *dispatch, struct dispatch_charge *charge, uint64_t now_ns)
{
    if (!charge->on_device)
        return;
    assert(charge->state == DISPATCH_SENT);
    pthread_mutex_lock(&dispatch->lock);
    struct dispatch_backlog *backlog = &device_of(dispatch, charge)->backlog[charge->request.kind];
    charge->state = DISPATCH_RUNS;
    charge->began_ns = now_ns;
    backlog->running++;
    backlog->began_sum_ns += now_ns;
    backlog->limit_sum_ns += limit_ns(&charge->request);
    pthread_mutex_unlock(&dispatch->lock);
}

void dispatch_return(struct dispatch *dispatch, struct dispatch_charge *const *charges,
                     size_t count)
{
    pthread_mutex_lock(&dispatch->lock);
    for (size_t i = 0; i < count; i++) {
        assert(!charges[i]->on_device || charges[i]->state == DISPATCH_RUNS);
        leave_device(dispatch, charges[i]);
    }
    pthread_mutex_unlock(&dispatch->lock);
}

void dispatch_decoded(struct dispatch *dispatch, struct dispatch_charge *charge)
{
    if (charge->state == DISPATCH_NONE || charge->on_device)
        return;
    pthread_mutex_lock(&dispatch->lock);
    free_heap(dispatch, charge);
    pthread_mutex_unlock(&dispatch->lock);
}

void dispatch_end(struct dispatch *dispatch, struct dispatch_charge *charge)
{
    if (charge->state == DISPATCH_NONE)
        return;
    pthread_mutex_lock(&dispatch->lock);
    release(dispatch, charge);
    pthread_mutex_unlock(&dispatch->lock);
}

/* The number of jobs; if they need more memory than enough, the number of those that need this. */
static int64_t useful_jobs(const struct dispatch_backlog *backlog, int64_t enough)
{
    return backlog->bytes <= enough
               ? backlog->jobs
               : (int64_t)((double)backlog->jobs * (double)enough / (double)backlog->bytes);
}

static int64_t useful_scans(const struct dispatch_device *device)
{
    return useful_jobs(&device->backlog[DISPATCH_PROGRESSIVE],
                       scans_bytes(device, SCANS_EIGHTHS_ENOUGH, SCANS_BYTES_ENOUGH));
}

static int64_t useful_avifs(const struct dispatch_device *device, uint64_t now_ns)
{
    const struct dispatch_backlog *backlog = &device->backlog[DISPATCH_AVIF];
    int64_t useful = useful_jobs(backlog, device->room_bytes / 8 * AVIFS_EIGHTHS_ENOUGH);
    if (stalls(backlog, now_ns))
        return backlog->jobs;
    return useful < INFLIGHT_AVIF ? useful : INFLIGHT_AVIF;
}

static int64_t sequential_most(const struct dispatch *dispatch,
                               const struct dispatch_device *device)
{
    bool fits = 2 * device->bytes <= device->room_bytes;
    bool alone = device->backlog[DISPATCH_PROGRESSIVE].jobs == 0 &&
                 device->backlog[DISPATCH_PNG].jobs == 0 &&
                 device->backlog[DISPATCH_AVIF].jobs == 0 &&
                 4 * dispatch->on_cores <= dispatch->workers;
    return fits && alone ? INFLIGHT_SEQUENTIAL : INFLIGHT_SEQUENTIAL_LEAST;
}

size_t dispatch_ahead(struct dispatch *dispatch, uint64_t now_ns)
{
    int64_t jobs = 0;
    if (dispatch->device_count == 0)
        return 0;
    pthread_mutex_lock(&dispatch->lock);
    for (uint32_t d = 0; d < dispatch->device_count; d++) {
        const struct dispatch_device *device = &dispatch->devices[d];
        int64_t sequential = device->backlog[DISPATCH_SEQUENTIAL].jobs;
        int64_t most = sequential_most(dispatch, device);
        bool all = sequential < most || stalls(&device->backlog[DISPATCH_SEQUENTIAL], now_ns);
        jobs += useful_scans(device) + useful_avifs(device, now_ns) +
                device->backlog[DISPATCH_PNG].jobs + (all ? sequential : most);
    }
    pthread_mutex_unlock(&dispatch->lock);
    return (size_t)jobs;
}

bool dispatch_is_idle(struct dispatch *dispatch)
{
    pthread_mutex_lock(&dispatch->lock);
    bool idle = dispatch->jobs == 0;
    assert(!idle || (dispatch->on_cores == 0 && dispatch->heap_bytes == 0));
    for (uint32_t d = 0; d < dispatch->device_count; d++)
        assert(!idle || dispatch->devices[d].bytes == 0);
    pthread_mutex_unlock(&dispatch->lock);
    return idle;
}
