"""Vectors, numbers, tables and tokens as data sets, each against NumPy; what images were stays what it was."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris

from ramet.data import DataSet, InputForm, Split, load
from ramet.errors import ConfigError, DataError
from ramet.growth import make_network

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(5.0, [1.0, 3.0, 0.5], (60, 3))
Y = X @ [1.0, -2.0, 0.5] + 100


def raw_rows(split, data):
    """The rows of a split as they were before they were standardised."""
    return split.x.double().numpy() * data.deviation + data.mean


def test_vectors_and_numbers_are_standardised_by_the_training_rows():
    data = load((X, Y))
    assert data.form == InputForm((3,)) and data.is_numeric and data.num_outputs == 1 and data.num_classes == 0
    assert [len(split) for split in (data.train, data.validation, data.test)] == [38, 10, 12]
    train = raw_rows(data.train, data)
    np.testing.assert_allclose(data.train.x.double().mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(data.train.x.double().std(0, correction=0), 1, atol=1e-6)
    np.testing.assert_allclose(data.mean, train.mean(0), rtol=1e-6)
    for split in (data.train, data.validation, data.test):  # float32 keeps 7 digits of numbers that are near 5 and 100
        numbers = split.y.double().numpy() * data.target_deviation[0] + data.target_mean[0]
        np.testing.assert_allclose(numbers, raw_rows(split, data) @ [1.0, -2.0, 0.5] + 100, rtol=1e-5)
    everything = np.concatenate([raw_rows(split, data) for split in (data.train, data.validation, data.test)])
    np.testing.assert_allclose(everything[everything[:, 0].argsort()], X[X[:, 0].argsort()], rtol=1e-5)
    assert str(data) == (
        "arrays: 1 number to tell, vectors of 3 features, 38 / 10 / 12 rows to train, validate and test"
    )


def test_several_numbers_and_images():
    targets = np.stack([Y, 2 * Y, -Y], axis=1)
    data = load((RANDOM.normal(size=(60, 4, 4)), targets))
    assert data.form == InputForm((1, 4, 4)) and data.image_size == (4, 4) and data.num_outputs == 3
    assert data.train.y.shape == (38, 3)
    np.testing.assert_allclose(data.train.y[:, 0], -data.train.y[:, 2], atol=1e-5)


def test_whole_numbers_are_classes_unless_they_are_said_to_be_numbers():
    whole = np.arange(60.0) % 5
    assert load((X, whole)).num_classes == 5
    data = load((X, whole), targets="numbers")
    assert data.is_numeric and data.train.y.dtype == torch.float32


def test_a_source_with_a_test_set_keeps_it():
    arrays = {"x_train": X[:40], "y_train": Y[:40], "x_test": X[40:], "y_test": Y[40:]}
    data = load(arrays)
    np.testing.assert_allclose(raw_rows(data.test, data), X[40:], rtol=1e-5)
    assert len(load(arrays, train_size=10, eval_size=5).test) == 5
    assert len(load(arrays, pool=True).test) == 12


def test_a_table_of_numbers_and_one_of_classes(tmp_path):
    lines = [
        f"{a!r},{b!r},{c!r},{y!r},{'high' if y > 95 else 'low'}" for (a, b, c), y in zip(X.tolist(), Y, strict=True)
    ]
    file = tmp_path / "houses.csv"
    file.write_text("a,b,c,price,level\n" + "\n".join(lines).replace("np.float64(", "").replace(")", "") + "\n\n")
    data = load(f"{file}:target=price,without=[level]")
    assert data.name == "houses" and data.fingerprint() == load((X, Y)).fingerprint()
    classes = load(f"{file}:label=level,without=[price]")
    assert classes.class_names == ("high", "low") and classes.form == InputForm((3,))
    both = load(f"{file}:target=[price,a],without=[level]")
    assert both.num_outputs == 2 and both.form == InputForm((2,))
    (tmp_path / "houses.tsv").write_text(file.read_text().replace(",", "\t"))
    assert load(f"{tmp_path / 'houses.tsv'}:target=price,without=[level]").fingerprint() == data.fingerprint()


def test_rows_of_a_torch_data_set():
    flowers = load_iris()
    pairs = [(torch.tensor(x), int(y)) for x, y in zip(flowers.data, flowers.target, strict=True)]
    data = load(torch.utils.data.TensorDataset(torch.tensor(flowers.data), torch.tensor(flowers.target)))
    assert data.form == InputForm((4,)) and data.num_classes == 3 and len(pairs) == 150


def test_arrays_of_tokens():
    tokens = RANDOM.integers(0, 9, (50, 6))
    data = load((tokens[:, :-1], tokens[:, 1:]))
    assert data.form == InputForm((5,), words=int(tokens[:, :-1].max()) + 1)
    assert data.num_classes == tokens[:, 1:].max() + 1
    assert torch.equal(data.train.x[:, 1:], data.train.y[:, :-1])
    assert data.fingerprint() == load((tokens[:, :-1], tokens[:, 1:])).fingerprint() != load((X, Y)).fingerprint()


def test_a_text_by_its_spec(tmp_path):
    file = tmp_path / "story.txt"
    file.write_text("once upon a time there was a ramet\n" * 60)
    data = load(f"text:{file}:length=8", train_size=5)
    assert data.form == InputForm((8,), words=data.num_classes) and len(data.train) == 5
    assert data.input_shape == (8,) and data.name == "story"
    letters = load(f"text:{file}:tokens=characters,length=10", name="letters")
    assert "".join(letters.class_names[token] for token in letters.train.x[0]) == "once upon "
    assert letters.name == "letters"


def test_the_content_decides_the_fingerprint():
    one, other = load((X, Y)), load((X, Y + 1e-3 * (np.arange(60) == 7)))
    assert one.fingerprint() == load((X, Y)).fingerprint() != other.fingerprint()


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (torch.zeros(4), torch.zeros(4, dtype=torch.int64), "inputs of a split must be float32"),
        (
            torch.zeros(4, 2, dtype=torch.float64),
            torch.zeros(4, dtype=torch.int64),
            "inputs of a split must be float32",
        ),
        (torch.zeros(4, 2, 2, dtype=torch.int64), torch.zeros(4, dtype=torch.int64), "inputs of a split"),
        (torch.zeros(4, 2), torch.zeros(4, 2, dtype=torch.int64), r"classes, int64 of shape \[4\], or numbers"),
        (torch.zeros(4, 2), torch.zeros(3), "float32 with 4 rows, but got torch.float32 of shape"),
        (torch.zeros(4, 2), torch.zeros(4, 1, 1), "float32 with 4 rows"),
        (torch.zeros(4, 2), torch.zeros(4, dtype=torch.float64), "float32 with 4 rows, but got torch.float64"),
        (torch.zeros(4, 2), torch.tensor([0.0, 1.0, float("nan"), 2.0]), "must be finite, but one is nan"),
        (torch.zeros(4, 2, dtype=torch.int64), torch.zeros(3, 2, dtype=torch.int64), r"of shape \[4\] or \[4, k\]"),
    ],
)
def test_splits_refuse_what_they_do_not_hold(x, y, message):
    with pytest.raises(DataError, match=message):
        Split(x, y)


def test_a_form_survives_its_json_and_makes_examples():
    for form in (InputForm((3, 8, 6)), InputForm((13,)), InputForm((5, 4)), InputForm((64,), words=30)):
        assert InputForm.from_json(form.to_json()) == form
        example = form.example(2)
        assert example.shape == (2, *form.shape) and example.dtype == form.dtype
    given = InputForm((13,)).arguments(2)
    assert given.pop("input_shape") == (13,) and given.pop("image_size") == (1, 1)
    assert given == {"num_features": 13, "in_channels": 13, "num_outputs": 2, "num_classes": 2}
    with pytest.raises(
        DataError, match="must be an image or a vector here, but these are texts of 64 tokens out of 30"
    ):
        _ = InputForm((64,), words=30).pixels


def test_a_network_is_made_for_something():
    with pytest.raises(ConfigError, match="in_channels and image_size, input_shape, or length and words, but got none"):
        make_network("mlp", num_classes=3)
    assert make_network("mlp:5", num_classes=2, input_shape=(7,))(torch.zeros(3, 7)).shape == (3, 2)


def test_a_text_has_no_image_size():
    tokens = torch.randint(5, (6, 4))
    data = DataSet("tokens", *[Split(tokens, tokens)] * 3, num_classes=5)
    with pytest.raises(DataError, match="must be an image or a vector here"):
        _ = data.image_size
