"""The layout is what its documents say: sentences of folders, lists of packages, the diagram, a test per module."""

from __future__ import annotations

import ast
import configparser
import importlib.util
import io
import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = sorted(file.parent for file in (ROOT / "zoo").glob("*/__init__.py"))
PUBLIC = "testing"  # its __init__.py has the functions that a method's tests call


def sentence(folder: Path) -> str:
    """The first paragraph of the folder's docstring, without the final full stop."""
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or ""
    return plain(docstring.partition("\n\n")[0])


def plain(text: str) -> str:
    return " ".join(text.split()).rstrip(".")


def test_every_folder_has_one_sentence_and_nothing_else() -> None:
    for folder in FOLDERS:
        body = ast.parse((folder / "__init__.py").read_text("utf-8")).body
        assert sentence(folder), f"{folder.name}/__init__.py lacks its sentence"
        assert len(body) == 1 or folder.name == PUBLIC, f"{folder.name}/__init__.py holds more than its sentence"


def test_the_pages_have_the_sentences_of_the_folders() -> None:
    sentences = {folder.name: sentence(folder) for folder in FOLDERS}
    table = re.findall(r"^\| `zoo/(\w+)` \| (.+) \|$", (ROOT / "docs/architecture.md").read_text("utf-8"), re.M)
    assert {name: plain(text) for name, text in table} == sentences
    tree = (ROOT / "README.md").read_text("utf-8").partition("## Where things are")[2]
    lines = re.findall(r"^ {6}(\w+)/ +(.+(?:\n {12,}\S.*)*)", tree, re.M)
    assert {name: plain(text) for name, text in lines} == sentences


def test_every_package_is_installed() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    there = {".".join(file.parent.relative_to(ROOT).parts) for file in (ROOT / "zoo").rglob("__init__.py")}
    assert set(setup["options"]["packages"].split()) == there | {"zoo_plugins", "zoo_gin"}


def test_the_diagram_is_fresh() -> None:
    spec = importlib.util.spec_from_file_location("write_import_diagram", ROOT / "tools/write_import_diagram.py")
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    page = tool.PAGE.read_text("utf-8")
    assert page == tool.fresh(page), "run tools/run python tools/write_import_diagram.py"


LARGE = 60  # lines of code, from which on a module has a test file of its name
TESTED_ELSEWHERE = {
    "zoo/api/fitting.py": "tests/api/test_models.py",
    "zoo/bench/measured_process.py": "tests/bench/test_timing.py",
    "zoo/bench/arms.py": "tests/bench/test_runner.py",
    "zoo/bench/collect.py": "tests/bench/test_runner.py",
    "zoo/bench/forecast.py": "tests/end_to_end/test_cli_bench.py",
    "zoo/bench/ladder_notes.py": "tests/bench/test_ladder_runner.py",
    "zoo/bench/ladder_plan.py": "tests/bench/test_ladder.py",
    "zoo/bench/measure_costs.py": "tests/bench/test_step_costs.py",
    "zoo/bench/schedule.py": "tests/end_to_end/test_cli_bench.py",
    "zoo/bench/synthetic_step.py": "tests/bench/test_step_costs.py",
    "zoo/bench/test_split.py": "tests/end_to_end/test_damaged_stores.py",
    "zoo/catalogue/core_settings.py": "tests/catalogue/test_settings_list.py",
    "zoo/catalogue/scaffold/__init__.py": "tests/end_to_end/test_strangers.py",
    "zoo/cli/evaluate.py": "tests/api/test_runs.py",
    "zoo/cli/plugin_commands/check.py": "tests/testing/test_properties.py",
    "zoo/cli/arguments.py": "tests/end_to_end/test_cli_train.py",
    "zoo/cli/bench.py": "tests/end_to_end/test_cli_bench.py",
    "zoo/cli/generate.py": "tests/generation/test_generate.py",
    "zoo/cli/ladder.py": "tests/end_to_end/test_cli_ladder.py",
    "zoo/cli/plugins.py": "tests/catalogue/test_method_list.py",
    "zoo/cli/report.py": "tests/end_to_end/test_cli_bench.py",
    "zoo/cli/train.py": "tests/end_to_end/test_cli_train.py",
    "zoo/config/configuration.py": "tests/config/test_load.py",
    "zoo/data/classic_books.py": "tests/data/test_fetch.py",
    "zoo/data/encoding.py": "tests/data/test_prepare.py",
    "zoo/data/finish.py": "tests/data/test_prepare.py",
    "zoo/data/manifest.py": "tests/data/test_prepare.py",
    "zoo/data/opening.py": "tests/data/test_mixture.py",
    "zoo/data/reader.py": "tests/data/test_batches.py",
    "zoo/data/shards.py": "tests/data/test_prepare.py",
    "zoo/data/survey.py": "tests/data/test_corpus.py",
    "zoo/data/known_corpora.py": "tests/data/test_fetch.py",
    "zoo/data/packed_files.py": "tests/data/test_readers.py",
    "zoo/data/tables.py": "tests/data/test_readers.py",
    "zoo/data/tiktoken_model.py": "tests/data/test_tokenizer.py",
    "zoo/data/token_interface.py": "tests/data/test_tokenizer.py",
    "zoo/data/tokenizer_json.py": "tests/data/test_tokenizer.py",
    "zoo/engines/attempt.py": "tests/engines/test_launcher.py",
    "zoo/engines/board.py": "tests/engines/test_launcher.py",
    "zoo/evaluation/corpus_task.py": "tests/evaluation/test_tasks.py",
    "zoo/evaluation/outcomes.py": "tests/evaluation/test_tasks.py",
    "zoo/evaluation/scoring.py": "tests/evaluation/test_tasks.py",
    "zoo/extension.py": "tests/methods/test_methods.py",
    "zoo/export/sentence_pieces.py": "tests/export/test_tokenizer_file.py",
    "zoo/export/transformers_model.py": "tests/export/test_export.py",
    "zoo/generation/open_run.py": "tests/generation/test_generate.py",
    "zoo/history.py": "tests/testing/test_noticed.py",
    "zoo/kernels/chunks.py": "tests/kernels/test_scan.py",
    "zoo/kernels/recurrence.py": "tests/kernels/test_scan.py",
    "zoo/kernels/blocked_attention.py": "tests/kernels/test_attend.py",
    "zoo/kernels/shared_pattern.py": "tests/kernels/test_attend.py",
    "zoo/model/attention.py": "tests/methods/test_llama.py",
    "zoo/model/block.py": "tests/methods/test_llama.py",
    "zoo/model/language_model.py": "tests/methods/test_llama.py",
    "zoo/model/replay.py": "tests/methods/test_methods.py",
    "zoo/plugins/import_process.py": "tests/plugins/test_plugin_trouble.py",
    "zoo/report/archive_page.py": "tests/report/test_results_page.py",
    "zoo/report/arm_results.py": "tests/report/test_verdicts.py",
    "zoo/report/chart_svg.py": "tests/report/test_charts.py",
    "zoo/report/figure_list.py": "tests/report/test_figures.py",
    "zoo/report/html_first_screen.py": "tests/report/test_html_report.py",
    "zoo/report/measured_cards.py": "tests/report/test_results_page.py",
    "zoo/report/method_charts.py": "tests/report/test_html_report.py",
    "zoo/report/method_pages.py": "tests/report/test_html_report.py",
    "zoo/report/overview.py": "tests/report/test_standings.py",
    "zoo/report/results_folder.py": "tests/report/test_results_page.py",
    "zoo/report/claim_outcomes.py": "tests/report/test_claims.py",
    "zoo/report/ladder_judge.py": "tests/report/test_ladder_results.py",
    "zoo/report/ladder_predictions.py": "tests/report/test_ladder_results.py",
    "zoo/report/ladder_tables.py": "tests/report/test_ladder_results.py",
    "zoo/report/legend.py": "tests/report/test_verdicts.py",
    "zoo/report/tensorboard.py": "tests/report/test_learned_values.py",
    "zoo/runs/tensorboard.py": "tests/runs/test_metrics.py",
    "zoo/runs/lost_rows.py": "tests/end_to_end/test_damaged_runs.py",
    "zoo/runs/run_folder.py": "tests/end_to_end/test_damaged_runs.py",
    "zoo/runs/summary.py": "tests/training/test_trainer.py",
    "zoo/state.py": "tests/methods/test_decode.py",
    "zoo/statistics/difference.py": "tests/statistics/test_crossed.py",
    "zoo/system/global_state.py": "tests/testing/test_noticed.py",
    "zoo/system/json_rows.py": "tests/system/test_foreign_text.py",
    "zoo/testing/building.py": "tests/testing/test_properties.py",
    "zoo/testing/causality.py": "tests/testing/test_properties.py",
    "zoo/testing/combination.py": "tests/testing/test_properties.py",
    "zoo/testing/compatibility.py": "tests/methods/test_combinations.py",
    "zoo/testing/decoding.py": "tests/testing/test_properties.py",
    "zoo/testing/gradients.py": "tests/testing/test_properties.py",
    "zoo/testing/persistence.py": "tests/testing/test_properties.py",
    "zoo/testing/pair.py": "tests/testing/test_properties.py",
    "zoo/testing/property_list.py": "tests/testing/test_properties.py",
    "zoo/testing/purity.py": "tests/testing/test_properties.py",
    "zoo/testing/pytest_plugin.py": "tests/testing/test_properties.py",
    "zoo/testing/ranks.py": "tests/testing/test_properties.py",
    "zoo/testing/report.py": "tests/testing/test_properties.py",
    "zoo/testing/runner.py": "tests/testing/test_properties.py",
    "zoo/training/finish.py": "tests/training/test_trainer.py",
    "zoo/training/nonfinite.py": "tests/training/test_trainer.py",
    "zoo/training/progress_bar.py": "tests/training/test_progress.py",
    "zoo/training/rank_watch.py": "tests/end_to_end/test_lost_ranks.py",
    "zoo/training/ranks.py": "tests/end_to_end/test_ranks.py",
    "zoo/training/saving.py": "tests/end_to_end/test_sharded.py",
    "zoo/training/session.py": "tests/training/test_trainer.py",
    "zoo/training/settings.py": "tests/training/test_trainer.py",
    "zoo/training/setup.py": "tests/training/test_trainer.py",
    "zoo/training/sharded.py": "tests/end_to_end/test_sharded.py",
    "zoo/training/step.py": "tests/training/test_trainer.py",
    "zoo/training/validation.py": "tests/training/test_trainer.py",
    "zoo/kernels/channel_decay.py": "tests/kernels/test_scan.py",
    "zoo/kernels/delta_rule.py": "tests/kernels/test_scan.py",
    "zoo/kernels/diagonal_scan.py": "tests/kernels/test_scan.py",
    "zoo/kernels/scalar_decay.py": "tests/kernels/test_scan.py",
    "zoo/kernels/selective_scan.py": "tests/kernels/test_scan.py",
}


def code_lines(file: Path) -> int:
    """Lines with code: without blank lines, comments and docstrings."""
    text = file.read_text("utf-8")
    described: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            described |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    written = {n for token in tokens if token.type not in layout for n in range(token.start[0], token.end[0] + 1)}
    return len(written - described)


def mirror(module: Path) -> Path:
    """Where the tests of a module are."""
    stem = module.parent if module.name == "__init__.py" else module.with_suffix("")
    return Path("tests", *stem.parent.parts[1:], f"test_{stem.name}.py")


def test_every_large_module_has_its_tests() -> None:
    modules = [file.relative_to(ROOT) for file in (ROOT / "zoo").rglob("*.py") if code_lines(file) > LARGE]
    missing = [str(m) for m in modules if not (ROOT / mirror(m)).exists() and str(m) not in TESTED_ELSEWHERE]
    assert not missing, "write tests/PACKAGE/test_MODULE.py, or say in TESTED_ELSEWHERE where the tests are"


def test_what_is_tested_elsewhere_is_there() -> None:
    for module, tests in TESTED_ELSEWHERE.items():
        assert (ROOT / module).is_file() and (ROOT / tests).is_file(), (module, tests)
        assert not (ROOT / mirror(Path(module))).exists(), f"{module} has a test file of its own by now"
