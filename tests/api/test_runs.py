"""Runs from Python and zoo-eval: trained, loaded, written with, evaluated, compared; and in the report of a bench."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.made_up_results import result

import zoo
from zoo.cli.evaluate import main
from zoo.cli.generate import main as generate
from zoo.cli.report import main as report
from zoo.evaluation.outcomes import FILE
from zoo.export.export import export_run

SAYING = "one two three four five six seven eight nine ten."


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of a method and of the plain block, trained on one saying; and tasks about it."""
    torch.set_num_threads(1)
    root = tmp_path_factory.mktemp("runs")
    (root / "texts").mkdir()
    for split, count in (("train", 30), ("valid", 2), ("test", 2)):
        (root / "texts" / f"{split}.jsonl").write_text((json.dumps({"text": SAYING}) + "\n") * count)
    tasks: dict[str, list[dict[str, Any]]] = {
        "pairs": [{"sentence_good": SAYING[:n], "sentence_bad": SAYING[n:0:-1]} for n in range(9, 21)],
        "cloze": [{"text": "one two three"}, {"text": "one two three four"}],
        "choices": [{"context": "one two three", "choices": ["four", "nine"], "answer": 0}],
    }
    for kind, rows in tasks.items():
        (root / f"{kind}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for seed in (1, 2):
        trained(root, seed, "wr_8_2")
        trained(root, seed)
    return root


def trained(root: Path, seed: int, *methods: str, **others: Any) -> zoo.Run:
    settings = {
        "data.corpus": root / "texts",
        "data.cache": root / "cache",
        "data.tokenizer": "bytes",
        "data.length": 32,
        "data.batch_size": 4,
        "model.depth": 1,
        "model.aspect": 16,
        "train.steps": 40,
        "train.lr": 0.02,
        "train.seed": seed,
        "train.device": "cpu",
    }
    folder = root / f"{'+'.join(methods) or 'plain'}-{seed}"
    return zoo.train(*methods, folder=folder, settings={**settings, **others})


def test_a_run_is_trained_loaded_and_written_with(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = trained(root, 1, "wr_8_2")  # is over: it is opened
    assert (
        run.summary is not None
        and run.summary.status == "finished"
        and run.summary.methods == ["temporal_mixing.wr_8_2"]
    )
    loaded = zoo.load(str(run.folder))
    prompts = ["one two", "seven"]
    texts = zoo.generate(loaded, prompts, temperature=0, max_tokens=10)
    assert [zoo.generate(loaded, prompt, temperature=0, max_tokens=10) for prompt in prompts] == texts
    arguments = ["--run", str(run.folder), "--prompt", "one two", "--greedy", "--max-tokens", "10", "--json"]
    assert generate(arguments) == 0
    assert json.loads(capsys.readouterr().out)["text"] == texts[0]
    assert zoo.generate(loaded, []) == []


def test_runs_that_cannot_be(root: Path) -> None:
    run = trained(root, 1)
    for call, complaint in (
        (lambda: zoo.load(root / "nowhere"), "there is no"),
        (lambda: trained(root, 1, "wr_8_2", **{"train.stepps": 3}), "train.stepps"),
        (lambda: trained(root, 1, "wr_8_2", **{"train.steps": 41}), "has another configuration"),
        (lambda: trained(root, 1, "wr_8_2", "wr_8"), "both stand in the slot temporal_mixing"),
        (lambda: trained(root, 3, **{"train.lr": {1, 2}}), "Gin has no notation for set"),
        (lambda: zoo.generate(zoo.load(root / "plain-1"), "a", temprature=1), "no temprature (nearest: temperature)"),
        (lambda: zoo.generate(zoo.load(root / "plain-1"), "a", max_tokens=0), "max_tokens = 0 must be at least 1"),
        (lambda: zoo.generate(run, None), "a prompt is a text, or a list of texts, not None"),
        (lambda: zoo.generate(run, ["a", 3]), "a prompt is a text, or a list of texts, not ['a', 3]"),
        (lambda: zoo.generate(run, "a", max_tokens="5"), "max_tokens must be int or None, not '5'"),
        (lambda: zoo.generate(run, "a", temperature=None), "temperature must be float, not None"),
        (lambda: zoo.generate(run, "a", top_p="x"), "top_p must be float, not 'x'"),
        (lambda: zoo.generate(run, "a", cache="no"), "cache must be bool, not 'no'"),
        (lambda: zoo.load(None), "a run is named by a text or a path, not by None"),
        (lambda: zoo.load(root / "plain-1", "40"), "step must be int or None, not '40'"),
        (lambda: zoo.train(folder=3), "the folder of a run is named by a text or a path, not by 3"),
        (lambda: zoo.train(folder=root / "x", gin=[3]), "a Gin file is named by a text or a path, not by 3"),
        (lambda: zoo.train(folder=root / "x", gin=None), "gin names Gin files, one or a list of them, and None does"),
        (lambda: zoo.train(folder=root / "x", settings=["train.steps"]), "settings are a dictionary from names"),
        (lambda: zoo.train(folder=root / "x", settings={"a = 1\nb": 3}), r"'a = 1\nb' cannot be the name of a setting"),
        (lambda: zoo.evaluate(None, "pairs", "x"), "zoo.evaluate takes a run, or the folder of a run or an export"),
        (lambda: zoo.evaluate(run, 3, "x"), "a kind of task is named by a text, not by 3"),
        (lambda: zoo.evaluate(run, "pairs", None), "a task is named by a text or a path, not by None"),
        (lambda: zoo.evaluate(run, "pairs", "x", most="3"), "most must be int or None, not '3'"),
        (lambda: zoo.evaluate(run, "corpus", "x", split=3), "a split is named by a text, not by 3"),
        (lambda: zoo.results(None), "the folder of a bench is named by a text or a path, not by None"),
    ):
        with pytest.raises(zoo.ZooError) as error:
            call()
        assert complaint in str(error.value)
    with pytest.raises(
        zoo.ZooError, match="zoo.generate takes a run, as zoo.load and zoo.train return it, and not a str"
    ):
        zoo.generate(str(root), "one")  # type: ignore[call-overload]
    with pytest.raises(zoo.ZooError, match="there is no Gin file sizes/tyni"):
        zoo.train("wr_8_2", folder=root / "x", gin="sizes/tyni")


def test_outcomes_are_compared_over_items_and_seeds(root: Path) -> None:
    runs = {name: [zoo.load(root / f"{name}-{seed}") for seed in (1, 2)] for name in ("wr_8_2", "plain")}
    outcomes = {name: [zoo.evaluate(run, "pairs", root / "pairs.jsonl") for run in of] for name, of in runs.items()}
    assert all(each.figures["accuracy"] > 0.9 for of in outcomes.values() for each in of)  # it knows its saying
    difference = zoo.compare(outcomes["wr_8_2"], outcomes["plain"], "margin")
    means = [sum(each.figures["margin"] for each in outcomes[name]) / 2 for name in ("wr_8_2", "plain")]
    assert difference.n == 2 and difference.mean == pytest.approx(means[0] - means[1])
    assert zoo.compare(outcomes["wr_8_2"][0], outcomes["plain"][0], "margin").degrees == 11
    assert zoo.compare(runs["wr_8_2"], runs["plain"]).n == 2  # by their summaries


def test_a_corpus_gives_the_loss_of_the_run_s_own_validation(root: Path) -> None:
    run = zoo.load(root / "plain-1")
    found = zoo.evaluate(run, "corpus", root / "texts", split="valid")
    assert run.summary is not None
    # A document begins with the separator that ended the one before, as in validation; there it may see earlier ones.
    assert found.figures["loss"] == pytest.approx(run.summary.valid_loss, abs=0.5)
    assert found.figures["bits_per_byte"] < 1.5 and found.items == 2


def test_the_command(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours, theirs = ([str(root / f"{name}-{seed}") for seed in (1, 2)] for name in ("wr_8_2", "plain"))
    tasks = [f"--{kind}={root / kind}.jsonl" for kind in ("pairs", "cloze", "choices")]
    assert main([*ours, "--against", *theirs, *tasks]) == 0
    out = capsys.readouterr().out
    assert "| wr_8_2-1 | wr_8_2 | 1 | cloze | 2 | loss |" in out and "| choices | bits_per_byte | lower | 2 |" in out
    lines = (root / "wr_8_2-1" / FILE).read_text().splitlines()
    assert [json.loads(line)["task"] for line in lines] == ["pairs", "cloze", "choices"]
    assert main([ours[0], *tasks, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["task"] for row in rows] == ["pairs", "cloze", "choices"] and rows[1]["items"] == 2
    assert len((root / "wr_8_2-1" / FILE).read_text().splitlines()) == 3  # nothing is measured twice
    assert main([ours[0], tasks[0], "--again"]) == 0
    assert len((root / "wr_8_2-1" / FILE).read_text().splitlines()) == 4


def test_the_command_takes_what_was_exported(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, exported = zoo.load(root / "wr_8_2-2"), root / "exported"
    export_run(run, exported)
    tasks = [f"--{kind}={root / kind}.jsonl" for kind in ("pairs", "cloze", "choices")]
    corpus = ["--corpus", str(root / "texts"), "--split", "test"]
    assert main([str(exported), str(run.folder), "--again", *tasks, *corpus, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    for one, other in zip(rows[:4], rows[4:], strict=True):
        assert one["figures"] == pytest.approx(other["figures"], abs=1e-5) and one["folder"] == str(exported)
        assert all(one[field] == other[field] for field in ("name", "seed", "step", "task", "identity", "items"))
    assert main([str(exported), "--against", str(run.folder), *tasks]) == 0
    assert "| exported | wr_8_2 | 2 | cloze | 2 | loss |" in capsys.readouterr().out
    assert len((exported / FILE).read_text().splitlines()) == 4  # nothing is measured twice


def test_the_command_refuses_in_a_sentence(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.jsonl").write_text('{"text": "a b"}\n{"text": \n')
    run, store = str(root / "plain-1"), tmp_path / "store"
    store.mkdir()
    (store / "results.jsonl").write_text("")
    for arguments, complaint in (
        ([run], "name a task: --corpus, --pairs, --cloze or --choices FILE, or --task NAME"),
        ([run, "--cloze", str(tmp_path / "bad.jsonl")], "bad.jsonl, line 2: it is cut off or no JSON object"),
        ([run, "--cloze", str(tmp_path / "none")], "No such file"),
        ([str(tmp_path), "--cloze", str(root / "cloze.jsonl")], "has a config.gin, nor of a model of transformers"),
        ([str(store), "--cloze", str(root / "cloze.jsonl")], "there is no result yet"),
        ([run, "--pears", "x"], "there is no --pears (nearest: --pairs"),
        ([run, "--corpus", str(root / "texts"), "--most", "0"], "must be at least 1"),
    ):
        try:
            code = main(arguments)
        except SystemExit as ended:
            code = int(str(ended.code))
        error = capsys.readouterr().err
        assert code == 2 and error.startswith("zoo-eval: ") and complaint in error and "Traceback" not in error


def test_a_tokenizer_of_another_vocabulary_is_refused(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(root / "plain-1", tmp_path / "copy")
    sentencepiece = trained(root, 4, **{"data.tokenizer": "sentencepiece", "data.vocab_size": 280})
    shutil.copy(sentencepiece.folder / "tokenizer.model", tmp_path / "copy" / "tokenizer.model")
    assert main([str(tmp_path / "copy"), "--cloze", str(root / "cloze.jsonl")]) == 2
    assert "is not the tokenizer that the run was trained with" in capsys.readouterr().err
    prepared = next((root / "cache").rglob("manifest.json")).parent
    assert main([str(root / "plain-1"), "--corpus", str(prepared)]) == 2
    assert "it holds the tokens of one tokenizer" in capsys.readouterr().err
    # Per token the two cannot be compared; per byte they can.
    assert main([str(root / "plain-1"), "--against", str(sentencepiece.folder), "--corpus", str(root / "texts")]) == 0
    out, err = capsys.readouterr()
    assert "compare their bits_per_byte" in err and "| texts | bits_per_byte | lower | 1 |" in out


def test_the_runs_of_a_bench(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that count, found by their keys, with outcomes in the store that the report pairs with their baselines."""
    for name, arm in (("wr_8_2", "m"), ("plain", "baseline")):
        for seed in (0, 1, 2):  # the tuning seed has no folder, and is not asked for
            key = zoo.load(root / f"{name}-{seed}").config.fingerprint()[:16] if seed else f"{arm}0" * 4
            row = {**asdict(result(arm, seed, 3.0 + seed / 10)), "key": key}
            with (tmp_path / "results.jsonl").open("a") as file:
                file.write(json.dumps(row) + "\n")
            if seed:
                shutil.copytree(root / f"{name}-{seed}", tmp_path / "runs" / f"{arm}-s{seed}-{key[:8]}")
    assert main([str(tmp_path), "--pairs", str(root / "pairs.jsonl")]) == 0
    assert capsys.readouterr().err == ""
    assert len((tmp_path / FILE).read_text().splitlines()) == 4
    assert report([str(tmp_path), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["downstream"]
    assert [(row["figure"], row["seeds"], row["items"]) for row in rows] == [("accuracy", 2, 12), ("margin", 2, 12)]
    shutil.rmtree(tmp_path / "runs")
    assert main([str(tmp_path), "--pairs", str(root / "pairs.jsonl")]) == 2
    assert "has no folders of runs any more" in capsys.readouterr().err
