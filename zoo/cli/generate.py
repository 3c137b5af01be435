"""`zoo-generate`: text from a trained run."""

from __future__ import annotations

import argparse
import codecs
import json
import re
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.cli.arguments import Parser, ended_by_reader, failed

if TYPE_CHECKING:
    from zoo.generation.open_run import Run
    from zoo.generation.sampling import Text

PROGRAM = "zoo-generate"
EPILOG = """\
examples:
  zoo-generate --run runs/RUN --prompt "Fellow citizens"       continue a prompt, printed as it is generated
  zoo-generate --run runs/RUN --samples 3 --temperature 1      three documents from their beginning
  zoo-generate --run runs/RUN --prompts FILE --greedy --json   a prompt per line; an answer per line

A text ends where the model ends it, or at --max-tokens. The same seed gives the same texts.
"""
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but newline and tab: they could play tricks on a terminal


class PromptParser(Parser):
    def stray(self, word: str) -> str:
        if "\0" not in word and Path(word).is_dir():
            return f"write --run {shlex.quote(word)}"
        return f"{word!r} belongs behind a flag: --prompt {word!r}"


def parser() -> argparse.ArgumentParser:
    """What can be given."""
    parser = PromptParser(PROGRAM, "Write text with a trained run.", EPILOG)
    add = parser.add_argument
    add("--run", type=Path, metavar="RUN", help="the run's folder, as zoo-train wrote it")
    add("--checkpoint", type=int, metavar="STEP", help="the step of the checkpoint to use (default: the last)")
    add(
        "--prompt", action="append", default=[], metavar="TEXT", help="the text to continue; may be given several times"
    )
    add("--prompts", metavar="FILE", help="a file with a prompt on each line; - is standard input")
    add(
        "--max-tokens",
        type=int,
        metavar="M",
        help="the largest number of tokens per text (default: as many as the model was trained on)",
    )
    add("--samples", type=int, default=1, metavar="N", help="texts for each prompt (default: 1)")
    add("--seed", type=int, default=1, metavar="S", help="the seed of the random numbers (default: 1)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--temperature",
        type=float,
        default=0.8,
        metavar="T",
        help="below 1 sharper, above 1 flatter, 0 greedy (default: 0.8)",
    )
    how.add_argument("--greedy", action="store_true", help="always the likeliest token")
    add("--top-k", type=int, metavar="K", help="only the K likeliest tokens")
    add(
        "--top-p",
        type=float,
        default=1.0,
        metavar="P",
        help="only the likeliest tokens, whose probabilities add up to P",
    )
    add("--no-cache", action="store_true", help="run the whole text again for every token: slow, the same text")
    add("--json", action="store_true", help="one JSON object per line: prompt, sample, text, tokens, ended")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the answer is its exit code."""
    command = parser()
    arguments = command.parse_args(argv)
    if arguments.run is None:
        command.error("name the folder of a run: --run RUN")
    from zoo.errors import ZooError

    try:
        _generate(arguments)
        sys.stdout.flush()
    except ZooError as error:
        sys.stdout.flush()
        return failed(PROGRAM, error)
    except KeyboardInterrupt:
        _end_line()
        return 128 + signal.SIGINT
    except BrokenPipeError:
        return ended_by_reader()
    return 0


def _generate(arguments: argparse.Namespace) -> None:
    asked = prompts(arguments.prompt, arguments.prompts)
    from zoo.errors import ZooError
    from zoo.generation.generate import generate
    from zoo.generation.open_run import open_run
    from zoo.generation.sampling import Sampling

    sampling = Sampling(
        0.0 if arguments.greedy else arguments.temperature, arguments.top_k, arguments.top_p, arguments.seed
    )
    for name, value in (("samples", arguments.samples), ("max-tokens", arguments.max_tokens)):
        if value is not None and value < 1:
            raise ZooError(f"{name} = {value} must be at least 1")
    run = open_run(arguments.run, arguments.checkpoint)
    if not arguments.no_cache:
        run.check_cache()
    encoded = [run.encode(prompt) for prompt in asked]
    max_tokens, notes = run.limit(encoded, arguments.max_tokens)
    for note in (*run.notes, *notes):
        print(f"{PROGRAM}: {note}", file=sys.stderr)
    shown = Shown(run, asked, arguments.samples, arguments.json)
    texts = generate(
        run.model,
        encoded,
        run.tokenizer.eos,
        sampling,
        max_tokens=max_tokens,
        samples=arguments.samples,
        cache=not arguments.no_cache,
        on_token=shown.token if shown.live else None,
        vocab_size=run.tokenizer.vocab_size,
    )
    shown.begin()
    for text in texts:
        shown.whole(text)


def prompts(given: Sequence[str], file: str | None) -> list[str]:
    """The prompts of the command line, then those of the file; without any, the empty one."""
    from zoo.errors import ZooError

    if file is None:
        return list(given) or [""]
    name = "standard input" if file == "-" else file
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        lines = [line.removesuffix("\r") for line in data.decode("utf-8-sig").split("\n")]
    except OSError as error:
        raise ZooError(f"the prompts in {name} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ZooError(f"the prompts in {name} are not UTF-8: see line {line}") from error
    filled = [line for line in lines if line]
    if not filled:
        raise ZooError(f"there is no prompt in {name}: write one on each line")
    return [*given, *filled]


class Shown:
    """Texts as they are seen: a single one on a terminal appears as it is made, others when they are done."""

    def __init__(self, run: Run, prompts: Sequence[str], samples: int, as_json: bool) -> None:
        self.tokenizer = run.tokenizer
        self.prompts, self.samples, self.as_json = prompts, samples, as_json
        self.terminal = sys.stdout.isatty()
        self.live = self.terminal and len(prompts) * samples == 1 and not as_json
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a character may take several tokens

    def begin(self) -> None:
        if self.live:
            self._write(self.prompts[0])

    def token(self, text: Text) -> None:
        """The last token of the text was just made."""
        self._write(self.decoder.decode(self.tokenizer.pieces[text.tokens[-1]]))

    def whole(self, text: Text) -> None:
        """The text is done."""
        if self.live:
            self._write(self.decoder.decode(b"", final=True) + "\n")
            return
        prompt, written = self.prompts[text.prompt], self.tokenizer.decode(text.tokens)
        if self.as_json:
            line = {"prompt": prompt, "sample": text.sample + 1, "text": written, "tokens": len(text.tokens)}
            self._write(json.dumps({**line, "ended": text.ended}, ensure_ascii=False) + "\n")
            return
        if len(self.prompts) * self.samples > 1:
            number = [f"prompt {text.prompt + 1}"] if len(self.prompts) > 1 else []
            number += [f"sample {text.sample + 1}"] if self.samples > 1 else []
            self._write(f"--- {', '.join(number)} ---\n")
        self._write(prompt + written + "\n")

    def _write(self, text: str) -> None:
        if self.terminal:
            text = CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
        sys.stdout.flush()


def _end_line() -> None:
    """Leave the terminal's next line free for the shell."""
    if sys.stdout.isatty():
        print(flush=True)


if __name__ == "__main__":
    sys.exit(main())
