"""One method, described."""

from __future__ import annotations

import pytest
from helpers.fake_distributions import Site, install_two

from zoo.cli import plugins as cli


@pytest.mark.parametrize("id", ["fine", "residual.fine"])
def test_show(site: Site, capsys: pytest.CaptureFixture[str], id: str) -> None:
    install_two(site)
    assert cli.main(["show", id]) == 0
    out = capsys.readouterr().out
    for line in (
        "residual.fine of a-method 1.0 (pack.m:build)",
        "  what it does  it gains",
        "  family        m — Gains of all sorts",
        "It is fine.",
        "  gain  float; default 1.0",
        "  model.residual = @residual.fine",
        "  residual.fine.gain = 1.0",
    ):
        assert line in out.splitlines()


@pytest.mark.parametrize(
    "id, told",
    [
        ("fin", "there is no method fin (nearest: fine)"),
        ("bad", "score_mixing.bad of a-method 1.0 is broken: ModuleNotFoundError"),
        ("residual.bad", "bad is a score_mixing method"),
    ],
)
def test_show_what_cannot_be_shown(site: Site, capsys: pytest.CaptureFixture[str], id: str, told: str) -> None:
    install_two(site)
    assert cli.main(["show", id]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"zoo-plugins: {told}")
