"""Learning rates of the plain block that tie: what the first screen says of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from helpers.made_up_ladder import made_up_ladder

from zoo.bench.store import Result
from zoo.bench.suite_notes import SuiteNotes
from zoo.report.findings import Findings
from zoo.report.remarks import remarks


def tried_at_half(other: float, taken: float, further: Sequence[tuple[float, float]] = ()) -> Findings:
    """A ladder at whose first rung the plain block was also tried at half its rate, and v1_m4 took `taken`.

    `further` are rates with their losses on a further seed.
    """
    made = made_up_ladder({"v1_m4": 1.15, "v1_m3": 1.0})
    first = next(arm for (_, depth, label), arm in made.notes.ladder_arms.items() if (depth, label) == (2, "plain"))
    run = next(run for run in made.results if run.arm == first.arm and run.seed == 1)
    tried = [
        dataclasses.replace(run, key=f"rate {factor} {seed}", seed=seed, lr_factor=factor, valid_loss=loss)
        for seed, of in ((0, ((1.0, 4.0), (0.5, other), (2.0, 4.5))), (10_001, further))
        for factor, loss in of
    ]
    arms = {
        key: dataclasses.replace(arm, factor=taken) if key[1:] == (2, "v1_m4") else arm
        for key, arm in made.notes.ladder_arms.items()
    }
    results = [
        dataclasses.replace(each, lr_factor=taken) if each.arm.endswith(" 2 v1_m4") else each for each in made.results
    ]
    return Findings.of([*results, *tried], made.notes._replace(ladder_arms=arms))


def test_a_rate_that_chance_chose_for_the_plain_block_is_said() -> None:
    ((_, said),) = remarks(tried_at_half(4.001, 0.5))
    assert said.startswith(
        "Rung 1 of small (100 k parameters), sequential host: the plain block took its learning rate × 1, and v1_m4 took another"
        " one, as good for the plain block within chance: on the one seed that chooses, its losses at × 1 and × 0.5 are 0.0010"
        " nats apart, and chance alone may part them by 0.0"
    )
    assert remarks(tried_at_half(4.05, 0.5)) == []  # no tie
    ((_, said),) = remarks(tried_at_half(4.001, 0.5, [(1.0, 4.0), (0.5, 4.001)]))
    assert "on the seeds that choose, its losses at × 1 and × 0.5 are 0.0010 nats apart" in said
    assert remarks(tried_at_half(4.001, 0.5, [(1.0, 4.0), (0.5, 4.1)])) == []  # a further seed has decided
    assert remarks(tried_at_half(4.001, 1.0)) == []  # the same rate


def both_rates(gain: float) -> tuple[list[Result], SuiteNotes]:
    """The runs and notes of a ladder at whose first rung half the plain block's rate ties with it, and is better by `gain`."""
    made = made_up_ladder({"v1_m4": 1.15, "v1_m3": 1.0})
    key, plain = next((key, arm) for key, arm in made.notes.ladder_arms.items() if key[1:] == (2, "plain"))
    runs = [run for run in made.results if run.arm == plain.arm and run.seed in plain.seeds]
    better = [
        dataclasses.replace(
            run, key=f"{run.key} half", lr_factor=0.5, valid_loss=run.valid_loss - gain, test_loss=run.test_loss - gain
        )
        for run in runs
        if run.valid_loss is not None and run.test_loss is not None
    ]
    arms = {**made.notes.ladder_arms, key: dataclasses.replace(plain, ties=[0.5])}
    return [*made.results, *better], made.notes._replace(ladder_arms=arms)


def judged_at_half(gain: float) -> Findings:
    return Findings.of(*both_rates(gain))


def test_a_plain_block_judged_at_both_rates_that_tie_says_what_that_changes() -> None:
    report = judged_at_half(0.02)
    ((_, said),) = remarks(report)
    (other,) = report.ladders[0].other_rates
    before, after = ({row.label: row.compute for row in rows} for rows in (report.ladders[0].rows, other.rows))
    mine, theirs = before["v1_m4"], after["v1_m4"]
    assert mine and theirs and theirs.log.value < mine.log.value
    place = "Rung 1 of small (100 k parameters), sequential host"
    assert said.startswith(
        f"{place}: two learning rates of the plain block tie on the seeds that choose, so it was judged at both."
    )
    assert f"v1_m4 {math.exp(theirs.log.value):.2f} (" in said and "plain, other seeds" not in said
    assert said.endswith("; verdicts would change: v1_m3 hurts in place of the same.")
    ((short, same),) = remarks(judged_at_half(0.0))
    assert same.endswith("; no verdict would change.")
    tie = "learning rates of the plain block tie within chance; at the other one"
    assert short == f"{tie} no method would have another verdict"
    assert remarks(report)[0].short == f"{tie} v1_m3 would have another verdict"


def test_a_later_command_with_more_seeds_of_the_plain_block_keeps_its_other_rate() -> None:
    """As many seeds as the other arms have are enough; with fewer the other rate waits for its runs."""
    results, notes = both_rates(0.02)
    arms = dict(notes.ladder_arms)
    key, plain = next((key, arm) for key, arm in arms.items() if key[1:] == (2, "plain"))
    one = next(run for run in results if (run.arm, run.seed, run.lr_factor) == (plain.arm, 1, plain.factor))
    arms[key] = dataclasses.replace(plain, seeds=[*plain.seeds, 90])
    more = [*results, dataclasses.replace(one, key="one more", seed=90)]
    notes = notes._replace(ladder_arms=arms)
    assert len(Findings.of(more, notes).ladders[0].other_rates) == 1
    untested = [dataclasses.replace(run, test_loss=None) if run.key.endswith(" half") else run for run in more]
    assert Findings.of(untested, notes).ladders[0].other_rates == ()  # no loss on the ladder's split
    fewer = [run for run in more if not (run.arm == plain.arm and run.lr_factor == 0.5 and run.seed == 1)]
    assert Findings.of(fewer, notes).ladders[0].other_rates == ()
