"""Loaders read the real formats, keep the server's root set apart, and refuse files that are not what they claim."""

import os
from collections import Counter
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from flcert import datasets, presets
from flcert.datasets import DATASETS, load, source, sources
from flcert.datasets.catalogue import Origin, Source
from flcert.datasets.dataset import DataSet, Options
from flcert.datasets.har import split_users
from flcert.errors import InputError, IntegrityError
from tests import tinydata

ROOT = Path(__file__).parents[2]
TINY = {"num_clients": 10, "num_root": 7, "check": False}


@pytest.fixture
def mnist_dir(tmp_path):
    return tinydata.write_mnist(tmp_path)


@pytest.fixture
def published(monkeypatch):
    """Take the files of a directory for the published ones of a data set, with a note."""

    def accept(name, root, note=""):
        tinydata.publish(monkeypatch, name, root / name, note)

    return accept


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_images_come_with_their_labels_and_pixels_from_0_to_1(name, tmp_path):
    federation = load(name, data_dir=tinydata.write_mnist(tmp_path, name), **TINY)
    assert federation.name == f"{name} (unchecked)"
    assert (federation.input_shape, federation.input_dtype, federation.num_labels) == ((28, 28), "float32", 10)
    assert federation.ids[:2] == ("client-0000", "client-0001")
    assert federation.inputs.max() == 1.0
    for inputs, labels in (
        (federation.inputs, federation.labels),
        (federation.test_inputs, federation.test_labels),
        (federation.root_inputs, federation.root_labels),
    ):
        assert [number % 10 for number in tinydata.image_numbers(inputs)] == labels.tolist()
    assert tinydata.image_numbers(federation.test_inputs) == list(range(50))


def test_cifar10_reads_the_five_batches_with_red_first(tmp_path):
    federation = load("cifar10", data_dir=tinydata.write_cifar10(tmp_path), **TINY)
    assert federation.name == "cifar10 (unchecked)"
    assert federation.input_shape == (3, 32, 32)
    held = tinydata.image_numbers(federation.inputs) + tinydata.image_numbers(federation.root_inputs)
    assert sorted(held) == list(range(400))
    assert tinydata.image_numbers(federation.test_inputs) == list(range(400, 480))
    assert (federation.inputs[:, 1:] == 1).all()  # the numbers are in the first row of red
    assert [number % 80 % 10 for number in tinydata.image_numbers(federation.inputs)] == federation.labels.tolist()


def test_the_server_s_root_set_is_never_at_a_client_and_does_not_depend_on_the_clients(mnist_dir):
    few = load("mnist", data_dir=mnist_dir, **TINY)
    many = load("mnist", data_dir=mnist_dir, **{**TINY, "num_clients": 20})
    root, held = tinydata.image_numbers(few.root_inputs), tinydata.image_numbers(few.inputs)
    assert len(root) == 7
    assert sorted(root + held) == list(range(400))
    assert tinydata.image_numbers(many.root_inputs) == root
    assert len(load("mnist", data_dir=mnist_dir, **{**TINY, "num_root": 0}).root_labels) == 0


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_pilot_examples_belong_to_nobody_and_depend_on_their_number_and_the_seed_alone(name, tmp_path):
    write = tinydata.write_cifar10 if name == "cifar10" else tinydata.write_mnist
    options = {**TINY, "num_pilot": 60, "data_dir": write(tmp_path)}
    federation, (inputs, labels) = load(name, **options), datasets.pilot(name, **options)
    parts = [tinydata.image_numbers(some) for some in (inputs, federation.root_inputs, federation.inputs)]
    assert [len(numbers) for numbers in parts] == [60, 7, 333]
    assert sorted(chain(*parts)) == list(range(400))
    assert labels.tolist() == [number % 80 % 10 if name == "cifar10" else number % 10 for number in parts[0]]
    for change in ({"num_clients": 20}, {"degree": 0.5}, {"num_train": 100}, {"num_root": 0}):
        assert tinydata.image_numbers(datasets.pilot(name, **{**options, **change})[0]) == parts[0]
        assert not {*parts[0]} & {*tinydata.image_numbers(load(name, **{**options, **change}).inputs)}
    assert tinydata.image_numbers(datasets.pilot(name, **options, seed=1)[0]) != parts[0]


def test_without_pilot_examples_nothing_changes(mnist_dir):
    plain = load("mnist", data_dir=mnist_dir, **TINY)
    assert plain.digest() == "adc1adc450f17b8a38a16a00b066cb9a"  # as before there were any
    assert len(datasets.pilot("mnist", data_dir=mnist_dir, **TINY)[1]) == 0


def test_only_data_sets_with_pilot_examples_give_some():
    with pytest.raises(InputError, match=r"unknown data set with pilot examples 'digits' \(known: cifar10, fashion"):
        datasets.pilot("digits")


def test_a_part_of_the_images_is_a_seeded_choice(mnist_dir):
    options = {**TINY, "num_train": 200, "num_test": 20, "data_dir": mnist_dir}
    first, again, other = load("mnist", **options), load("mnist", **options), load("mnist", **options, seed=1)
    assert (len(first.labels), len(first.root_labels), len(first.test_labels)) == (193, 7, 20)
    assert first.digest() == again.digest()
    assert set(tinydata.image_numbers(first.inputs)) != set(tinydata.image_numbers(other.inputs))
    assert tinydata.image_numbers(first.test_inputs) != tinydata.image_numbers(other.test_inputs)


def test_the_degree_reaches_the_dealing(mnist_dir):
    federation = load("mnist", data_dir=mnist_dir, **TINY, degree=1.0)
    assert [set(federation.client(position)[1].tolist()) for position in range(10)] == [{label} for label in range(10)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_train": 401}, r"num_train must be in \[1, number of examples=400\], got 401"),
        ({"num_pilot": 100, "num_train": 301}, r"num_train must be in \[1, number of examples=300\], got 301"),
        ({"num_pilot": 400}, r"num_pilot must be in \[0, number of examples - 1=399\], got 400"),
        ({"num_test": 0}, r"num_test must be in \[1, number of examples=50\], got 0"),
        ({"num_root": 400}, r"num_root must be in \[0, num_train - 1=399\], got 400"),
        ({"num_clients": 9}, r"num_labels must be in \[2, num_clients=9\], got 10"),
        ({"degree": 2}, r"degree must be in \[1/num_labels=0.1, 1\], got 2"),
    ],
)
def test_image_options_out_of_range_are_refused(options, message, mnist_dir):
    with pytest.raises(InputError, match=message):
        load("mnist", data_dir=mnist_dir, **{**TINY, **options})


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10", "har", "chitchat"])
def test_a_data_set_without_files_says_how_to_get_them(name, tmp_path):
    options = {"vocabulary": tinydata.write_words(tmp_path / "words"), "num_words": 5} if name == "chitchat" else {}
    with pytest.raises(InputError, match=rf"is missing; run: flcert data get {name} --data-dir .*"):
        load(name, data_dir=tmp_path, **options)


def test_the_vocabulary_that_is_missing_is_named(tmp_path):
    with pytest.raises(InputError, match=r"words.txt is missing; run: flcert data get words"):
        load("reddit", path=tinydata.write_lines(tmp_path / "a.jsonl"), data_dir=tmp_path)


def test_files_that_differ_from_the_published_ones_are_refused_unless_the_name_says_so(mnist_dir):
    with pytest.raises(IntegrityError, match=r"train-images-idx3-ubyte must have the SHA-256 ba891046\w+, got \w+"):
        load("mnist", data_dir=mnist_dir)


def test_the_published_files_have_the_plain_name_and_one_changed_bit_is_noticed(mnist_dir, published):
    published("mnist", mnist_dir)
    assert load("mnist", data_dir=mnist_dir, num_clients=10, num_root=7).name == "mnist"
    path = mnist_dir / "mnist" / "t10k-labels-idx1-ubyte"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(IntegrityError, match=r"t10k-labels-idx1-ubyte must have the SHA-256"):
        load("mnist", data_dir=mnist_dir, num_clients=10, num_root=7)


def test_packed_and_plain_files_are_the_same_data(mnist_dir, tmp_path, published):
    published("mnist", mnist_dir)
    packed = tinydata.write_mnist(tmp_path / "packed", packed=True)
    options = {"num_clients": 10, "num_root": 7}
    assert load("mnist", data_dir=packed, **options).digest() == load("mnist", data_dir=mnist_dir, **options).digest()
    path = packed / "mnist" / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(IntegrityError, match=r"train-images-idx3-ubyte.gz: a gzip file is damaged or cut short"):
        load("mnist", data_dir=packed, check=False)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "an IDX file of bytes with 3 dimensions was expected"),
        (tinydata.idx(np.zeros((4, 7))), "an IDX file of bytes with 3 dimensions was expected"),
        (tinydata.idx(np.zeros((400, 28, 28)))[:-1], r"shape \(400, 28, 28\) needs 313600 values, got 313599"),
        (tinydata.idx(np.zeros((399, 28, 28))), "399 images need as many labels, got 400"),
    ],
)
def test_an_idx_file_of_the_wrong_shape_is_refused(content, message, mnist_dir):
    (mnist_dir / "mnist" / "train-images-idx3-ubyte").write_bytes(content)
    with pytest.raises(InputError, match=message):
        load("mnist", data_dir=mnist_dir, **TINY)


def test_a_cut_batch_of_cifar10_is_refused(tmp_path):
    path = tinydata.write_cifar10(tmp_path) / "cifar10" / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"data_batch_3.bin must hold records of 3073 bytes, got 245839 bytes"):
        load("cifar10", data_dir=tmp_path, **TINY)


def test_har_gives_each_user_three_quarters_of_its_rows_without_the_root_set(tmp_path):
    federation = load("har", data_dir=tinydata.write_har(tmp_path), num_root=6, check=False)
    assert federation.ids == ("user-01", "user-02", "user-03", "user-04")
    assert (federation.input_shape, federation.num_labels, federation.name) == ((561,), 6, "har (unchecked)")
    for position in range(4):
        assert set(federation.client(position)[0][:, 0]) == {position + 1}
    rows = {
        name: [tuple(row) for row in getattr(federation, name)[:, :2].astype(int).tolist()]
        for name in ("inputs", "root_inputs", "test_inputs")
    }
    assert {name: len(pairs) for name, pairs in rows.items()} == {"inputs": 114, "root_inputs": 6, "test_inputs": 40}
    assert sorted(chain(*rows.values())) == [(user, row) for user in range(1, 5) for row in range(40)]
    assert Counter(user for user, _ in rows["test_inputs"]) == {1: 10, 2: 10, 3: 10, 4: 10}
    assert [row % 6 for _, row in rows["inputs"]] == federation.labels.tolist()
    assert [row % 6 for _, row in rows["root_inputs"]] == federation.root_labels.tolist()
    assert {row for user, row in rows["test_inputs"] if user == 1} != set(
        range(30, 40)
    )  # a random quarter, not the last


def test_rows_of_one_har_user_do_not_move_what_others_and_the_server_hold():
    users = np.repeat([1, 2, 3, 4], 40)
    more = np.concatenate([users, [3, 3, 3]])
    chosen = np.array([1, 2, 3, 4])
    before, after = (split_users(rows, chosen, num_root=6, seed=0)[0] for rows in (users, more))
    for position in (0, 1, 3):
        assert np.array_equal(before[position], after[position])
    assert [len(rows) for rows in before] == [28, 28, 29, 29]


def test_har_with_fewer_clients_takes_the_first_and_splits_them_as_before(tmp_path):
    tinydata.write_har(tmp_path)
    options = {"data_dir": tmp_path, "num_root": 0, "check": False}
    everyone, two = load("har", **options), load("har", **options, num_clients=2)
    assert two.ids == ("user-01", "user-02")
    assert np.array_equal(two.client(1)[0], everyone.client(1)[0])
    assert set(two.test_inputs[:, 0]) == {1, 2}
    for number in (0, 5):
        with pytest.raises(InputError, match=rf"num_clients must be in \[1, number of users=4\], got {number}"):
            load("har", **options, num_clients=number)


def test_har_with_recomputed_features_is_called_so(tmp_path, published):
    published("har", tinydata.write_har(tmp_path), note="recomputed")
    assert load("har", data_dir=tmp_path).name == "har (recomputed)"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not a zip", "does not have the layout of UCI HAR"),
        (tinydata.har_zip()[:-30], "does not have the layout of UCI HAR"),
        (tinydata.har_zip(drop="subject"), "does not have the layout of UCI HAR: .*subject_train.txt"),
        (tinydata.har_zip(cut="y"), "features, labels and users must have as many rows, got 160, 158 and 160"),
    ],
)
def test_an_archive_that_is_not_har_is_refused(content, message, tmp_path):
    with pytest.raises(InputError, match=message):
        load("har", data_dir=tinydata.write_har(tmp_path, content), check=False)


def real(name):
    """The directory with the real files of a data set, or a skipped test."""
    for place in (os.environ.get("FLCERT_DATA"), ROOT.parent / "shared" / "data"):
        if place and sources.present(source(name), Path(place)):
            return Path(place)
    pytest.skip(f"the files of {name} are neither in $FLCERT_DATA nor in ../shared/data")


def test_the_real_mnist():
    federation = load("mnist", data_dir=real("mnist"))
    assert federation.name == "mnist"
    assert (len(federation.labels), len(federation.root_labels), len(federation.test_labels)) == (59_900, 100, 10_000)
    everything = np.concatenate([federation.labels, federation.root_labels])
    assert np.bincount(everything).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert federation.test_labels[:5].tolist() == [7, 2, 1, 0, 4]
    assert federation.num_clients == 1000


def test_the_real_har():
    federation = load("har", data_dir=real("har"))
    rows = len(federation.labels) + len(federation.root_labels) + len(federation.test_labels)
    assert rows == {"har": 10_299, "har (recomputed)": 10_411}[federation.name]
    assert federation.num_clients == 30
    assert np.abs(federation.inputs).max() <= 1


def test_the_real_cifar10():
    federation = load("cifar10", data_dir=real("cifar10"), num_train=3000, num_test=10_000)
    assert np.bincount(federation.test_labels).tolist() == [1000] * 10
    assert federation.test_labels[:5].tolist() == [3, 8, 8, 0, 6]


def test_the_real_chitchat():
    federation = load("chitchat", data_dir=real("words") and real("chitchat"), max_examples=20, num_test=500)
    assert federation.num_labels == 50_000
    assert federation.inputs.max() < 50_000


@pytest.mark.parametrize("name", [name for name, record in DATASETS.items() if record.files and record.users])
def test_as_many_users_as_recorded_are_clients_of_the_real_files(name):
    directories = [real(entry.name) for entry in (*source(name).needs, source(name))]
    federation = load(name, data_dir=directories[-1])
    assert federation.num_clients == DATASETS[name].users
    assert (federation.input_shape, federation.num_labels) == (DATASETS[name].input_shape, DATASETS[name].num_labels)
    assert presets.values(name, scale=0.99)["data"]["options"]["num_clients"] <= federation.num_clients


class CoinOptions(Options):
    num_clients: int = 2


def flip_coins(options):
    examples = (np.array([[0.0], [1.0]]), np.array([0, 1]))
    return datasets.Federation.build("coins", {f"user-{i}": examples for i in range(options.num_clients)}, examples)


def test_a_record_in_the_registry_is_all_that_a_new_data_set_needs(monkeypatch):
    files = Source(name="coins", title="coins", licence="none", files={}, origins=(Origin("web", "x"),))
    record = DataSet(
        title="coins",
        options=CoinOptions,
        load=flip_coins,
        input_shape=(1,),
        num_labels=2,
        files=files,
        backdoor=lambda options: {"target": options.num_clients},
    )
    monkeypatch.setitem(DATASETS, "coins", record)
    assert load("coins", num_clients="3").num_clients == 3
    assert source("coins") is datasets.downloads()["coins"] is files
    assert datasets.backdoor("coins", {}) == {"target": 2}
    with pytest.raises(InputError, match=r"unknown option of data set 'coins': 'colour' \(known: num_clients\)"):
        load("coins", colour="red")
    with pytest.raises(InputError, match=r"option 'num_clients' of data set 'coins' must be a valid integer"):
        datasets.backdoor("coins", {"num_clients": "many"})


def test_a_loader_that_fails_is_named(monkeypatch):
    broken = DataSet(title="?", options=CoinOptions, load=lambda _: 1 / 0, input_shape=None, num_labels=None)
    monkeypatch.setitem(DATASETS, "broken", broken)
    with pytest.raises(InputError, match="data set 'broken' raised ZeroDivisionError: division by zero"):
        load("broken")


def test_a_user_s_own_function_has_no_backdoor_of_ours():
    assert datasets.backdoor("tests.unit.test_datasets:flip_coins", {"colour": "red"}) == {}
    assert datasets.backdoor("digits", {}) == {}
