"""A ladder says how often its runs read their corpus, and is refused where that is too often."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.pretend_ladder import LADDER, SETTINGS

from zoo.bench.corpus_reads import CorpusReads, corpus_reads
from zoo.bench.ladder_plan import plan_ladder
from zoo.cli.bench import main
from zoo.data.training_size import TrainingSize
from zoo.errors import ConfigError

SOTU = TrainingSize("sotu", 1.0, 3_547_195, counted=False)


def test_the_sentence_names_what_is_read_more_than_once() -> None:
    reads = CorpusReads(SOTU, (0.5, 1.87, 4.4, 8.7), 17.3)
    assert reads.text == (
        "sotu has about 3.5 M training tokens, by its bytes: read 1.9 times at rung 2, 4.4 times at rung 3, 8.7 times at"
        " rung 4, 17 times by the longest run (of ladder.budgets)"
    )
    with pytest.raises(ConfigError) as error:
        reads.check(4.0)
    assert "Name a corpus of 15 M tokens or more" in str(error.value)
    assert "--set 'ladder.most_epochs = 18'" in str(error.value)
    reads.check(18)


def test_a_corpus_that_is_large_enough() -> None:
    reads = CorpusReads(SOTU._replace(counted=True), (0.1, 0.9), 0.99)
    assert reads.text == "sotu has 3,547,195 training tokens: no run reads any twice"
    reads.check(4.0)


def test_the_reads_are_those_of_the_plan(tmp_path: Path) -> None:
    (tmp_path / "small.gin").write_text(LADDER)
    plan = plan_ladder(str(tmp_path / "small.gin"), [], SETTINGS)
    reads = corpus_reads(plan)
    largest = plan.rungs[-1].plain.arm
    assert reads.by_rung[-1] == pytest.approx(largest.steps * largest.tokens_per_step / reads.size.tokens)
    assert reads.longest == pytest.approx(2 * reads.by_rung[-1], rel=0.02) and len(reads.by_rung) == 3


def test_the_smoke_ladder_reads_nothing_twice() -> None:
    assert corpus_reads(plan_ladder("ladder_smoke", [], [])).longest < 1


def test_pocket_is_refused_with_the_corpus_of_the_install_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], quick: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "bench"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # where it is prepared, its tokens are counted
    assert main(["--ladder", "pocket", "--gin", "v2_m1", "--store", str(store)]) == 2
    error = capsys.readouterr().err
    assert "17 times by the longest run" in error and "--set 'data.corpus = \"…\"'" in error
    assert not quick and not store.exists()


def test_the_plan_and_the_run_say_it_and_a_setting_allows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a corpus of 100 kB, which the top rung reads about twice."""
    monkeypatch.setattr("zoo.cli.ladder.print_plan", lambda *_: None)
    (tmp_path / "small.gin").write_text(LADDER)
    corpus = [each for each in settings if each.startswith(("data.corpus", "data.cache"))]
    command = ["--ladder", str(tmp_path / "small.gin"), "--plan", "--store", str(tmp_path / "bench")]
    assert main([*command, "--set", *SETTINGS, *corpus, "ladder.most_epochs = 1"]) == 2
    assert "What is read more than 1 times" in capsys.readouterr().err
    assert main([*command, "--set", *SETTINGS, *corpus, "ladder.most_epochs = 9"]) == 0
    assert "text.txt has about" in capsys.readouterr().out
