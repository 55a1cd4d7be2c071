"""Runs the Celery recipe with a worker, a real daemon and a real Redis."""
import os
import pathlib
import subprocess

import rig

RECIPES = pathlib.Path(__file__).resolve().parents[2] / "queue/clients/recipes"


def test_celery():
    """the tasks of the Celery recipe: results, failures, a task that is delivered again, a cancel"""
    if not rig.has_module("celery"):
        raise rig.Skip("there is no Celery here (python3-celery)")
    with rig.World() as world:
        world.start_daemon()
        environment = {**os.environ, "REDIS": f"redis://{world.redis.address}/0", "AT": world.redis.address,
                       "PYTHONPATH": f"{RECIPES}:{os.environ.get('PYTHONPATH', '')}",
                       "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore"}
        subprocess.run([rig.PYTHON, "-c", CELERY], env=environment, check=True, timeout=60,
                       cwd=world.folder, stdout=subprocess.DEVNULL)


CELERY = """
import os, subprocess, sys, time
import celery_tasks as recipe
command = [sys.executable, "-m", "celery", "-A", "celery_tasks", "worker", "--pool", "threads",
           "--concurrency", "8", "-l", "critical", "--without-gossip", "--without-mingle", "--without-heartbeat"]
worker = subprocess.Popen(command)
try:
    done = [recipe.thumbnail.delay("a.png", f"celery/{i}.jpg", width=1 + i) for i in range(5)]
    hash = recipe.phash.delay("a.png")
    bad = recipe.thumbnail.delay("no.png", "x.jpg")
    assert [task.get(timeout=30)["width"] for task in done] == list(range(1, 6))
    assert len(hash.get(timeout=30)) == 16
    try:
        bad.get(timeout=30)
    except Exception as error:
        assert "input_missing" in str(error), error
    else:
        raise AssertionError("it did not fail")
    kept = recipe.images.kept_result(f"celery:{done[0].id}")
    again = recipe.thumbnail.apply_async(("a.png", "celery/0.jpg", 1), task_id=done[0].id)
    assert again.get(timeout=30)["width"] == 1
    assert recipe.images.kept_result(f"celery:{done[0].id}").job == kept.job # no second run
    def ctl(command):
        subprocess.run([os.environ["GPUIMGD_BUILD"] + "/gpuimgctl", command, "-c", "/dev/null",
                        "--redis=" + os.environ["AT"]], check=True)
    ctl("pause")
    left = recipe.thumbnail.delay("a.png", "celery/left.jpg")
    server = recipe.images._servers[0]
    end = time.monotonic() + 30
    while not server.llen("gpuimgd:jobs"):
        assert time.monotonic() < end, "it has no job"
        time.sleep(0.05)
    recipe.cancel(left.id)
    ctl("resume")
    try:
        left.get(timeout=30)
    except Exception as error:
        assert "cancelled" in str(error), error
    else:
        raise AssertionError("it was not cancelled")
finally:
    worker.kill()
    worker.wait()
"""


rig.run(globals())
