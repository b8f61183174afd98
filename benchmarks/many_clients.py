"""Memory of a whole run with 80,000 clients on synthetic text, and the time that grouping them takes.

Random words of a made-up vocabulary of 50,000 stand in for posts. ``flcert run --preset reddit`` then trains the
paper's LSTM for 500 groups; rounds, local steps and test inputs are cut down, because they take time and no memory.
The proportional memory (PSS: shared pages are counted once) of the command and its workers is summed a few times a
second; the largest sum is printed. The trained models take some 20 GB of disk in a temporary directory.

Run it with ``python benchmarks/many_clients.py``; ``--help`` lists the options.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from itertools import islice, product
from pathlib import Path
from string import ascii_lowercase
from time import perf_counter, sleep

import numpy as np
import psutil

from flcert import grouping

TARGET_GIB, TARGET_SECONDS = 4, 2


def write_corpus(directory: Path, num_clients: int, num_words: int) -> None:
    """texts.jsonl with two posts a user, and words.txt."""
    words = ["".join(letters) for letters in islice(product(ascii_lowercase, repeat=4), num_words)]
    (directory / "words.txt").write_text("".join(f"{word}\n" for word in words))
    generator = np.random.default_rng(0)
    with (directory / "texts.jsonl").open("w") as file:
        for post in range(2 * num_clients):
            chosen = generator.zipf(1.3, size=generator.integers(10, 40)) % num_words
            text = " ".join(words[word] for word in chosen)
            file.write(json.dumps({"user": f"user{post % num_clients:06d}", "text": text}) + "\n")


def memory_of(process: psutil.Process) -> int:
    """Proportional memory of a process and all its children, in bytes."""
    total = 0
    for one in [process, *process.children(recursive=True)]:
        try:
            total += one.memory_full_info().pss
        except psutil.Error:  # it has just ended
            continue
    return total


def peak_of_run(directory: Path, options: list[str]) -> int:
    """Run flcert on the corpus and return the largest memory seen."""
    command = ["flcert", "run", "--preset", "reddit", "--out", str(directory / "run"), *options]
    settings = {
        "data.options.path": directory / "texts.jsonl",
        "data.options.vocabulary": directory / "words.txt",
        "data.options.num_test": 500,
        "recipe.local_steps": 1,
    }
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    environment = {**os.environ, "FLCERT_CACHE": str(directory / "cache")}
    peak = 0
    with subprocess.Popen(command, env=environment, stdout=sys.stderr) as child:
        process = psutil.Process(child.pid)
        while child.poll() is None:
            peak = max(peak, memory_of(process))
            sleep(0.2)
    if child.returncode:
        raise SystemExit(f"flcert run failed with exit code {child.returncode}")
    return peak


def print_grouping(num_clients: int) -> None:
    """Time both ways to group the clients."""
    ids = [f"user{position:06d}" for position in range(num_clients)]
    ways = {"hashed": (grouping.hashed, (500,)), "sampled": (grouping.sampled, (500, num_clients // 500))}
    for name, (function, options) in ways.items():
        start = perf_counter()
        function(ids, *options)
        print(f"grouping {num_clients:,} clients, {name}: {perf_counter() - start:.2f} s (target {TARGET_SECONDS})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=80_000)
    parser.add_argument("--groups", type=int, default=500)
    parser.add_argument("--words", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=1)
    chosen = parser.parse_args()
    print_grouping(chosen.clients)
    with tempfile.TemporaryDirectory(prefix="flcert-benchmark-") as name:
        write_corpus(Path(name), chosen.clients, chosen.words)
        options = ["--groups", str(chosen.groups), "--rounds", str(chosen.rounds)]
        options += ["--set", f"data.options.num_words={chosen.words}"]
        peak = peak_of_run(Path(name), options)
    print(f"largest memory of a run with {chosen.clients:,} clients: {peak / 2**30:.2f} GiB (target {TARGET_GIB})")


if __name__ == "__main__":
    main()
