"""Files of a folder that clients made: bounded, never unpickled, and on demand left out one by one."""

import io
import os
import re
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest

from flcert import datasets
from flcert.datasets import Federation
from flcert.errors import InputError
from flcert.grouping import settings_from

GOOD = {"inputs": np.arange(12, dtype=np.float32).reshape(3, 4), "labels": np.array([0, 1, 2])}
USERS = tuple("abcdef")


def packed(**arrays):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "data"
    (path / "clients").mkdir(parents=True)
    for user in USERS:
        (path / "clients" / f"{user}.npz").write_bytes(packed(**GOOD))
    (path / "test.npz").write_bytes(packed(**GOOD))
    return path


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def zipped(members, compression=zipfile.ZIP_DEFLATED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def claiming(shape, dtype="<f4"):
    """An npy file whose header tells another shape or type than its content has."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": dtype, "fortran_order": False, "shape": shape})
    return buffer.getvalue() + GOOD["inputs"].tobytes()


def broken_deflate():
    content = bytearray(packed(**GOOD))
    start = content.find(b"inputs.npy") + 35
    content[start : start + 20] = b"\xff" * 20
    return bytes(content)


LABELS = npy(GOOD["labels"])
BAD = {
    "NaN": (packed(inputs=GOOD["inputs"] * np.nan, labels=GOOD["labels"]), "finite inputs, got NaN or infinity in row"),
    "a label": (packed(inputs=GOOD["inputs"], labels=np.array([0, 1, 7])), r"must have labels in \[0, 2\], got 7"),
    "shape": (packed(inputs=np.ones((3, 5), np.float32), labels=GOOD["labels"]), r"inputs of shape \(5,\)"),
    "dtype": (packed(inputs=np.ones((3, 4), int), labels=GOOD["labels"]), "inputs of dtype int64"),
    "float labels": (packed(inputs=GOOD["inputs"], labels=np.ones(3)), "integer labels, got dtype float64"),
    "time spans": (
        packed(inputs=GOOD["inputs"], labels=GOOD["labels"].astype("m8[s]")),
        "integer labels, got dtype time",
    ),
    "not a time": (packed(inputs=GOOD["inputs"], labels=np.full(3, "NaT", "m8[s]")), "integer labels, got dtype time"),
    "many arrays": (zipped({f"{n}.npy": LABELS for n in range(70)}), "it may hold at most 64 arrays"),
    "no rows": (packed(inputs=GOOD["inputs"][:0], labels=GOOD["labels"][:0]), "has no examples"),
    "too large numbers": (packed(inputs=np.full((3, 4), 1e300), labels=GOOD["labels"]), "fit into float32, got 1e"),
    "no labels": (packed(inputs=GOOD["inputs"]), "must hold the arrays 'inputs' and 'labels'"),
    "no archive": (b"nothing", "cannot be read as npz"),
    "nothing": (b"", "cannot be read as npz"),
    "a cut archive": (packed(**GOOD)[:-30], "cannot be read as npz"),
    "broken deflate": (broken_deflate(), "cannot be read as npz"),
    "a pickle": (packed(inputs=np.array([object()]), labels=np.array([0])), "Object arrays cannot be loaded"),
    "another shape": (zipped({"inputs.npy": claiming((10**6, 4)), "labels.npy": LABELS}), "16,000,000 bytes for shape"),
    "arrays in an array": (
        zipped({"inputs.npy": claiming((3, 4), ("<f4", (1,))), "labels.npy": LABELS}),
        "must be an array of numbers, got dtype",
    ),
    "a negative shape": (zipped({"inputs.npy": claiming((-3, -4)), "labels.npy": LABELS}), "cannot be read as npz"),
    "a header": (zipped({"inputs.npy": b"\x93NUMPY\x01\x00\x10\x00" + b"(" * 16, "labels.npy": LABELS}), "cannot be r"),
    "lzma": (zipped({"inputs.npy": npy(GOOD["inputs"]), "labels.npy": LABELS}, zipfile.ZIP_LZMA), "stored or deflated"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_client_is_refused_or_left_out_with_the_reason(folder, what):
    content, reason = BAD[what]
    whole = datasets.load("folder", path=folder)
    (folder / "clients" / "c.npz").write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError) as refused:
            datasets.load("folder", path=folder)
        left = datasets.load("folder", path=folder, on_bad_client="exclude")
    assert "\n" not in str(refused.value)
    (told,) = left.excluded
    assert told[0] == "c"
    assert re.search(reason, told[1])
    assert str(folder) not in told[1]
    assert left.ids == whole.ids == USERS
    for position, user in enumerate(USERS):
        assert len(left.client(position)[1]) == (0 if user == "c" else 3)
        if user != "c":
            assert left.client_digest(position) == whole.client_digest(position)


@pytest.mark.parametrize(
    "grouping",
    [
        {"kind": "balanced", "num_groups": 3},
        {"kind": "hashed", "num_groups": 3},
        {"kind": "sampled", "num_groups": 9, "group_size": 2},
        {"kind": "sampled", "num_groups": 9, "group_size": 2, "distinct": True},
        {"kind": "enumerated", "group_size": 2},
        {"kind": "finite-aggregation", "num_groups": 6, "groups_per_client": 2},
    ],
)
def test_an_excluded_client_moves_nobody_to_another_group(folder, grouping):
    kind = settings_from(grouping)
    whole = datasets.load("folder", path=folder)
    before = kind.groups_of(whole.ids, whole.forgotten)
    (folder / "clients" / "b.npz").write_bytes(b"bad")
    left = datasets.load("folder", path=folder, on_bad_client="exclude")
    after = kind.groups_of(left.ids, left.forgotten)
    assert after.num_clients == before.num_clients == len(USERS)
    assert [group.tolist() for group in after.members] == [group.tolist() for group in before.members]


def test_no_client_decides_what_is_bad_for_the_others(folder):
    """Shape, type and number of labels come from the test set, however many clients disagree with it."""
    for user in "bcdef":
        content = packed(inputs=np.ones((9, 7), int), labels=np.arange(9))
        (folder / "clients" / f"{user}.npz").write_bytes(content)
    left = datasets.load("folder", path=folder, on_bad_client="exclude")
    assert [user for user, _ in left.excluded] == list("bcdef")
    assert (left.input_shape, left.input_dtype, left.num_labels) == ((4,), "float32", 3)
    (folder / "clients" / "a.npz").write_bytes(b"bad")
    with pytest.raises(InputError, match=r"none of the 6 client files can be used; client 'a': the file cannot be r"):
        datasets.load("folder", path=folder, on_bad_client="exclude")


def test_a_bad_test_set_is_never_left_out(folder):
    (folder / "test.npz").write_bytes(BAD["NaN"][0])
    with pytest.raises(InputError, match="the test set"):
        datasets.load("folder", path=folder, on_bad_client="exclude")


def test_a_client_that_leaves_or_is_set_apart_is_excluded_no_longer(folder):
    for user in "bc":
        (folder / "clients" / f"{user}.npz").write_bytes(b"bad")
    left = datasets.load("folder", path=folder, on_bad_client="exclude")
    assert [user for user, _ in left.without(["b"]).excluded] == ["c"]
    others, apart = left.set_apart(["a", "b"])
    assert (others.ids, [user for user, _ in others.excluded]) == (("c", "d", "e", "f"), ["c"])
    assert (apart.ids, apart.excluded) == (("a",), ())
    with pytest.raises(InputError, match="none of the 2 clients that are set apart"):
        left.set_apart(["b", "c"])
    with pytest.raises(InputError, match="at least one of the 6 clients must be left"):
        left.without(["a", "d", "e", "f"])


def test_an_excluded_client_has_no_examples_and_others_have_some():
    federation = Federation.build("good", {"ann": (GOOD["inputs"], GOOD["labels"])}, tuple(GOOD.values()))
    with pytest.raises(InputError, match="client 'ann' is excluded, but has 3 examples"):
        federation.registering(["ann"], {"ann": "why"})
    with pytest.raises(InputError, match="client 'bob' has no examples"):
        federation.registering(["ann", "bob"], {})


def traced():
    """The memory in use, from which on the peak is measured."""
    tracemalloc.start()
    tracemalloc.reset_peak()
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.parametrize("mode", ["refuse", "exclude"])
def test_a_bomb_is_not_unpacked(folder, mode):
    """Its size is in the zip directory; where that lies, no more is unpacked than it says."""
    zeros = npy(np.zeros((8, 2**20, 4), np.float32))
    honest = zipped({"inputs.npy": zeros, "labels.npy": LABELS})
    assert len(honest) < 2**18 < 2**27 < len(zeros)
    size = len(zeros).to_bytes(4, "little")
    assert honest.count(size) == 2  # before the content, and in the directory
    lying = honest.replace(size, (1000).to_bytes(4, "little"))
    told = r"c.npz (unpacks to 134,\d+,\d+ bytes, more than max_client_bytes=1,000,000|cannot be read as npz)"
    for content in (honest, lying):
        (folder / "clients" / "c.npz").write_bytes(content)
        before = traced()
        if mode == "refuse":
            with pytest.raises(InputError, match=told):
                datasets.load("folder", path=folder, max_client_bytes=10**6)
        else:
            left = datasets.load("folder", path=folder, max_client_bytes=10**6, on_bad_client="exclude")
            assert [user for user, _ in left.excluded] == ["c"]
        peak = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()
        assert peak < 10**7


def test_the_bound_can_be_raised_and_holds_for_the_packed_file_too(folder):
    rows = np.random.default_rng(0).random((2**8, 4)).astype(np.float32)
    (folder / "clients" / "c.npz").write_bytes(packed(inputs=rows, labels=np.zeros(2**8, int)))
    with pytest.raises(InputError, match=r"c.npz has \d,\d+ bytes, more than max_client_bytes=2,000"):
        datasets.load("folder", path=folder, max_client_bytes=2000)
    assert datasets.load("folder", path=folder, max_client_bytes=20_000).num_clients == 6
    with pytest.raises(InputError, match="max_client_bytes"):
        datasets.load("folder", path=folder, max_client_bytes=0)


@pytest.mark.parametrize(
    ("given", "like", "kept"),
    [(bool, int, 4 * 8), (np.int8, int, 4 * 8), (np.float16, np.float32, 4 * 4)],
)
def test_the_bound_holds_for_the_types_in_which_examples_are_kept(folder, given, like, kept):
    """The file is small in its own types, packed and unpacked: bool becomes int64, float16 float32, labels int64."""
    rows = 2**16
    for place in ("test.npz", *(f"clients/{user}.npz" for user in USERS)):
        (folder / place).write_bytes(packed(inputs=GOOD["inputs"].astype(like), labels=GOOD["labels"]))
    content = packed(inputs=np.ones((rows, 4), given), labels=np.zeros(rows, np.int8))
    (folder / "clients" / "c.npz").write_bytes(content)
    needed, own = rows * (kept + 8), rows * (4 * np.dtype(given).itemsize + 1) + 1000
    assert datasets.load("folder", path=folder, max_client_bytes=needed).client(2)[0].nbytes == rows * kept
    rule = f"in the types in which inputs and labels are kept, has {needed:,} bytes, more than max_client_bytes="
    for limit in (needed - 1, own):
        before = traced()
        left = datasets.load("folder", path=folder, max_client_bytes=limit, on_bad_client="exclude")
        peak = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()
        assert left.excluded == (("c", f"the file, {rule}{limit:,}"),)
        assert peak < rows * 4  # the file's own inputs were not unpacked either
        with pytest.raises(InputError, match=re.escape(f"c.npz, {rule}{limit:,}")):
            datasets.load("folder", path=folder, max_client_bytes=limit)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
@pytest.mark.parametrize("place", ["clients/c.npz", "test.npz"])
def test_a_pipe_or_device_in_place_of_a_file_is_not_read(folder, place, make):
    (folder / place).unlink()
    make(folder / place)
    with pytest.raises(InputError, match=rf"{place} must be a regular file, not a directory, a pipe or a device"):
        datasets.load("folder", path=folder)
    if place != "test.npz":
        left = datasets.load("folder", path=folder, on_bad_client="exclude")
        assert left.excluded == (("c", "the file must be a regular file, not a directory, a pipe or a device"),)


@pytest.mark.parametrize("name", [".npz", ".npz.npz", "a.npz.npz"])
def test_a_file_whose_name_is_no_user_id_is_refused_by_name(folder, name):
    (folder / "clients" / name).write_bytes(packed(**GOOD))
    for mode in ("refuse", "exclude"):
        with pytest.raises(InputError, match=rf"clients/{name} must be named by a user id and one .npz"):
            datasets.load("folder", path=folder, on_bad_client=mode)


@pytest.mark.parametrize("name", [b"\xff.npz", b"two\nlines.npz"])
def test_a_name_that_cannot_be_printed_is_refused(folder, name):
    (folder / "clients" / os.fsdecode(name)).write_bytes(packed(**GOOD))
    with pytest.raises(InputError, match=r"must be named by printable characters"):
        datasets.load("folder", path=folder)


def test_a_reason_is_short_and_can_be_printed(folder):
    header = b"\x93NUMPY\x01\x00" + (4000).to_bytes(2, "little") + b"\x1b[2J\n" * 800
    (folder / "clients" / "c.npz").write_bytes(zipped({"inputs.npy": header, "labels.npy": LABELS}))
    left = datasets.load("folder", path=folder, on_bad_client="exclude")
    assert len(left.excluded[0][1]) < 300
    assert left.excluded[0][1].isprintable()


@pytest.mark.parametrize("mode", ["skip", "Refuse", ""])
def test_an_unknown_way_to_treat_bad_clients_is_refused(folder, mode):
    with pytest.raises(InputError, match="on_bad_client"):
        datasets.load("folder", path=folder, on_bad_client=mode)


def test_numbers_that_do_not_fit_are_refused_without_a_warning():
    good = (GOOD["inputs"].astype(np.float64), GOOD["labels"])
    whole = (np.ones((3, 4), np.uint64), GOOD["labels"])
    cases = {
        "client 'ann' must have inputs that fit into float32, got 1e\\+300 in row 0": (good[0] + 1e300, good),
        "client 'ann' must have inputs that fit into int64, got 18446744073709551615 in row 0": (
            whole[0] * np.uint64(2**64 - 1),
            whole,
        ),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for message, (inputs, test) in cases.items():
            with pytest.raises(InputError, match=message):
                Federation.build("large", {"ann": (inputs, GOOD["labels"])}, test)
        with pytest.raises(InputError, match="the test set must have inputs that fit into float32"):
            Federation.build("large", {"ann": good}, (good[0] + 1e300, good[1]))
