/* pipeline_impl.h - what the workers' steps may know of the pipeline; none of it changes. */
#ifndef GPUIMGD_DAEMON_PIPELINE_IMPL_H
#define GPUIMGD_DAEMON_PIPELINE_IMPL_H

#include "daemon/pipeline.h"

struct files *pipeline_files(struct pipeline *pipeline);
struct engine *pipeline_engine(struct pipeline *pipeline);

#endif
