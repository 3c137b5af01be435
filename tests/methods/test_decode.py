"""Decoding with a state gives what the whole pass gives: every method, in both hosts, however the tokens come."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Sequence

import pytest
import torch
from helpers.random_models import METHODS, factory, random_model, tokens
from torch import Tensor

from zoo.errors import ZooError
from zoo.extension import ATTENTION, AttentionInputs, Extension, Layer, Residual, Site, overrides, preset
from zoo.generation.generate import Decoder, generate, state_bag
from zoo.generation.sampling import Sampling
from zoo.history import History
from zoo.model.language_model import LanguageModel
from zoo.model.replay import attention_again, layers_again
from zoo.plugins.settings import settings_of
from zoo.state import ModuleTensors, State

LENGTH = 11
HOSTS = ["sequential", "parallel"]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
# Chunk sizes: token by token; behind a prefill of 1, n and n + 1 tokens, where n = 4 is the most that methods keep by default.
PLANS = [[1] * LENGTH, [1, 2, 5, 3], [4, 1, 5, 1], [5, 2, 4]]
REFUSED = {"wr_8_log", "wr_8_1_log", "wr_9_log"}  # all of the catalogue that may refuse
TABLES = {"wr_9", "v4_m1a", "v4_m1b", "v4_m1c", "v4_mc"}  # what has a weight for each position
PAIRED = {"differential"}  # what needs an even number of key heads
DECODED = [(slot, method) for slot, method in METHODS if method not in REFUSED]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@torch.no_grad()
def decode(built: LanguageModel, inputs: Tensor, plan: Sequence[int]) -> Tensor:
    """The logits of all tokens, given in chunks."""
    bag = state_bag(inputs.size(1))
    logits = []
    for chunk in inputs.split(list(plan), dim=1):
        logits.append(built(chunk, state_bag=bag))
        bag.increment_step_nr(chunk.size(1))
    return torch.cat(logits, dim=1)


def assert_close(decoded: Tensor, whole: Tensor) -> None:
    assert decoded.shape == whole.shape
    size = max(1.0, float(whole.abs().max()))
    error = float((decoded - whole).abs().max()) / size
    assert error < TOLERANCE[whole.dtype], f"off by {error:.1e}"


@torch.no_grad()
def assert_decodes(built: LanguageModel, plans: Sequence[Sequence[int]] = PLANS) -> None:
    inputs = tokens(2, LENGTH)
    whole = built.eval()(inputs)
    for plan in plans:
        assert_close(decode(built, inputs, plan), whole)


# --- each method alone


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(("slot", "method"), [("residual", None), *DECODED])
def test_decodes(slot: str, method: str | None, host: str) -> None:
    chosen = {slot: factory(slot, method)} if method else {}
    build = functools.partial(random_model, parallel=host == "parallel", **chosen)
    depth, plans = (4, PLANS) if host == "sequential" else (3, [PLANS[0], PLANS[3]])
    assert_decodes(build(depth=depth, num_kv_heads=2), plans)
    assert_decodes(build(depth=2, num_kv_heads=4, max_length=LENGTH).float(), [[4, 1, 1, 1, 4]])
    assert_decodes(build(depth=1, num_kv_heads=2 if method in PAIRED else 1), [[1, 4, 6]])


TEMPORAL = [method for slot, method in DECODED if slot == "temporal_mixing"]
NOT_TTESTS = ["attention_input", "attention", "output"]  # the sites beside the default one


def has(slot: str, method: str, setting: str) -> bool:
    return any(known.name == setting for known in settings_of(factory(slot, method)))


PLACED = [method for method in TEMPORAL if has("temporal_mixing", method, "site")]  # the others choose their sites


@pytest.mark.parametrize(("method", "site"), list(itertools.product(PLACED, NOT_TTESTS)))
def test_decodes_at_every_site(method: str, site: str) -> None:
    mixing = preset(factory("temporal_mixing", method), site=site)
    parallel = len(method) % 2 == 0
    assert_decodes(random_model(depth=3, num_kv_heads=2, parallel=parallel, temporal_mixing=mixing), PLANS[:3])


@pytest.mark.parametrize("method", [m for m in TEMPORAL if has("temporal_mixing", m, "n")])
def test_decodes_with_other_kernels(method: str) -> None:
    for n in (1, 2, 7):  # and prefills of n and n + 1 tokens
        built = random_model(depth=2, temporal_mixing=preset(factory("temporal_mixing", method), n=n))
        assert_decodes(built, [[n, 1, 1, LENGTH - n - 2], [n + 1, 2, LENGTH - n - 3]])


@pytest.mark.parametrize("method", [m for m in TEMPORAL if has("temporal_mixing", m, "chunk")])
@pytest.mark.parametrize("site", ["attention", "ffn"])
def test_decodes_across_the_borders_of_chunks(method: str, site: str) -> None:
    """Passes that end before, at and behind the border of a chunk, and hold one, several and parts of them."""
    built = random_model(depth=2, temporal_mixing=preset(factory("temporal_mixing", method), chunk=4, site=site))
    assert_decodes(built, [[3, 1, 4, 3], [4, 7], [5, 6], [8, 3], [9, 2], [1, 10], [1] * LENGTH])


@pytest.mark.parametrize(
    ("method", "chosen"),
    [(m, {"first": first}) for m in ("v1_m2", "v1_m5") for first in ("embedding", "zero")]
    + [(m, {"keep_skip": True}) for m in ("v3_m1", "v3_m4_2")],
)
def test_decodes_with_other_settings(method: str, chosen: dict[str, object]) -> None:
    assert_decodes(random_model(depth=3, residual=preset(factory("residual", method), **chosen)), PLANS[:2])


def test_decodes_with_normed_queries_and_keys() -> None:
    assert_decodes(random_model(depth=2, qk_norm=True, num_kv_heads=2))


@pytest.mark.parametrize("method", ["v3_m1", "v4_m1", "v4_m1a", "v4_m1c", "v4_m1e", "wr_7_2", "wr_9", "wr_attend"])
@torch.no_grad()
def test_decodes_chunks_longer_than_the_blocks_of_rows(method: str) -> None:
    (slot,) = (slot for slot, known in DECODED if known == method)
    built = random_model(depth=2, max_length=150, num_kv_heads=2, **{slot: factory(slot, method)}).eval()
    inputs = tokens(1, 150)
    assert_close(decode(built, inputs, [7, 140, 1, 2]), built(inputs))


# --- several together


def sample() -> list[tuple[str | None, str | None, str | None, str]]:
    """Methods that run layers again with each other slot, score mixing with temporal mixing, and all three."""
    drawn = random.Random(4)
    by_slot = {slot: [m for s, m in DECODED if s == slot] for slot, _ in METHODS}
    again = [m for m in by_slot["residual"] if "blocks" in extension("residual", m).reads]
    temporal = PLACED
    # What changes the answer of attention cannot be run again; tests of combinations see that it is refused.
    scores = [m for m in by_slot["score_mixing"] if not overrides(extension("score_mixing", m), "output")]
    sites = itertools.cycle(["ffn", "attention_input"])
    pairs: list[tuple[str | None, str | None, str | None]] = []
    pairs += [(residual, None, mixing) for residual in again for mixing in drawn.sample(temporal, 3)]
    pairs += [(residual, score, None) for residual in again for score in drawn.sample(scores, 1)]
    pairs += [(None, score, drawn.choice(temporal)) for score in scores]
    pairs += [(drawn.choice(by_slot["residual"]), drawn.choice(scores), drawn.choice(temporal)) for _ in range(10)]
    return [(*pair, next(sites)) for pair in pairs]


def extension(slot: str, method: str) -> Extension:
    layer = Layer(
        index=1,
        num_layers=2,
        width=32,
        ffn_dim=48,
        num_heads=4,
        num_kv_heads=4,
        head_dim=8,
        max_length=16,
        parallel=False,
        norm_eps=1e-5,
    )
    return factory(slot, method)(layer)


@pytest.mark.parametrize(("residual", "score", "mixing", "site"), sample())
def test_decodes_together(residual: str | None, score: str | None, mixing: str | None, site: str) -> None:
    chosen = {
        "residual": residual and factory("residual", residual),
        "score_mixing": score and factory("score_mixing", score),
        "temporal_mixing": mixing and preset(factory("temporal_mixing", mixing), site=site),
    }
    parallel = site == "ffn" and score is None
    assert_decodes(random_model(depth=3, num_kv_heads=2, parallel=parallel, **chosen), [PLANS[2], [2, *[1] * 9]])


class Separate(Residual):
    """Other inputs for keys and values than for queries."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()

    def read(self, site: Site, stream: Tensor, history: History) -> Tensor | AttentionInputs:
        return AttentionInputs(stream, stream.roll(1, -1), -stream) if site == ATTENTION else stream


class Wide(Residual):
    """Two copies of the stream beside each other."""

    widens = True

    def __init__(self, layer: Layer) -> None:
        super().__init__()

    def open(self, embedding: Tensor) -> Tensor:
        return torch.stack([embedding, 2 * embedding], dim=2)

    def close(self, stream: Tensor) -> Tensor:
        return stream.sum(dim=2)

    def read(self, site: Site, stream: Tensor, history: History) -> Tensor:
        return stream[:, :, 0] - stream[:, :, 1]

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        return stream.flip(2) + branch[:, :, None]


class Twice(Residual):
    """The layers below, run again several times on several inputs."""

    reads = frozenset({"scores", "blocks"})

    def __init__(self, layer: Layer) -> None:
        super().__init__()

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        if not history.blocks:
            return stream + branch
        runs = [layers_again(history, stream), layers_again(history, -branch), attention_again(history, branch)]
        return stream + branch + sum(torch.stack(run).mean(dim=0) for run in runs)


@pytest.mark.parametrize("residual", [Separate, Wide, Twice])
def test_decodes_what_a_plugin_may_do(residual: type[Residual]) -> None:
    score, mixing = factory("score_mixing", "v4_m1e"), factory("temporal_mixing", "wr_8_2")
    assert_decodes(random_model(depth=3, residual=residual, score_mixing=score, temporal_mixing=mixing), PLANS[:3])


# --- rows that are reordered, duplicated, dropped


@pytest.mark.parametrize(("slot", "method"), [("residual", None), *DECODED])
@torch.no_grad()
def test_state_follows_reordering(slot: str, method: str | None) -> None:
    built = random_model(depth=2, num_kv_heads=2, **({slot: factory(slot, method)} if method else {})).eval()
    bag, rows = state_bag(LENGTH), tokens(3, LENGTH)
    start = 0
    for size, order in ((5, [2, 0, 0, 1]), (1, [3, 0, 1]), (2, [1, 2]), (1, [1, 0]), (2, [0, 1])):
        decoded = built(rows[:, start : start + size], state_bag=bag)
        bag.increment_step_nr(size)
        assert_close(decoded, built(rows[:, : start + size])[:, start:])
        start += size
        rows = rows[order].clone()
        rows[:, start:] = tokens(len(order), LENGTH - start, seed=start)  # from here on, rows differ again
        bag.reorder(torch.tensor(order))


# --- text


def greedy_text(built: LanguageModel, prompt: list[int], end: int, limit: int) -> list[int]:
    """The likeliest tokens one by one, each from a whole pass over its own prompt and what followed."""
    text: list[int] = []
    while len(text) < limit:
        token = int(built(torch.tensor([prompt + text]))[0, -1].argmax())
        if token == end:
            break
        text.append(token)
    return text


@pytest.mark.parametrize(("slot", "method"), [("residual", None), *DECODED])
@torch.no_grad()
def test_greedy_text_of_ragged_prompts_is_that_of_whole_passes(slot: str, method: str | None) -> None:
    built = random_model(depth=2, num_kv_heads=2, **({slot: factory(slot, method)} if method else {})).eval()
    prompts = [row[:n].tolist() for row, n in zip(tokens(3, 7), (1, 7, 4), strict=True)]
    free = [greedy_text(built, prompt, -1, 6) for prompt in prompts]
    end = free[0][4]  # what the first row, whose prompt is the shortest, says before the longest prompt is over
    expected = [text[: text.index(end)] if end in text else text for text in free]
    for cache in (True, False) if method is None else (True,):
        texts = generate(built, prompts, end, Sampling(temperature=0.0), max_tokens=6, cache=cache)
        assert [text.tokens for text in texts] == expected


def test_beam_search_is_the_same_with_and_without_the_state() -> None:
    from fairseq2.data.tokenizers import VocabularyInfo
    from fairseq2.generation.beam_search import BeamSearchSequenceGenerator
    from fairseq2.nn import BatchLayout

    methods = {"residual": "v3_m1", "score_mixing": "v4_m1e", "temporal_mixing": "wr_9"}
    built = random_model(depth=2, **{slot: factory(slot, method) for slot, method in methods.items()}).eval()
    prompts = tokens(2, 5)
    beams = []
    for cache in (True, False):
        generator = BeamSearchSequenceGenerator(
            Decoder(built, 14, cache), VocabularyInfo(50, None, 1, 1, None), beam_size=3, max_gen_len=8
        )
        output = generator(prompts, BatchLayout((2, 5), [5, 3]))
        beams.append([[(h.seq.tolist(), float(h.score)) for h in row] for row in output.hypotheses])
    assert len(beams[0][0]) == 3
    for with_state, without in zip(*(itertools.chain(*rows) for rows in beams), strict=True):
        assert with_state[0] == without[0]
        assert with_state[1] == pytest.approx(without[1], rel=1e-5)


# --- refusals


@pytest.mark.parametrize(("slot", "method"), METHODS)
def test_only_those_refuse_that_cannot(slot: str, method: str) -> None:
    built = random_model(depth=2, **{slot: factory(slot, method)}).eval()
    assert all(e.decodes for e in built.extensions()) == (method not in REFUSED)
    if method in REFUSED:
        inputs = tokens(1, 3)
        with pytest.raises(ZooError, match="cannot be decoded step by step"):
            built(inputs, state_bag=state_bag(3))
        assert built(inputs).shape == (1, 3, 50)


@pytest.mark.parametrize(("slot", "method"), DECODED)
@torch.no_grad()
def test_past_the_trained_length_only_position_tables_refuse(slot: str, method: str) -> None:
    built = random_model(depth=2, max_length=5, **{slot: factory(slot, method)}).eval()
    inputs = tokens(2, 8)
    if method not in TABLES:
        assert_close(decode(built, inputs, [4, 1, 1, 2]), built(inputs))
        return
    assert_close(decode(built, inputs[:, :5], [3, 1, 1]), built(inputs[:, :5]))
    with pytest.raises(ZooError, match="has weights for 5 positions and was given 6"):
        decode(built, inputs, [5, 1, 1, 1])


# --- what the state costs


def bytes_of_state(length: int, **chosen: object) -> int:
    built = random_model(depth=4, num_kv_heads=2, **chosen)
    bag = state_bag(length)
    with torch.no_grad():
        built(tokens(1, length), state_bag=bag)
    return bag.size_bytes()


def test_the_state_is_the_keys_and_values_and_what_the_method_keeps() -> None:
    def grown(slot: str, method: str) -> int:
        build = {slot: factory(slot, method)}
        return (bytes_of_state(9, **build) - bytes_of_state(8, **build)) // 8  # numbers of float64 a token

    cache = 4 * 2 * 2 * 8  # layers, keys and values, heads, width
    assert grown("residual", "v1_m3") == cache
    assert (
        grown("residual", "v3_m1") == cache + (1 + 2 + 3) * 2 * 8
    )  # values of the layers below, once for each layer above
    assert grown("score_mixing", "v4_m1") == cache  # the ordinary cache of all layers
    assert grown("score_mixing", "v4_m1e") == cache + 1 + 2 + 3 + 4  # and m weights per key
    assert grown("temporal_mixing", "wr_8_2") == cache  # n rows, whatever the length
    assert grown("temporal_mixing", "wr_9") == cache  # a D×D state
    assert grown("temporal_mixing", "wr_attend") == cache + 4 * 32  # every input


def test_a_token_does_not_copy_the_past() -> None:
    owner, state = torch.nn.Module(), State(state_bag(1000))
    places, whole = set(), []
    for i in range(1000):
        whole.append(torch.full((2, 3, 1, 4), float(i)))
        stored = state.append(owner, "k", whole[-1], dim=2)
        places.add(stored.data_ptr())
    assert torch.equal(stored, torch.cat(whole, dim=2))
    assert len(places) <= 8  # 1, 16, 32, … 1024
    held = state.bag.maybe_get_state(owner, ModuleTensors)
    assert held is not None and held.size_bytes() == stored.numel() * 4 <= held.capacity_bytes()


def test_training_goes_on_after_text_was_made() -> None:
    """fairseq2 generates in inference mode; nothing of that may be left behind."""
    built = random_model(depth=2, dtype=torch.float32, rope_theta=123.0).train()
    next(generate(built, [[3, 4, 5]], 1, Sampling(temperature=0.0), max_tokens=3))
    assert built.training
    built.loss(tokens(2, 5), tokens(2, 5, seed=1)).backward()
