"""`ramet forgot`: files of every kind, exit codes, one line for bad input, the page."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from ramet.cli import main


@pytest.fixture
def arrays():
    generator = np.random.default_rng(0)
    labels = generator.integers(3, size=300)
    before = np.where(generator.random(300) < 0.9, labels, (labels + 1) % 3)
    after = np.where((labels == 2) & (generator.random(300) < 0.5), 0, before)
    return before, after, labels


def run(capsys, *arguments):
    """Exit code, standard output, standard error."""
    try:
        main(["forgot", *map(str, arguments)])
        code = 0
    except SystemExit as stop:
        code = stop.code
    caught = capsys.readouterr()
    return code, caught.out, caught.err


def written(folder, kind, before, after, labels):
    """The same in files of a kind; gives the arguments."""
    files = [folder / f"before.{kind}", folder / f"after.{kind}"]
    for path, values in zip(files, (before, after), strict=True):
        if kind == "npz":
            np.savez(path, predictions=values, labels=labels)
        elif kind == "safetensors":
            save_file({"predictions": torch.tensor(values), "labels": torch.tensor(labels)}, path)
        elif kind == "npy":
            np.save(path, values)
        else:
            with path.open("w", newline="") as file:
                lines = csv.writer(file, delimiter="\t" if kind == "tsv" else ",")
                lines.writerow(["label", "prediction"])
                lines.writerows(zip(labels, values, strict=True))
    if kind == "npy":
        np.save(folder / "labels.npy", labels)
        return [*files, "--labels", folder / "labels.npy"]
    return files


@pytest.mark.parametrize("kind", ["npz", "safetensors", "npy", "csv", "tsv"])
def test_every_kind_of_file_says_the_same(kind, arrays, tmp_path, capsys):
    code, out, _ = run(capsys, *written(tmp_path, kind, *arrays), "--json")
    assert code == 3
    found = json.loads(out)
    assert found["is_forgotten"] and found["lost_classes"] == ["2"]
    lost = np.nonzero((arrays[0] == arrays[2]) & (arrays[1] != arrays[2]))[0]
    assert found["lost"] == lost.tolist()


def test_scores_of_half_precision_and_names(tmp_path, capsys):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(50, 4, generator=generator)
    save_file({"one": scores.bfloat16(), "other": scores, "labels": torch.arange(50) % 4}, tmp_path / "a.safetensors")
    code, out, _ = run(capsys, f"{tmp_path}/a.safetensors:one", f"{tmp_path}/a.safetensors:one")
    assert code == 0 and out.startswith("No forgetting shown: the accuracy")


def test_exit_codes(tmp_path, capsys):
    before, after = np.ones(1000), np.ones(1000)
    after[:30] = 0
    np.save(tmp_path / "a.npy", before)
    np.save(tmp_path / "b.npy", after)
    files = (tmp_path / "a.npy", tmp_path / "b.npy")
    assert run(capsys, *files)[0] == 3
    assert run(capsys, *files, "--tolerance", "0.03")[0] == 0, "what may be lost"
    assert run(capsys, *files, "--tolerance", "0.03", "--strict")[0] == 3, "more may have been"
    assert run(capsys, *files, "--tolerance", "0.1", "--strict")[0] == 0
    assert run(capsys, files[1], files[0])[0] == 0, "gained"
    assert run(capsys, *files, "--lower-is-better")[0] == 0


def test_the_page_says_what_the_terminal_says(arrays, tmp_path, capsys):
    code, out, _ = run(capsys, *written(tmp_path, "npz", *arrays), "--report", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert code == 3 and out.splitlines()[0].startswith("Forgotten: the accuracy went from")
    assert "What was forgotten?" in page and "lost examples" in page and "class 2" in page
    assert "at most <strong>5 %</strong> of cases: 2.5 %" in page


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a.pkl", "b.npy"], "predictions are read from .npy"),
        (["none.npy", "none.npy"], "must be in a file, but none.npy is not one"),
        (["damaged.npy", "a.npy"], "must be a whole .npy file"),
        (["damaged.npz", "a.npy"], "must be a whole .npz file"),
        (["damaged.safetensors", "a.npy"], "must be a whole .safetensors file"),
        (["objects.npy", "a.npy"], "must be a whole .npy file"),
        (["two.npz", "two.npz"], "name one array of two.npz as FILE:NAME; it has x, y"),
        (["two.npz:z", "two.npz:x"], "has no array 'z'"),
        (["short.csv", "a.npy"], "must have a line of names"),
        (["ragged.csv", "a.npy"], "must have 2 cells, but line 3 has 1"),
        (["a.npy", "b.npy"], "must have one shape, but got (4,) and (5,)"),
        (["a.npy", "a.npy"], "judged by labels, but there are none"),
        (["x.npz", "y.npz"], "must have the same labels"),
        (["a.npy", "a.npy", "--labels", "b.npy"], "one for each of 4 examples"),
        (["a.npy", "a.npy", "--labels", "a.npy", "--confidence", "2"], "confidence must lie in (0, 1)"),
        (["a.npy", "a.npy", "--labels", "a.npy", "--tolerance", "-1"], "tolerance must be at least 0"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.array([1, 2, 3, 4]))
    np.save("b.npy", np.array([1, 2, 3, 4, 5]))
    np.save("objects.npy", np.array([{}, None]), allow_pickle=True)
    np.savez("two.npz", x=np.ones(3), y=np.ones(3))
    np.savez("x.npz", p=np.array([1, 2]), labels=np.array([1, 2]))
    np.savez("y.npz", p=np.array([1, 2]), labels=np.array([1, 3]))
    for name in ("damaged.npy", "damaged.npz", "damaged.safetensors", "a.pkl"):
        (tmp_path / name).write_bytes(b"something else")
    (tmp_path / "short.csv").write_text("label,prediction\n")
    (tmp_path / "ragged.csv").write_text("label,prediction\n1,2\n3\n")
    code, out, err = run(capsys, *arguments, "--report", "page.html")
    assert code == 2 and out == ""
    assert err.startswith("ramet: ") and err.count("\n") == 1 and words in err
    assert not (tmp_path / "page.html").exists()
