#!/usr/bin/env python3
"""Trains a small model on the tensors of shards.py: a loop to start from.

    train.py FOLDER [EPOCHS]

FOLDER has tars of .npy (float16, CHW) and .cls (the number of the class). Samples without one of them
are left out: shards.py leaves out images that failed. Needs PyTorch, and WebDataset or only
tarfile. Prints samples and the mean loss of each epoch. Exit status: 0, also without PyTorch; 1 if
there is no sample; 64 usage."""
import io
import itertools
import pathlib
import sys
import tarfile

try:
    import numpy
    import torch
except ImportError:
    torch = None
try:
    import webdataset
except ImportError:
    webdataset = None

BATCH = 64


def read_tars(paths):
    """Yields samples as WebDataset groups them: members that follow each other and have the same
    name up to the first dot of the last component."""
    for path in paths:
        with tarfile.open(path) as tar:
            members = (member for member in tar if member.isfile())
            for key, group in itertools.groupby(members, key_of):
                sample = {"__key__": key}
                for member in group:
                    suffix = member.name[len(key) + 1:].lower()
                    sample[suffix] = tar.extractfile(member).read()
                yield sample


def key_of(member):
    folder, slash, name = member.name.rpartition("/")
    return folder + slash + name.partition(".")[0]


def samples(paths):
    """Yields tensor and class of each sample that has both."""
    if webdataset:
        stream = webdataset.WebDataset([str(path) for path in paths], shardshuffle=False)
    else:
        stream = read_tars(paths)
    for sample in stream:
        if "npy" in sample and "cls" in sample:
            pixels = numpy.load(io.BytesIO(sample["npy"]))
            yield torch.from_numpy(pixels), int(sample["cls"])


def batches(stream):
    while chunk := list(itertools.islice(stream, BATCH)):
        pixels, classes = zip(*chunk)
        yield torch.stack(pixels).float(), torch.tensor(classes)


def make_model(classes):
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(3, 16, 7, stride=4), nn.ReLU(), nn.Conv2d(16, 32, 5, stride=4),
                         nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, classes))


def train(paths, epochs):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    count = 1 + max((label for _, label in samples(paths)), default=-1)
    if count == 0:
        print("no sample has both .npy and .cls", file=sys.stderr)
        return 1
    torch.manual_seed(1)
    model = make_model(count).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(epochs):
        seen, sum_of_losses = 0, 0.0
        for pixels, labels in batches(samples(paths)):
            logits = model(pixels.to(device))
            loss = torch.nn.functional.cross_entropy(logits, labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen, sum_of_losses = seen + len(labels), sum_of_losses + loss.item() * len(labels)
        print(f"epoch {epoch}: {seen} samples, loss {sum_of_losses / seen:.4f}")
    return 0


def main():
    epochs = sys.argv[2] if len(sys.argv) > 2 else "3"
    if not 2 <= len(sys.argv) <= 3 or not epochs.isdecimal():
        print(__doc__, file=sys.stderr)
        return 64
    if torch is None:
        print("no training: PyTorch is not installed here")
        return 0
    return train(sorted(pathlib.Path(sys.argv[1]).glob("*.tar")), int(epochs))


if __name__ == "__main__":
    sys.exit(main())
