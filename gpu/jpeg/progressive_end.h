/*
 * progressive_end.h - tells the host that the scans of a progressive JPEG have ended.
 *
 * The images of a launch end one by one, so the host does not wait for the longest of them: it
 * polls a word per image. After it has seen the word, a kernel that it launches sees the
 * coefficients that all blocks of threads have stored.
 */
#pragma once

#include "gpu/jpeg/progressive_impl.h"
#include "gpu/simt/simt.h"

/* Every warp calls this at the end of its scan, even if the image is declined. */
SIMT void end_scan(const struct progressive_image *image)
{
    fence_device();
    warp_barrier();
    if (lane_index() == 0 && image->ended &&
        atomic_add(image->scans_ended, 1) + 1 == image->scan_count)
        publish_to_host(image->ended, 1);
}
