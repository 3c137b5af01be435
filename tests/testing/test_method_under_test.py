"""A method that stands in several slots is examined as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.fake_distributions import Site, forget_modules

from zoo.cli import plugins as cli
from zoo.testing.cases import Case
from zoo.testing.combination import partners
from zoo.testing.method_under_test import subject

CODE = '''
import torch
from torch import nn
from zoo.extension import FFN, HeadMixing, Residual

class Stream(Residual):
    """x + w F(x)."""
    def __init__(self, layer):
        super().__init__()
        self.w = nn.Parameter(torch.ones(()))
    def write(self, site, stream, branch, history):
        return stream + self.w * branch

class Heads(HeadMixing):
    """v times w."""
    def __init__(self, layer, start: float = 1.0):
        super().__init__()
        self.w = nn.Parameter(torch.full((), start))
    def project(self, heads, normed, history, state):
        return heads._replace(v=self.w * heads.v)
'''


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path)
    entries = {"residual": {"in_both": "in_both_code:Stream"}, "head_mixing": {"in_both": "in_both_code:Heads"}}
    site.install("in-both", entries, {"in_both_code.py": CODE})
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    forget_modules(tmp_path)


@pytest.mark.usefixtures("both")
def test_each_part_is_examined_with_the_others_in_place(capsys: pytest.CaptureFixture[str]) -> None:
    for slot, other in (("residual", "head_mixing"), ("head_mixing", "residual")):
        found = subject("in_both", slot)
        assert (found.slot, list(found.others)) == (slot, [other])
        kinds = {type(part).__name__ for part in found.build(Case()).extensions()}
        assert {"Stream", "Heads"} <= kinds
        assert {partner.slot for chosen in partners(found) for partner in chosen} == {"score_mixing", "temporal_mixing"}
    assert cli.main(["check", "in_both", "--only", "builds", "combined"]) == 0
    told = capsys.readouterr().out
    assert "2 of 2 methods conform" in told
    assert cli.main(["check", "head_mixing.in_both", "--only", "builds"]) == 0


@pytest.mark.usefixtures("both")
def test_it_is_shown_with_all_of_its_slots(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", "in_both"]) == 0
    told = capsys.readouterr().out
    for line in ("model.residual = @residual.in_both", "model.head_mixing = @head_mixing.in_both"):
        assert line in told
    assert "head_mixing.in_both.start = 1.0" in told
