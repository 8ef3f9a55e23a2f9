"""A task that fails for good: its reason is in the records, the others are done, and a resumed run tries it again."""

from __future__ import annotations

from typing import Any

import pytest

from ramet.cli import main
from ramet.errors import RunError
from ramet.ranking import alone
from ramet.runs import Run, read_records

TINY = "--space cells64 --channels 2 --cells 1 --train-size 20 --eval-size 20 --batch-size 20 --epochs 1 --instances 1"
TINY += " --children 4 --truth-seeds 1 --fine-tune-steps 0 --last-steps 1 --last-epochs 1 --json"


def test_failures_of_a_task_are_counted(tmp_path):
    with Run.create(tmp_path / "run", "kind", {}) as run:
        run.record_failure("truth/3", OSError("two\nlines"))
        run.record_failure("truth/3", RunError("another"))
        run.record_failure("truth/4", RunError("another"))
    assert read_records(tmp_path / "run") == [
        {"key": "failed/1/truth/3", "kind": "OSError", "reason": "two lines"},
        {"key": "failed/2/truth/3", "kind": "RunError", "reason": "another"},
        {"key": "failed/1/truth/4", "kind": "RunError", "reason": "another"},
    ]


@pytest.mark.slow
def test_a_child_that_fails_is_recorded_and_the_others_are_trained(tmp_path, monkeypatch, capsys):
    calls = []
    fit = alone.fit

    def fit_but_the_second(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return fit(*arguments, **options)

    monkeypatch.setattr(alone, "fit", fit_but_the_second)
    run = str(tmp_path / "run")
    with pytest.raises(SystemExit) as end:
        main(["rank", "--out", run, "--truth-cache", str(tmp_path / "truth"), *TINY.split()])
    assert end.value.code == 1 and "No space left on device" in capsys.readouterr().err
    records = {record["key"]: record for record in read_records(run)}
    assert sum(key.startswith("truth/") for key in records) == 3 and "result" not in records
    ((failed, record),) = ((key, value) for key, value in records.items() if key.startswith("failed/"))
    assert record["reason"] == "[Errno 28] No space left on device"
    main(["resume", run])
    assert len(calls) == 5 and failed.removeprefix("failed/1/") in {record["key"] for record in read_records(run)}
