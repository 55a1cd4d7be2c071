"""What limits sets.py on this host: the speed of files in memory, of PCIe and of the codecs."""
import json
import multiprocessing
import os
import subprocess
import time

BLOCK = 1 << 20
FLOOR_S, FLOOR_TURNS = 0.7, 2 # the faster one counts


def use_files(folder, number, size, barrier, speeds):
    """Writes and reads a file, at the same time as the other processes."""
    path, block = os.path.join(folder, f"speed-{number}"), memoryview(bytearray(os.urandom(BLOCK)))
    barrier.wait()
    start = time.monotonic()
    with open(path, "wb", buffering=0) as file:
        for _ in range(size // BLOCK):
            file.write(block)
    barrier.wait()
    middle = time.monotonic()
    with open(path, "rb", buffering=0) as file:
        while file.readinto(block):
            pass
    barrier.wait()
    speeds[2 * number], speeds[2 * number + 1] = middle - start, time.monotonic() - middle
    os.unlink(path)


def file_speeds(folder, processes, size):
    """Returns bytes per second that all processes write together, and that they read."""
    context = multiprocessing.get_context("fork")
    barrier, speeds = context.Barrier(processes), context.Array("d", 2 * processes)
    running = [context.Process(target=use_files, args=(folder, number, size, barrier, speeds))
               for number in range(processes)]
    for each in running:
        each.start()
    for each in running:
        each.join()
    total = size * processes
    return total / max(speeds[0::2]), total / max(speeds[1::2])


def floor_speed(build, threads, ops, folder, files):
    """Returns images per second of the codecs alone, on all CPUs: no files are written."""
    command = [f"{build}/tests/bench/bench_floor", "--threads", str(threads), "--ops",
               json.dumps(ops), "--folder", folder]
    with subprocess.Popen(command + files, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as program:
        if program.stdout.readline() != "ready\n":
            return None
        repeats, walls = 1, []
        for _ in range(8):
            program.stdin.write(f"{repeats}\n")
            program.stdin.flush()
            words = program.stdout.readline().split()
            if len(words) != 2:
                return None
            wall = float(words[0])
            if wall > 0.7 * FLOOR_S:
                walls.append(wall)
                if len(walls) == FLOOR_TURNS:
                    break
            else:
                repeats = max(repeats + 1, round(repeats * min(8, FLOOR_S / wall)))
                walls.clear()
        program.stdin.close()
        return len(files) * repeats / min(walls or [wall])


class Bounds:
    """Images per second that each part allows. A row's bound is the least of its parts."""

    def __init__(self, options, folder):
        size = (16 if options.quick else 256) * BLOCK
        self.options, self.folder, self.floors = options, folder, {}
        self.write, self.read = file_speeds(folder, options.threads, size)

    def floor(self, work):
        key = json.dumps([work.kind.name, work.ops])
        if key not in self.floors:
            files = [work.kind.file(i) for i in range(min(64, work.kind.count))]
            self.floors[key] = floor_speed(self.options.build, self.options.threads, work.ops,
                                           self.folder, files)
        return self.floors[key]

    def of(self, work, on_device):
        """Returns the parts by name, for a work of which `out_bytes` per image are known."""
        kind = work.kind
        parts = {"tmpfs": 1 / (kind.bytes / self.read + work.out_bytes / self.write)}
        if on_device:
            parts["PCIe"] = self.options.pcie * 1e9 / max(kind.bytes, work.out_bytes)
            parts["codec"] = self.options.codec * 256 * 256 / kind.pixels
        else:
            parts["CPU codecs"] = self.floor(work)
        return {name: value for name, value in parts.items() if value}
