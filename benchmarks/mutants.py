"""Mutation testing of certify/: which of mutmut's changes the tests of theory notice.

mutmut makes the changes, as ``[tool.mutmut]`` in ``pyproject.toml`` says, and mypy refuses some. ``mutmut run`` would
collect the tests anew for each of the others. This collects them once and forks for each change: the tests that reach
the changed function run one after the other until one fails: new tests, those that noticed most so far, the quickest.
After ``--seconds`` of processor time no further test starts, and the change has survived. A test that takes five times
as long as without a change, and four seconds more, has noticed it. All tests must pass first without a change.

Run it with ``nice python benchmarks/mutants.py``, from the root of the repository and with mutmut installed; names of
files (``sampled confidence``) say where to begin and end. Everything is kept in ``mutants/``, so a second call goes on
where the first one stopped: delete that directory when the code has changed. New tests are found, and ``--again`` runs
the survivors once more. At the end come the table of CONTRIBUTING and the survivors, which ``--report`` only prints.
"""

import argparse
import gc
import json
import os
import resource
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from io import StringIO
from math import ceil
from pathlib import Path
from time import process_time, time

import pytest
from hypothesis import Phase, settings
from mutmut.__main__ import create_mutants
from mutmut.configuration import config
from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.mutation.file_mutation import filter_mutants_with_type_checker
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.state import state
from mutmut.utils.file_utils import copy_also_copy_files, copy_src_dir, setup_source_paths

PLACE = Path("mutants").absolute()
REFUSED, PASSED, RESULTS = PLACE / "refused.json", PLACE / "passed.json", PLACE / "results.jsonl"
PYTEST = ["--rootdir=.", "-q", "-n0", "--noconftest", "--assert=plain", "-pno:cacheprovider", "-pno:timeout"]
MARKS = ["-o", "addopts=-m 'not slow and not deploy'"]
COLUMNS = ("killed", "survived", "not run")


def file_of(mutant: str) -> str:
    return mutant.split(".")[2]


def function_of(mutant: str) -> str:
    return mutant.partition("__mutmut_")[0]


def mutants() -> dict[str, list[str]]:
    """The names of the changes, by file."""
    made = {}
    for path in sorted(Path("src/flcert/certify").glob("*.py")):
        data = SourceFileMutationData(path=path)
        data.load()
        made[path.stem] = list(data.exit_code_by_key)
    return {name: found for name, found in made.items() if found}


def prepare() -> None:
    """Write the changed sources and the tests to ``mutants/``, and ask mypy about the changes."""
    PLACE.mkdir(exist_ok=True)
    set_mutant_under_test("mutant_generation")
    with redirect_stdout(StringIO()):
        copy_src_dir()
        copy_also_copy_files()
        setup_source_paths()
        create_mutants(1)
    if not REFUSED.exists():
        print("mypy looks at the changes", flush=True)
        REFUSED.write_text(json.dumps(sorted(filter_mutants_with_type_checker())))


def results() -> dict[str, tuple[str, str]]:
    """What became of each change, and the test that noticed it or how many tests did not."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {mutant: (outcome, how) for mutant, outcome, how in map(json.loads, lines)}


def in_child(act: Callable[[int], None]) -> tuple[int, str]:
    """Call ``act`` in a fork, with a pipe to write to: its exit code, below zero for a signal, and what it wrote."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            act(writes)
            code = 0
        finally:
            os._exit(code)
    os.close(writes)
    with os.fdopen(reads) as pipe:
        said = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


def passes(test: pytest.Function, following: pytest.Function | None) -> bool:
    """Whether a test passes; fixtures that the following one shares are kept."""
    held = test.session._setupstate
    try:
        test._initrequest()
        held.setup(test)
        test.runtest()
        held.teardown_exact(following)
    except pytest.skip.Exception:
        held.teardown_exact(following)
    except BaseException:
        return False
    return True


class Loop:
    """Takes the place of pytest's loop over the tests that it has collected."""

    def __init__(self, todo: Sequence[str], seconds: float):
        self.todo, self.seconds = todo, seconds
        self.kills: Counter[tuple[str, str]] = Counter()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Judge the changes instead."""
        self.tests = {item.nodeid: item for item in session.items}
        gc.freeze()
        self.learn()
        for mutant, (_, name) in results().items():
            if name in self.tests:
                self.remember(mutant, name)
        begin = time()
        with RESULTS.open("a") as log:
            for done, mutant in enumerate(self.todo, 1):
                outcome, how = self.judge(mutant)
                log.write(json.dumps((mutant, outcome, how)) + "\n")
                log.flush()
                if outcome != "killed" or done % 20 == 0:
                    print(f"{done} of {len(self.todo)}, {time() - begin:.0f} s: {mutant} {outcome}, {how}", flush=True)
        return True

    def learn(self) -> None:
        """Run the tests without a change, and note the time of each and the functions that it reaches."""
        known = json.loads(PASSED.read_text()) if PASSED.exists() else {}
        new = [test for name, test in self.tests.items() if name not in known]
        self.new = {test.nodeid for test in new}

        def run(pipe: int) -> None:
            set_mutant_under_test("stats")
            learned = {}
            for test, following in zip(new, [*new[1:], None], strict=True):
                state()._stats.clear()
                begin = process_time()
                if not passes(test, following):
                    os.write(pipe, test.nodeid.encode())
                    raise AssertionError(test.nodeid)
                learned[test.nodeid] = [process_time() - begin, sorted(state()._stats)]
            PASSED.write_text(json.dumps(known | learned))

        if new:
            print(f"{len(new)} tests without a change", flush=True)
            code, said = in_child(run)
            if code:
                sys.exit(f"fails without a change: {said or code}")
        learned = {name: what for name, what in json.loads(PASSED.read_text()).items() if name in self.tests}
        self.duration = {name: duration for name, (duration, _) in learned.items()}
        self.reach: dict[str, list[str]] = {}
        for name, (_, functions) in learned.items():
            for function in functions:
                self.reach.setdefault(function, []).append(name)

    def order(self, mutant: str) -> list[str]:
        """The tests that reach the changed function: new ones, what kills quickest, one of each test's parameters."""
        turn: Counter[str] = Counter()
        keys = {}
        for name in sorted(self.reach.get(function_of(mutant), ()), key=self.duration.__getitem__):
            written = name.partition("[")[0]
            kills = 4 * self.kills[function_of(mutant), name] + self.kills[file_of(mutant), name]
            speed = kills / (0.05 + self.duration[name])
            keys[name] = (name not in self.new, -speed, turn[written], self.duration[name])
            turn[written] += 1
        return sorted(keys, key=keys.__getitem__)

    def judge(self, mutant: str) -> tuple[str, str]:
        """Whether a test notices the change, and which."""
        names = self.order(mutant)

        def run(pipe: int) -> None:
            set_mutant_under_test(mutant)
            for number, (name, following) in enumerate(zip(names, [*names[1:], None], strict=True)):
                if process_time() > self.seconds:  # a fork's clock begins at zero
                    os.write(pipe, f"{number} of {len(names)} tests".encode())
                    return
                limit = ceil(process_time() + 4 + 5 * self.duration[name])
                resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
                if not passes(self.tests[name], self.tests[following] if following else None):
                    os.write(pipe, name.encode())
                    os._exit(1)

        code, said = in_child(run)
        if code == 0:
            return "survived", said or f"{len(names)} tests"
        if code < 0:
            return "killed", f"stopped by signal {-code}"
        self.remember(mutant, said)
        return "killed", said

    def remember(self, mutant: str, name: str) -> None:
        """Count what a test has noticed, to begin with it at the next change nearby."""
        if name not in self.tests:
            raise RuntimeError(f"{mutant}: {name}")
        self.kills[function_of(mutant), name] += 1
        self.kills[file_of(mutant), name] += 1


def report(files: Iterable[str], made: dict[str, list[str]]) -> None:
    """The survivors with what was changed, and the table."""
    refused, found = set(json.loads(REFUSED.read_text())), results()
    rows = []
    for name in files:
        outcomes = Counter(found.get(mutant, ("not run",))[0] for mutant in made[name] if mutant not in refused)
        rows.append([name, sum(mutant in refused for mutant in made[name]), *map(outcomes.get, COLUMNS, (0,) * 3)])
        for mutant in made[name]:
            if mutant not in refused and found.get(mutant, ("",))[0] == "survived":
                print(f"\n{mutant}, {found[mutant][1]}")
                changed = get_diff_for_mutant(mutant).splitlines()[2:]
                print("\n".join(line for line in changed if line[0] in "+-"))
    rows.append(["together", *(sum(row[column] for row in rows) for column in range(1, 5))])
    print("\n| file | refused by mypy | killed | survived | not run |\n|---|---|---|---|---|")
    print("\n".join(f"| {' | '.join(map(str, row))} |" for row in rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", help="files of certify/, without .py; all if there are none")
    parser.add_argument("--seconds", type=float, default=5, help="processor time for the tests of a change (default 5)")
    parser.add_argument("--again", action="store_true", help="run the survivors once more")
    parser.add_argument("--report", action="store_true", help="only print what is known")
    options = parser.parse_args()
    if not options.report:
        prepare()
    made = mutants()
    files = options.files or list(made)
    if not options.report:
        known, refused = results(), set(json.loads(REFUSED.read_text()))
        again = {mutant for mutant, (outcome, _) in known.items() if options.again and outcome == "survived"}
        todo = [m for name in files for m in made[name] if m not in refused and (m not in known or m in again)]
        # no shrinking, which takes longer than failing, and the same examples in every run
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", deadline=None, database=None, derandomize=True, phases=phases)
        settings.load_profile("mutants")
        here = Path.cwd()
        os.chdir(PLACE)
        selection = config().pytest_add_cli_args_test_selection
        pytest.main([*PYTEST, *MARKS, *selection], plugins=[Loop(todo, options.seconds)])
        os.chdir(here)
    report(files, made)


if __name__ == "__main__":
    main()
