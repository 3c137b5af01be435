"""Write the diagram of docs/architecture.md from the imports that are really there.

tools/run python tools/write_import_diagram.py            # writes it
tools/run python tools/write_import_diagram.py --check    # says whether it is fresh; a test does the same
"""

from __future__ import annotations

import sys
from pathlib import Path

import grimp

PAGE = Path(__file__).resolve().parent.parent / "docs/architecture.md"
BEGIN, END = "<!-- diagram: tools/write_import_diagram.py -->\n", "<!-- end of the diagram -->\n"

# What the drawing puts in one box, from the outside in. A package that is missing here is an error.
GROUPS = {
    "outside": ("cli", "api", "testing", "hub", "autoload"),
    "judge": ("report", "engines", "bench", "scaling", "statistics"),
    "train": ("evaluation", "export", "generation", "training", "runs", "data"),
    "assemble": ("catalogue", "config", "plugins", "counting"),
    "compute": ("model", "kernels", "pretrained"),
    "interface [zoo/*.py: the public interface]": (
        "replay",
        "extension",
        "history",
        "scores",
        "sums",
        "scan",
        "functional",
        "state",
    ),  # fmt: skip
}
LEFT_OUT = {"errors", "slots", "system", "__main__"}  # imported from everywhere, importing nothing of the zoo


def edges() -> dict[str, set[str]]:
    """Which member of `zoo` imports which, imports for type checking included."""
    graph = grimp.build_graph("zoo")
    imports: dict[str, set[str]] = {name.removeprefix("zoo."): set() for name in graph.find_children("zoo")}
    for module in graph.modules - {"zoo"}:
        own = module.split(".")[1]
        for other in graph.find_modules_directly_imported_by(module):
            if other.startswith("zoo.") and (its := other.split(".")[1]) != own:
                imports[own].add(its)
    return imports


def reduced(direct: dict[str, set[str]]) -> dict[str, set[str]]:
    """The edges that no longer path stands for: A → C goes where there are A → B and B → C."""

    def below(name: str) -> set[str]:
        return direct[name].union(*map(below, direct[name])) if direct[name] else set()

    return {name: {o for o in to if not any(o in below(other) for other in to - {o})} for name, to in direct.items()}


def diagram() -> str:
    """The block of Mermaid."""
    direct = edges()
    drawn = [name for names in GROUPS.values() for name in names]
    if set(drawn) | LEFT_OUT != set(direct):
        wrong = sorted(set(drawn) ^ (set(direct) - LEFT_OUT))
        raise SystemExit(f"{', '.join(wrong)}: not drawn, or not there any more; see GROUPS in {Path(__file__).name}")
    small = reduced({name: direct[name] - LEFT_OUT for name in drawn})
    lines = ["```mermaid", "graph TD"]
    for group, names in GROUPS.items():
        lines.append(f"  subgraph {group}; {'; '.join(names)}; end")
    lines += [f"  {name} --> {' & '.join(n for n in drawn if n in small[name])}" for name in drawn if small[name]]
    return "\n".join([*lines, "```", ""])


def fresh(text: str) -> str:
    """The page with the diagram of today."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{diagram()}{END}{after}"


def main(arguments: list[str]) -> int:
    text = PAGE.read_text("utf-8")
    if "--check" in arguments:
        print("fresh" if text == fresh(text) else "stale: run tools/write_import_diagram.py")
        return int(text != fresh(text))
    PAGE.write_text(fresh(text), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
