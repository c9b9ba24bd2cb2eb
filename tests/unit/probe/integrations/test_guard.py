"""Nothing that an entry does is raised into its framework, and one line says so."""

from __future__ import annotations

import pytest

from probe.errors import UsageError
from probe.integrations.guard import guarded
from probe.integrations.training_run import TrainingRun


class Entry:
    @guarded
    def begins(self, number: int) -> int:
        return 10 // number

    @guarded
    def ends(self) -> None:
        raise KeyboardInterrupt


def test_an_entry_says_once_that_it_failed(capsys: pytest.CaptureFixture[str]) -> None:
    entry = Entry()
    assert entry.begins(5) == 2
    assert entry.begins(0) is None and entry.begins(0) is None
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("phasewatt: Entry.begins failed, the training goes on: ZeroDivisionErr")


def test_what_ends_the_process_is_let_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        Entry().ends()


@pytest.mark.parametrize("options", [{"nonsense": 1}, {"country": "XX"}])
def test_a_wrong_option_is_refused_where_it_is_written(options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        TrainingRun(options)
