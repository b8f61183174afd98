"""EfficientNet-Lite0 as a public function: the published network, frozen, and each picture by itself."""

from importlib.util import find_spec

import pytest
import torch
from sklearn.datasets import load_sample_image

from flcert.core import plugins
from flcert.core.determinism import one_thread
from flcert.core.settings import Choice
from flcert.datasets.cifar10 import LABELS
from flcert.errors import InputError, IntegrityError
from flcert.features import efficientnet
from flcert.features.efficientnet import CIFAR10_CLASSES, efficientnet_lite0, efficientnet_lite0_head

installed = pytest.mark.skipif(find_spec(efficientnet.PACKAGE) is None, reason="needs the extra imagenet")


def pictures(number=3, shape=(3, 32, 32)):
    return torch.rand(number, *shape, generator=torch.Generator().manual_seed(0))


def features(inputs, **options):
    with torch.inference_mode(), one_thread():
        return efficientnet_lite0(tuple(inputs.shape[1:]), **options)(inputs)


@installed
@pytest.mark.parametrize(
    ("size", "largest"),
    [
        (112, {566: 0.16855, 701: 0.16469, 39: 0.16354, 458: 0.15639}),
        (97, {29: 0.18127, 566: 0.18076, 949: 0.17711, 510: 0.17081}),
    ],
)
def test_features_are_those_of_the_published_network(size, largest):
    # from the network of efficientnet-lite-pytorch 0.1.0, with pictures scaled to (255 x - 127) / 128
    (found,) = features((torch.arange(3 * 32 * 32).reshape(1, 3, 32, 32) * 7 % 256) / 255, size=size)
    values, places = found.topk(len(largest))
    assert dict(zip(places.tolist(), values.tolist(), strict=True)) == pytest.approx(largest, abs=2e-5)


def photograph(name):
    """The middle of one of scikit-learn's two pictures."""
    return torch.tensor(load_sample_image(name))[:, 106:533].permute(2, 0, 1)[None] / 255


@installed
@pytest.mark.parametrize(("name", "label"), [("china.jpg", 698), ("flower.jpg", 985)])
def test_the_published_classifier_knows_a_palace_and_a_daisy(name, label):
    weights, picture = efficientnet._published_weights(), photograph(name)
    network = efficientnet_lite0((3, 427, 427), size=224)
    hidden = []
    network.layers.register_forward_hook(lambda _module, _inputs, output: hidden.append(output.mean(dim=(2, 3))))
    with one_thread():
        network(picture)
    assert (hidden[0] @ weights["_fc.weight"].T + weights["_fc.bias"]).argmax() == label


@installed
def test_a_head_made_of_the_published_classifier_needs_no_training():
    head = efficientnet_lite0_head([(663, 698), (985,), *CIFAR10_CLASSES])  # monastery or palace; daisy
    found = torch.cat([features(photograph(name), size=224) for name in ("china.jpg", "flower.jpg")])
    assert (found @ head.T).argmax(dim=1).tolist() == [0, 1]
    assert torch.allclose(head.norm(dim=1), torch.ones(12))
    daisy, other = efficientnet_lite0_head([(985,), (663, 698)])
    assert torch.allclose(daisy, -other, atol=1e-6)


def test_the_labels_of_cifar10_cover_different_classes():
    covered = [number for classes in CIFAR10_CLASSES for number in classes]
    assert len(CIFAR10_CLASSES) == len(LABELS)
    assert len(set(covered)) == len(covered)


@installed
def test_features_are_1280_numbers_of_length_1():
    found = features(pictures())
    assert found.shape == (3, 1280)
    assert found.dtype == torch.float32
    assert torch.allclose(found.norm(dim=1), torch.ones(3))


@installed
def test_a_picture_has_the_same_features_alone_and_among_others():
    several, network = pictures(9), efficientnet_lite0((3, 32, 32))
    with one_thread():
        together, alone = network(several), torch.cat([network(one[None]) for one in several])
    assert torch.allclose(together, alone, rtol=0, atol=1e-5)
    assert (alone[0] - alone[1]).abs().max() > 0.01


@installed
@pytest.mark.parametrize("shape", [(28, 28), (1, 28, 28)])
def test_a_grey_picture_is_a_colour_picture_with_three_equal_channels(shape):
    grey = pictures(2, shape)
    assert torch.equal(features(grey), features(grey.reshape(2, 1, 28, 28).expand(-1, 3, -1, -1)))


@installed
def test_training_mode_changes_nothing_and_all_parameters_are_frozen():
    network, inputs = efficientnet_lite0((3, 32, 32)), pictures()
    with one_thread():
        before, after = network.eval()(inputs), network.train()(inputs)
    assert torch.equal(before, after)
    assert not any(parameter.requires_grad for parameter in network.parameters())
    assert not before.requires_grad


@installed
def test_building_the_network_draws_no_random_numbers():
    before = torch.random.get_rng_state()
    efficientnet_lite0((3, 32, 32))
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("shape", [(561,), (2, 32, 32), (1, 3, 32, 32)])
def test_inputs_that_are_no_pictures_are_refused(shape):
    with pytest.raises(InputError, match=r"need pictures of shape .* got \("):
        efficientnet_lite0(shape)


@pytest.mark.parametrize("size", [31, 513])
def test_a_size_out_of_range_is_refused(size):
    choice = Choice(name="efficientnet-lite0", options={"size": size})
    with pytest.raises(InputError, match=f"'size' .*{size}"):
        plugins.build("features", {"efficientnet-lite0": efficientnet_lite0}, choice, input_shape=(3, 32, 32))


@pytest.mark.parametrize("content", [None, b"other weights"])
def test_weights_with_another_digest_are_refused(content, tmp_path, monkeypatch):
    package = tmp_path / efficientnet.PACKAGE
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('the code of the package was run')")
    if content is not None:
        (package / efficientnet.FILE).write_bytes(content)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(IntegrityError, match=rf"must have the SHA-256 {efficientnet.SHA256}, got "):
        efficientnet_lite0((3, 32, 32))
