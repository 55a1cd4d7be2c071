#include "tests/bench/bench_device.h"

#include <algorithm>

#include "gpu/cuda/try.h"
#include "gpu/engine/engine.h"
#include "gpu/plan/pass.h"

#define RATE_BYTES ((size_t)256 << 20)
#define RATE_REPEATS 8
/* More than ten times the L2 cache of an H200 (50 MB). */
#define ROTATED_BYTES ((size_t)576 << 20)
#define SETS_MAX 64
#define ROUNDS 15
/* Streams that take turns, as in the daemon. */
#define LANES 4u

#define OR_FAIL(call)                                                                              \
    do {                                                                                           \
        if (CUDA_TRY(call) != cudaSuccess)                                                         \
            return -1;                                                                             \
    } while (0)

/* Runs on `sets` adjacent sets of the plan's buffers, with the input at the start of the set.
 * Returns 0, or a negative number. */
typedef int bench_launch(const struct plan *plan, uint8_t *base, size_t set_bytes, size_t sets,
                         void *context, cudaStream_t stream);

/* Streams, events and buffers of one measurement. The destructor frees them on every path. */
struct rig {
    cudaStream_t streams[2 + LANES] = {};
    cudaStream_t &up = streams[0], &down = streams[1], *lanes = streams + 2;
    cudaEvent_t events[5] = {};
    cudaEvent_t &start = events[0], &up_end = events[1], &down_end = events[2], &end = events[3],
                &lane_end = events[4];
    uint8_t *device[2] = {}, *host[2] = {};

    ~rig()
    {
        for (int i = 0; i < 2; i++) {
            (void)cudaFree(device[i]);
            (void)cudaFreeHost(host[i]);
        }
        for (cudaEvent_t event : events)
            if (event)
                (void)cudaEventDestroy(event);
        for (cudaStream_t stream : streams)
            if (stream)
                (void)cudaStreamDestroy(stream);
    }
};

static int rig_open(rig *r, size_t device_bytes, size_t in_bytes, size_t out_bytes)
{
    for (cudaStream_t &stream : r->streams)
        OR_FAIL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (cudaEvent_t &event : r->events)
        OR_FAIL(cudaEventCreate(&event));
    for (int i = 0; i < 2; i++) {
        size_t host_bytes = i == 0 ? in_bytes : out_bytes;
        OR_FAIL(cudaMalloc(&r->device[i], device_bytes));
        if (host_bytes) {
            OR_FAIL(cudaHostAlloc(&r->host[i], host_bytes, cudaHostAllocDefault));
            for (size_t at = 0; at < host_bytes; at++)
                r->host[i][at] = (uint8_t)(at * 2654435761u >> 13);
        }
    }
    return 0;
}

/* Returns the seconds for `count` copies in each direction; both directions start together. A
 * direction of 0 bytes is left out. */
static double copies_s(rig *r, size_t in_bytes, size_t out_bytes, unsigned count)
{
    float up_ms = 0, down_ms = 0;
    OR_FAIL(cudaEventRecord(r->start, r->up));
    OR_FAIL(cudaStreamWaitEvent(r->down, r->start, 0));
    for (unsigned i = 0; i < count; i++) {
        if (in_bytes)
            OR_FAIL(cudaMemcpyAsync(r->device[0], r->host[0], in_bytes, cudaMemcpyHostToDevice,
                                    r->up));
        if (out_bytes)
            OR_FAIL(cudaMemcpyAsync(r->host[1], r->device[1], out_bytes, cudaMemcpyDeviceToHost,
                                    r->down));
    }
    OR_FAIL(cudaEventRecord(r->up_end, r->up));
    OR_FAIL(cudaEventRecord(r->down_end, r->down));
    OR_FAIL(cudaStreamSynchronize(r->up));
    OR_FAIL(cudaStreamSynchronize(r->down));
    OR_FAIL(cudaEventElapsedTime(&up_ms, r->start, r->up_end));
    OR_FAIL(cudaEventElapsedTime(&down_ms, r->start, r->down_end));
    return (double)std::max(up_ms, down_ms) * 1e-3;
}

static double device_copy_s(rig *r)
{
    float ms = 0;
    OR_FAIL(cudaEventRecord(r->start, r->up));
    for (int i = 0; i < RATE_REPEATS; i++)
        OR_FAIL(cudaMemcpyAsync(r->device[1], r->device[0], RATE_BYTES, cudaMemcpyDeviceToDevice,
                                r->up));
    OR_FAIL(cudaEventRecord(r->end, r->up));
    OR_FAIL(cudaStreamSynchronize(r->up));
    OR_FAIL(cudaEventElapsedTime(&ms, r->start, r->end));
    return (double)ms * 1e-3;
}

extern "C" int bench_device_rates(struct device_rates *rates)
{
    rig r;
    double gb = (double)RATE_BYTES * RATE_REPEATS * 1e-9, up_s = 0, down_s = 0, both_s = 0;
    double copy_s = 0;
    if (rig_open(&r, RATE_BYTES, RATE_BYTES, RATE_BYTES) < 0)
        return -1;
    for (int warm = 0; warm < 2; warm++) {
        up_s = copies_s(&r, RATE_BYTES, 0, RATE_REPEATS);
        down_s = copies_s(&r, 0, RATE_BYTES, RATE_REPEATS);
        both_s = copies_s(&r, RATE_BYTES, RATE_BYTES, RATE_REPEATS);
        copy_s = device_copy_s(&r);
        if (up_s < 0 || down_s < 0 || both_s < 0 || copy_s < 0)
            return -1;
    }
    rates->h2d = gb / up_s;
    rates->d2h = gb / down_s;
    rates->both = gb / both_s;
    rates->copy = 2 * gb / copy_s;
    return 0;
}

extern "C" double bench_copies_s(size_t in_bytes, size_t out_bytes, unsigned jobs)
{
    rig r;
    if (rig_open(&r, std::max(in_bytes, out_bytes), in_bytes, out_bytes) < 0 ||
        copies_s(&r, in_bytes, out_bytes, 3) < 0)
        return -1;
    return copies_s(&r, in_bytes, out_bytes, jobs);
}

static pass_call call_of(const struct plan *plan, const pass_buffers *buffers,
                         const struct pass *planned, struct pass *bound)
{
    const struct pass *pass = pass_bind(planned, plan, buffers, bound);
    return {pass, pass_from(pass, buffers), pass_to(pass, buffers),
            pass_address(buffers, pass->work_place)};
}

static pass_buffers buffers_of(const struct plan *plan, uint8_t *base)
{
    pass_buffers buffers;
    buffers.input = base;
    buffers.output = buffers.input + buffer_align(plan->input_bytes);
    buffers.scratch = buffers.output + buffer_align(plan->output_bytes);
    return buffers;
}

/* Launches joint passes `p` of all variants of `sets` jobs, which have the same type in benchmarks.
 * Returns their number, or a negative number. */
static int launch_joint(const struct plan *plan, uint8_t *base, size_t set_bytes, size_t sets,
                        uint32_t p, cudaStream_t stream)
{
    struct pass bound[PASSES_SHARED_MAX];
    pass_call calls[PASSES_SHARED_MAX];
    uint32_t count = 0;
    for (size_t s = 0; s < sets; s++) {
        pass_buffers buffers = buffers_of(plan, base + s * set_bytes);
        for (uint32_t v = 0; v < plan->variant_count; v++) {
            const struct plan_variant *variant = &plan->variants[v];
            if (p >= variant->joint)
                continue;
            calls[count] =
                call_of(plan, &buffers, &variant->passes[variant->early + p], &bound[count]);
            count++;
        }
    }
    if (count > 0)
        OR_FAIL((cudaError_t)calls[0].pass->type->cuda_many(calls, count, stream));
    return (int)count;
}

/* Launches the passes of a phase of one job. */
static int launch_phase(const struct plan *plan, uint8_t *base, plan_phase phase,
                        cudaStream_t stream)
{
    pass_buffers buffers = buffers_of(plan, base);
    for (uint32_t v = 0; v < plan->variant_count; v++) {
        const struct plan_variant *variant = &plan->variants[v];
        for (uint32_t p = phase_begin(variant, phase); p < phase_end(variant, phase); p++) {
            struct pass bound;
            if (!pass_runs(&variant->passes[p]))
                continue;
            pass_call call = call_of(plan, &buffers, &variant->passes[p], &bound);
            OR_FAIL((cudaError_t)pass_launch(&call, stream));
        }
    }
    return 0;
}

/* The bytes of the result of joint pass `p`; 0: there is none. */
static size_t joint_bytes(const struct plan_variant *variant, uint32_t p)
{
    return p < variant->joint ? variant->passes[variant->early + p].to_bytes : 0;
}

/* How many jobs share launches, as in cuda_batch.c. */
static size_t sets_shared(const struct plan *plan)
{
    static_assert(JOB_OUTPUTS_MAX <= PASSES_SHARED_MAX, "one launch for all variants");
    size_t most = 1, bytes = 1;
    for (uint32_t p = 0; bytes > 0; p++) {
        most = std::max(most, bytes);
        bytes = 0;
        for (uint32_t v = 0; v < plan->variant_count; v++)
            bytes += joint_bytes(&plan->variants[v], p);
    }
    size_t by_passes = PASSES_SHARED_MAX / plan->variant_count;
    return std::max(std::min(PASSES_SHARED_BYTES / most, by_passes), (size_t)1);
}

static int launch_shared(const struct plan *plan, uint8_t *base, size_t set_bytes, size_t sets,
                         cudaStream_t stream)
{
    size_t shared = sets_shared(plan);
    for (size_t s = 0; s < sets; s += shared) {
        int count = 1;
        for (uint32_t p = 0; count > 0; p++)
            count = launch_joint(plan, base + s * set_bytes, set_bytes, std::min(shared, sets - s),
                                 p, stream);
        if (count < 0)
            return -1;
    }
    return 0;
}

static int launch_passes(const struct plan *plan, uint8_t *base, size_t set_bytes, size_t sets,
                         void *context, cudaStream_t stream)
{
    (void)context;
    for (size_t s = 0; s < sets; s++)
        if (launch_phase(plan, base + s * set_bytes, PHASE_EARLY, stream) < 0)
            return -1;
    if (launch_shared(plan, base, set_bytes, sets, stream) < 0)
        return -1;
    for (size_t s = 0; s < sets; s++)
        if (launch_phase(plan, base + s * set_bytes, PHASE_REST, stream) < 0)
            return -1;
    return 0;
}

/* Several sets of buffers, and how they are used. */
struct rounds {
    const struct plan *plan;
    size_t set_bytes, sets;
    size_t batch; /* sets per call of `launch` */
    bool lanes;
    bench_launch *launch;
    void *context;
};

/* Runs one round between the events start and end on r->up. Its launches run there or, with
 * `lanes`, on all lanes in turn. */
static int run_round(rig *r, const rounds *own)
{
    OR_FAIL(cudaEventRecord(r->start, r->up));
    for (unsigned i = 0; own->lanes && i < LANES; i++)
        OR_FAIL(cudaStreamWaitEvent(r->lanes[i], r->start, 0));
    for (size_t s = 0; s < own->sets; s += own->batch)
        if (own->launch(own->plan, r->device[0] + s * own->set_bytes, own->set_bytes,
                        std::min(own->batch, own->sets - s), own->context,
                        own->lanes ? r->lanes[s / own->batch % LANES] : r->up) < 0)
            return -1;
    for (unsigned i = 0; own->lanes && i < LANES; i++) {
        OR_FAIL(cudaEventRecord(r->lane_end, r->lanes[i]));
        OR_FAIL(cudaStreamWaitEvent(r->up, r->lane_end, 0));
    }
    OR_FAIL(cudaEventRecord(r->end, r->up));
    return 0;
}

/* Returns the seconds per set: the median of rounds over all sets. */
static double rounds_s(rig *r, const rounds *own)
{
    double times_s[ROUNDS];
    for (int round = -2; round < ROUNDS; round++) {
        float ms = 0;
        if (run_round(r, own) < 0)
            return -1;
        OR_FAIL(cudaStreamSynchronize(r->up));
        OR_FAIL(cudaEventElapsedTime(&ms, r->start, r->end));
        if (round >= 0)
            times_s[round] = (double)ms * 1e-3 / (double)own->sets;
    }
    std::sort(times_s, times_s + ROUNDS);
    return times_s[ROUNDS / 2];
}

static size_t sets_of(size_t set_bytes)
{
    return std::min((ROTATED_BYTES + set_bytes - 1) / set_bytes, (size_t)SETS_MAX);
}

static int launch_copy(const struct plan *plan, uint8_t *base, size_t set_bytes, size_t sets,
                       void *context, cudaStream_t stream)
{
    size_t bytes = *static_cast<const size_t *>(context);
    (void)plan, (void)set_bytes, (void)sets;
    OR_FAIL(cudaMemcpyAsync(base + buffer_align(bytes), base, bytes, cudaMemcpyDeviceToDevice,
                            stream));
    return 0;
}

extern "C" double bench_device_copy_s(size_t bytes, bool lanes)
{
    rig r;
    size_t set_bytes = 2 * buffer_align(bytes), sets = sets_of(set_bytes);
    if (rig_open(&r, sets * set_bytes, 0, 0) < 0)
        return -1;
    rounds own = {NULL, set_bytes, sets, 1, lanes, launch_copy, &bytes};
    return rounds_s(&r, &own);
}

static double batches_s(const struct plan *plan, const uint8_t *pixels, size_t batch, bool lanes)
{
    rig r;
    size_t set_bytes = buffer_align(plan->device_bytes);
    size_t sets = (sets_of(set_bytes) + batch - 1) / batch * batch;
    if (rig_open(&r, sets * set_bytes, plan->input_bytes, 0) < 0)
        return -1;
    plan_put_constants(plan, r.host[0]);
    for (size_t s = 0; s < sets; s++)
        OR_FAIL(cudaMemcpy(r.device[0] + s * set_bytes, pixels ? pixels : r.host[0],
                           plan->input_bytes, cudaMemcpyHostToDevice));
    rounds own = {plan, set_bytes, sets, batch, lanes, launch_passes, NULL};
    return rounds_s(&r, &own);
}

extern "C" double bench_kernels_s(const struct plan *plan, const uint8_t *pixels, bool lanes)
{
    return batches_s(plan, pixels, 1, lanes);
}

extern "C" double bench_batches_s(const struct plan *plan, unsigned jobs, bool lanes)
{
    return batches_s(plan, NULL, jobs, lanes);
}
