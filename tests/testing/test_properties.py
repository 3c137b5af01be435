"""The conformance kit: every installed method passes it, and every check fails on a method that is wrong on purpose."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from helpers import wrong_methods as wrong, wrong_modules

from zoo.cli import plugins as cli
from zoo.errors import PluginError, ZooError
from zoo.extension import Layer, Residual
from zoo.plugins import finder, registry
from zoo.slots import SLOTS
from zoo.testing import NotConforming, check, conformance, gradients, properties, ranks
from zoo.testing.cases import Broken, Case, smallest
from zoo.testing.method_under_test import subject
from zoo.testing.pair import on_two_ranks
from zoo.testing.property_list import attempt
from zoo.testing.report import lines
from zoo.training.ranks import Ranks

METHODS = [(found.slot, found.id) for found in finder.find_methods()]
# All that may break a property, because they reproduce what was logged, and say so.
DECLARED = {"wr_9_log": {"causal"}, **dict.fromkeys(("wr_8_log", "wr_8_1_log"), {"deterministic"})}


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


# --- every method


@pytest.mark.parametrize(("slot", "id"), METHODS)
def test_conforms(slot: str, id: str) -> None:
    report = check(id, slot, only=[name for name in properties() if name != "ranks"])
    report.verify()
    assert {result.property for result in report.results if result.status == "declared"} == DECLARED.get(id, set())


def test_all_conform_on_two_ranks() -> None:
    """One pair of ranks for all: to start one takes longer than a method does."""
    subjects = [subject(f"{slot}.{id}") for slot, id in METHODS]

    def broken(pair: Ranks) -> dict[str, str]:
        same = [each for each in subjects if each.declared.deterministic]
        return {each.id: words for each in same if (words := ranks.in_two(each, ranks.RANKS[0], pair))}

    assert on_two_ranks(broken, seconds=600) == {}


def test_there_are_methods() -> None:
    assert len(METHODS) >= 70


@pytest.mark.slow  # minutes each: a few, in both hosts and optimised
@pytest.mark.parametrize(
    ("slot", "id"),
    [each for slot in SLOTS for each in random.Random(0).sample([m for m in METHODS if m[0] == slot], 2)],
)
def test_conforms_when_compiled(slot: str, id: str) -> None:
    check(id, slot, only=["compiled fully"], thorough=True).verify()


@pytest.mark.slow  # a quarter of a minute each, of which the C++ compiler would need more if it were to optimise
@pytest.mark.parametrize("number", range(len(METHODS)), ids=[".".join(each) for each in METHODS])
def test_every_method_is_the_same_as_compiled_code(number: int) -> None:
    """What inductor writes for it computes the same, forwards and backwards, in one of the two hosts."""
    from torch._inductor import config

    with config.patch({"aot_inductor.debug_compile": True}):
        case = gradients.COMPILED_FULLY[number % 2]
        outcome = attempt(gradients.compiled_fully, subject(".".join(METHODS[number])), case)
    assert not isinstance(outcome, Broken), outcome


# --- every check


class Wrong(NamedTuple):
    method: type
    property: str  # that must be found broken
    detail: str  # … in these words
    case: str = "depth 1, length 1, batch 1"  # the beginning of the smallest case
    slot: str = "temporal_mixing"


WRONG = [
    Wrong(wrong.MaskAfterSoftmax, "causal", "token 0 sees token 1", "depth 1, length 2, batch 1"),
    Wrong(wrong.WholeSequence, "causal", "token 0 sees token 1", "depth 1, length 2, batch 1"),
    Wrong(wrong.PeeksWithoutGradient, "causal", "token 0 sees what follows", "depth 1, length 2"),
    Wrong(
        wrong.DividesByLength,
        "causal",
        "token 0 sees what follows: its logits in a sequence of 1",
        "depth 1, length 2, batch 1",
    ),
    Wrong(wrong.LeaksBehindCache, "causal", "behind a cache, token 1 sees token 2", "depth 1, length 3, batch 1"),
    Wrong(wrong.NormalisesTheBatch, "rows", "depends on the other rows", "depth 1, length 1, batch 2"),
    Wrong(wrong.DividesByLength, "documents", "has other logits alone than as a row", "depth 1, length 2, batch 1"),
    Wrong(wrong.LeaksInOneSetting, "settings", "with over = 'all': token 0 sees token 1", "depth 1, length 2, batch 1"),
    Wrong(wrong.SaysItLeaks, "causal", "declares causal = False, but nothing of the sort was found", ""),
    Wrong(
        wrong_modules.LooksAheadInHeads, "causal", "token 0 sees token 1", "depth 1, length 2, batch 1", "head_mixing"
    ),
    Wrong(wrong_modules.ForgetsEarlierHeads, "cached", "from token 1 on", "depth 1, length 2, batch 1", "head_mixing"),
    Wrong(wrong_modules.ChangesTheHeads, "pure", "project changes heads.v in place", slot="head_mixing"),
    Wrong(wrong_modules.ChangesTheAnswer, "pure", "output changes normed.query in place", slot="head_mixing"),
    Wrong(wrong.TableFromZero, "cached", "from token 1 on", "depth 1, length 2, batch 1"),
    Wrong(wrong.ScoresFromZero, "cached", "chunks of 1, 1 differs", "depth 1, length 2, batch 1", "score_mixing"),
    Wrong(
        wrong.ForgetsThePast,
        "cached",
        "decoding in chunks of 1, 1 differs from the whole",
        "depth 1, length 2, batch 1",
    ),
    Wrong(wrong.RowsNotFirst, "cached", "rows are rearranged", "depth 1, length 2, batch 2"),
    Wrong(wrong.DeadParameter, "gradients", "reaches layers.0.temporal_mixing.unused", "depth 1, length 12, batch 1"),
    Wrong(wrong.WronglyIdle, "gradients", "temporal_mixing.w is declared idle and gets a gradient", "depth 1"),
    Wrong(wrong.IdleMisspelt, "gradients", "temporal_mixing.v is declared idle and is no parameter", "depth 1"),
    Wrong(wrong.WrongBackward, "derivative", "is not the derivative"),
    Wrong(wrong.StopsGradient, "derivative", "layers.0.temporal_mixing.w is not the derivative"),
    Wrong(wrong.CountsItsPasses, "checkpointed", "with activation checkpointing"),
    Wrong(wrong.OtherFormulaWhenCompiled, "compiled", "compiled (backend eager), the logits are others", "depth 2"),
    Wrong(wrong.ConvolutionInForward, "deterministic", "something is drawn in every pass"),
    Wrong(wrong.AlwaysDropsOut, "deterministic", "something is drawn in every pass"),
    Wrong(wrong.DrawsInVain, "deterministic", "draws from torch's global random state"),
    Wrong(wrong.DrawsFromPython, "deterministic", "draws from Python's global random state"),
    Wrong(wrong.Remembers, "deterministic", "something is kept between passes"),
    Wrong(wrong.SaysItIsRandom, "deterministic", "declares deterministic = False, but nothing", ""),
    Wrong(wrong.ChangesItsInput, "pure", "forward changes u in place"),
    Wrong(
        wrong.ChangesTheHistory,
        "pure",
        "write changes history.ffn[0] in place",
        "depth 2, length 1, batch 1",
        "residual",
    ),
    Wrong(wrong.SetsThreads, "contained", "a pass in training changes torch's number of threads from", "depth 2"),
    Wrong(wrong.SetsDenormalsWhenBuilt, "contained", "changes torch's flushing of denormals from False", "depth 2"),
    Wrong(wrong.Misspelt, "effect", "it computes what the plain block does", "depth 3", "residual"),
    Wrong(wrong.ForgetsToDeclare, "builds", 'write reads = frozenset({"ffn"}) in ForgetsToDeclare', slot="residual"),
    Wrong(wrong.NeedsContiguous, "layout", "not contiguous in memory ends in", "depth 1, length 1, batch 2"),
    Wrong(wrong_modules.RandomStart, "builds", "built from the same seed differ in layers.0.temporal_mixing.w"),
    Wrong(wrong_modules.NotFinite, "builds", "the model's answer is not finite with initial parameters"),
    Wrong(wrong_modules.WrongShape, "builds", "it fails with RuntimeError"),
    Wrong(wrong_modules.WrongKind, "builds", "the method built a WrongKind, not a TemporalMixing"),
    Wrong(wrong_modules.TakesWidthForHeads, "builds", "it fails with RuntimeError", "depth 1", slot="score_mixing"),
    Wrong(wrong_modules.ProbesNoTensor, "builds", "the probe gate of layer 1 is not a finite tensor"),
    Wrong(wrong_modules.FixedType, "types", "it fails with RuntimeError"),
    Wrong(wrong_modules.MeetsAutocast, "types", "under autocast to bfloat16, as the trainer uses it, it fails"),
    Wrong(wrong_modules.OtherFormulaWhenNarrow, "types", "under autocast to bfloat16 it answers otherwise"),
    Wrong(
        wrong_modules.ShortTable, "limits", "let them work, or raise a ZooError that says why not", "depth 1, length 12"
    ),
    Wrong(wrong_modules.StartsElsewhere, "start", "declares to start as baseline and does not"),
    Wrong(wrong_modules.StartsBesideFreshNormsAlone, "upcycled", "does not beside trained weights: the logits differ"),
    Wrong(wrong_modules.StartsAsNobody, "start", "there is no temporal_mixing method no_such_method"),
    Wrong(wrong_modules.PlainTensor, "saved", "neither a parameter nor a buffer"),
    Wrong(wrong_modules.BufferNotSaved, "saved", "neither a parameter nor a buffer"),
    Wrong(wrong_modules.StatisticNotSaved, "saved", "neither a parameter nor a buffer"),
    Wrong(wrong_modules.StaysOnTheCPU, "moved", "on the device meta it fails"),
    Wrong(wrong_modules.HoldsALambda, "moved", "pickle"),
    Wrong(wrong_modules.SharesItsWeight, "moved", "a deep copy of the model"),
    Wrong(wrong.NormalisesTheBatch, "ranks", "on two ranks that average gradients (DDP), the loss is", "depth 3"),
    Wrong(wrong_modules.BorrowsAMatrix, "ranks", "mixed torch.Tensor and DTensor", "depth 3"),
    Wrong(wrong_modules.BlowsUp, "trains", "is not finite", "depth 1"),
    Wrong(wrong_modules.TakesOtherSlotsForEmpty, "combined", "somebody else is here", "depth 1", slot="score_mixing"),
]


@pytest.mark.parametrize("each", WRONG, ids=lambda each: each.method.__name__)
def test_a_wrong_method_is_found_out(each: Wrong) -> None:
    report = check(each.method, each.slot, only=[each.property])
    (result,) = report.results
    assert result.status == "failed"
    assert each.detail in result.detail
    assert result.case.startswith(each.case) and bool(result.case) == bool(each.case)
    with pytest.raises(
        NotConforming, match=f"{each.slot} method {each.method.__name__} of {each.method.__module__} does not"
    ):
        report.verify()


def test_every_property_is_shown_to_fail() -> None:
    assert {each.property for each in WRONG} == set(properties()) - {"cost"}


def test_a_right_method_passes_all() -> None:
    report = check(wrong.Mixing, "temporal_mixing")
    report.verify()
    assert report.ok and not report.failures
    assert [result.property for result in report.results] == [*properties()]
    assert report["start"].status == "skipped" and report["causal"].status == "ok"


def test_the_derivative_of_a_function_that_curves() -> None:
    """Over a long step a difference is not the derivative, and nothing is wrong."""

    class Curved(wrong.Mixing):
        def mix(self, u: torch.Tensor) -> torch.Tensor:
            return u + torch.sin(400 * u) / 400

    check(Curved, "temporal_mixing", only=["derivative"]).verify()


def test_what_is_declared_is_caught_and_told() -> None:
    (result,) = check(wrong.StopsGradientAsDeclared, only=["derivative"]).results
    assert result.status == "declared" and "is not the derivative" in result.detail and result.case


@pytest.mark.parametrize(("least", "status"), [(2, "ok"), (3, "failed")])
def test_only_a_single_head_may_be_refused(least: int, status: str) -> None:
    class Pairs(Residual):
        def __init__(self, layer: Layer) -> None:
            super().__init__()
            if layer.num_heads < least:
                raise ZooError(f"it needs {least} heads, and the model has {layer.num_heads}")

    result = check(Pairs, "residual", only=["builds"])["builds"]
    assert result.status == status and f"it needs {least} heads" in result.detail


def test_a_method_that_cannot_be_decoded_must_be_refused() -> None:
    assert "the model refuses" in check("wr_9_log", only=["cached"])["cached"].detail
    assert "does not refuse" in check(wrong.RefusesNothing, only=["cached"])["cached"].detail


def test_a_method_that_cannot_be_built_is_not_looked_at_further() -> None:
    def build(layer: object) -> object:
        raise ValueError("no such luck")

    report = check(build, "residual")
    assert [result.property for result in report.results] == ["builds"] and report.not_tested
    assert "ValueError: no such luck" in report["builds"].detail and "test_properties.py:" in report["builds"].detail
    assert "no such luck" in check(build, "residual", only=["causal"])["causal"].detail


@pytest.mark.parametrize("method", [wrong_modules.WrongShape, wrong_modules.NotFinite, wrong.ForgetsToDeclare])
def test_what_means_nothing_after_a_failure_is_not_tested(method: type) -> None:
    report = check(method)
    assert [result.property for result in report.results] == ["builds"]
    assert [each.property for each in report.not_tested] == [*properties()[1:]]
    assert {each.because for each in report.not_tested} == {"builds"} and report.cost is None
    *_, left_out, verdict = lines(report)
    assert left_out.startswith("  not tested because builds failed: pure, ")
    assert verdict.startswith(f"  1 of {len(properties())} properties broke")
    assert json.loads(json.dumps(report.as_dict()))["not_tested"][0] == {"property": "pure", "because": "builds"}
    with pytest.raises(NotConforming, match="not tested because builds failed"):
        report.verify()


def test_an_in_place_change_is_told_once() -> None:
    report = check(wrong.ChangesTheStream, only=["builds", "pure", "gradients", "trains"])
    assert [result.property for result in report.failures] == ["pure"]
    assert "write changes stream in place" in report["pure"].detail
    assert report.not_tested == (("gradients", "pure"), ("trains", "pure"))
    assert "inplace operation" in check(wrong.ChangesTheStream, only=["trains"])["trains"].detail  # asked for it alone


def test_a_method_may_declare_that_it_is_the_plain_block() -> None:
    report = check(wrong.PlainAsDeclared, only=["effect", "start"])
    assert report.ok and "as it declares" in report["effect"].detail


def test_a_method_may_call_itself_by_keyword() -> None:
    class ByKeyword(Residual):
        def __init__(self, layer: Layer) -> None:
            super().__init__()

        def write(self, site: str, stream: torch.Tensor, branch: torch.Tensor, history: object) -> torch.Tensor:
            return self.read(site, stream, history=history) + branch

    assert check(ByKeyword, only=["pure", "layout"]).ok


def test_settings_are_handed_over() -> None:
    assert check("wr_8_2", settings={"n": 2}, only=["builds", "cached"]).ok
    assert "unexpected keyword" in check("wr_8_2", settings={"m": 2}, only=["builds"])["builds"].detail


def test_the_slot_of_a_factory_is_found() -> None:
    assert check(wrong.Mixing, only=["builds"]).slot == "temporal_mixing"
    with pytest.raises(PluginError, match="built a object, which is none of"):
        check(lambda layer: object(), only=["builds"])
    with pytest.raises(PluginError, match="no slot residul .nearest: residual"):
        check(wrong.Mixing, slot="residul")


def test_unknown_names_are_told() -> None:
    with pytest.raises(PluginError, match="there is no method wr_88.*nearest: wr_8"):
        check("wr_88")
    with pytest.raises(ZooError, match="there is no property casual .nearest: causal"):
        check("wr_1", only=["casual"])


def test_the_cost_is_counted() -> None:
    report = check("skip_vector", only=["cost"])
    assert report.cost and report.cost.parameters == 2 * 4 * 64
    assert 0.2 < report.cost.time < 20


def test_the_smallest_case_is_found() -> None:
    def probe(case: Case) -> Broken | None:
        return Broken("found") if case.depth >= 2 and case.length * case.batch >= 6 else None

    case, broken = smallest(Case(5, 9, 2), Broken("large"), ("depth", "length", "batch"), probe)
    assert (case.depth, case.length, case.batch, broken) == (2, 3, 2, "found")
    assert smallest(Case(1, 1, 1), Broken("itself"), ("depth",), lambda case: None) == (Case(1, 1, 1), "itself")


def test_a_report_is_plain_data() -> None:
    report = check("wr_9_log", only=["causal", "cached"])
    data = json.loads(json.dumps(report.as_dict()))
    assert data["ok"] and data["results"][0]["status"] == "declared"
    assert any("declared" in line and "token 1 sees token 2" in line for line in lines(report))


# --- on the command line


def test_zoo_plugins_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "wr_1", "residual.v1_m3", "--only", "causal", "cached"]) == 0
    out = capsys.readouterr().out
    assert "temporal_mixing.wr_1 of transformer-zoo" in out and "2 of 2 methods conform" in out
    assert cli.main(["check", "wr_8_2", "--set", "n=2", "--only", "builds", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["id"] == "wr_8_2"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["wr_88"], "there is no method wr_88 (nearest: "),
        (["residual.wr_1"], "wr_1 is a temporal_mixing method, not a residual method"),
        ([], "name the methods to check"),
        (["wr_8_2", "--set", "m=2"], "temporal_mixing.wr_8_2 has no setting m"),
        (["wr_8_2", "--set", "n='a'"], "temporal_mixing.wr_8_2.n must be"),
        (["wr_1", "--only", "casual"], "there is no property casual"),
    ],
)
def test_zoo_plugins_check_tells(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", *arguments]) == 2
    assert told in capsys.readouterr().err


def test_zoo_plugins_check_fails_with_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = finder.MethodEntry("temporal_mixing", "leak", "helpers.wrong_methods:WholeSequence", "a-method", "1.0")
    monkeypatch.setattr(registry, "find_methods", lambda: [found])
    assert cli.main(["check", "leak", "--only", "causal"]) == 1
    out = capsys.readouterr().out
    assert "FAILED    token 0 sees token 1" in out and "smallest case: depth 1, length 2, batch 1" in out
    assert "1 of 1 properties broke" in out


def test_matrix(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["matrix"]) == 0
    out = capsys.readouterr().out
    assert "works" in out and "refused (1)" in out and "stands in place of attention" in out


def test_a_strangers_method_is_left_out_of_the_matrix(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = finder.MethodEntry("temporal_mixing", "choosy", "helpers.wrong_modules:NeedsASetting", "a-method", "1.0")
    every = [*finder.find_methods(), found]
    monkeypatch.setattr(registry, "find_methods", lambda: every)
    assert cli.main(["matrix"]) == 0
    out = capsys.readouterr().out
    assert "works" in out and "left out: choosy of a-method 1.0 cannot be built: TypeError" in out


# --- in pytest


def _pytest(folder: Path, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_pytest_zoo_method(tmp_path: Path) -> None:
    code, out = _pytest(tmp_path, "--zoo-method", "skip_scalar", "-v")
    assert code == 0, out
    assert f"collected {len(properties())} items" in out and "zoo::skip_scalar::causal PASSED" in out


def test_pytest_zoo_method_tells_what_is_wrong(tmp_path: Path) -> None:
    code, out = _pytest(tmp_path, "--zoo-method", "skip_scaler")
    assert code == 4 and "there is no method skip_scaler (nearest: skip_scalar" in out


def test_conformance_makes_a_test_of_each_property() -> None:
    test = conformance("skip_scalar")
    (mark,) = test.pytestmark  # type: ignore[attr-defined]
    assert mark.args == ("property", properties())
    test("cost")
    with pytest.raises(NotConforming, match="causal: token 0 sees token 1"):
        conformance(WRONG[0].method)("causal")
    with pytest.raises(pytest.skip.Exception, match="not tested because builds failed"):
        conformance(wrong_modules.WrongShape)("causal")
