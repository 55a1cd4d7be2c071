"""Celery tasks whose images gpuimgd makes. Needs the Python package gpuimgd and Celery with the
libraries for Redis (celery[redis]).

    celery -A celery_tasks worker --pool threads --concurrency 64

A task only waits, so many threads fit one worker. The id of the job is that of the task, and the job
is unique: if Celery delivers a task again because its worker died, the image is not made twice.
REDIS is the URL of the Redis of Celery and of gpuimgd."""
import os

import redis
from celery import Celery
from gpuimgd import Client, Job, JobDead, JobError, ops

URL = os.environ.get("REDIS", "redis://127.0.0.1:6379/0")
app = Celery("images", broker=URL, backend=URL)
# A task of a worker that died is delivered again after visibility_timeout; a task must not wait longer.
app.conf.update(task_acks_late=True, task_reject_on_worker_lost=True, worker_prefetch_multiplier=1,
                broker_transport_options={"visibility_timeout": 900})
images = Client(redis.Redis.from_url(URL))


class ImageFailed(Exception):
    """No retry helps; the text says why."""


def run(task, job):
    """Runs the job of a task. A dead job and a lost Redis are tried again, a failed job is not."""
    try:
        return images.run(job, timeout=600).raise_for_status()
    except (JobDead, redis.exceptions.ConnectionError) as error:
        raise task.retry(exc=ImageFailed(str(error)), countdown=5 * 2 ** task.request.retries)
    except JobError as error:
        raise ImageFailed(str(error)) from None


@app.task(bind=True, max_retries=5)
def thumbnail(self, source, target, width=320):
    """Makes a thumbnail; returns what other tasks of a chain need."""
    result = run(self, Job(source, target, [ops.resize(width=width)], id=f"celery:{self.request.id}",
                           unique=True))
    output = result.outputs[0]
    return {"path": output.path, "width": output.width, "height": output.height}


@app.task(bind=True, max_retries=5)
def phash(self, source):
    """A perceptual hash; no image is written."""
    result = run(self, Job(source, ops=["phash"], id=f"celery:{self.request.id}", unique=True))
    return result.outputs[0].values["phash"]


def cancel(id):
    """Cancels a task and its job. To revoke it alone would leave the job: a thread cannot be
    terminated. A task that waits for its job fails with ImageFailed."""
    app.control.revoke(id)
    images.cancel(f"celery:{id}")
