#!/usr/bin/env python3
"""settings_page - docs/settings.md, from the program's own tables.

usage: tools/settings_page.py TUTTI >docs/settings.md        (make docs does it)

tests/e2e/docs.sh compares the page with the program.
"""

import json
import subprocess
import sys

HEAD = """# Settings

`make docs` writes this page from the program's tables; do not edit it.

A setting is a line of a YAML file, flat (`model.layers: 4`) or nested, or `key=value` on the command line, which counts more than the file.
`tutti help optim.lr` explains one setting, `tutti list settings lr` finds those with `lr` in their name, and a key that does not exist is answered with the
nearest one that does. `tutti train FILE --dry-run` prints all settings of a run with their values. Names in parentheses say which models, optimisers or
sources an option belongs to.

A run that goes on must have the settings that it began with; those that decide nothing about what is computed may change, and the sections say so.
"""

# What a section is about; those without a name have no dot.
SECTIONS = [
    ("", "What is trained, and how", "Two of `batch`, `micro` and `accumulate` give the third. `zero`, `offload`, `collective`, `transport`, `isa`, `threads`, `graphs` and `run` may change whenever a run goes on."),
    ("model", "Models", "Vocabulary, classes and channels come from the data. `tutti list models` has presets: `model: gpt2-124m`."),
    ("optim", "Optimiser and learning rate", "[train.md](train.md) shows how to use them."),
    ("data", "Data", "[data-use.md](data-use.md) says what each source reads. `data.workers` and `data.ahead` may change whenever a run goes on."),
    ("train", "Length, averages, bad steps", "How long, EMA, frozen weights, what to do after NaN or a spike, early stop. `train.stop` may change whenever a run goes on, and `train.steps` and `train.epochs` where the schedule does not look at the end."),
    ("eval", "Evaluation", ""),
    ("sample", "Samples of text", "May change whenever a run goes on."),
    ("checkpoint", "Checkpoints", "[checkpoints.md](checkpoints.md) says what they hold. May change whenever a run goes on."),
    ("log", "Logs", "May change whenever a run goes on."),
    ("init", "Weights to start from", "A folder says which model and tokenizer its weights are for."),
    ("bn", "Batch norm", ""),
    ("exact", "Exact mode", "[exact.md](exact.md)"),
    ("loss_scale", "Loss scale", ""),
    ("mesh", "Mesh of ranks", "[ranks.md](ranks.md) and [parallelism.md](parallelism.md). May change whenever a run goes on."),
    ("layout", "Layout", "Which axis of the mesh cuts a dimension; `layout.LAYERS.DIM=AXIS` is for some layers only. May change whenever a run goes on."),
    ("exchange", "Exchange of gradients", "`exchange.bucket`, `exchange.order`, `exchange.sparse`, `exchange.chunks` and `exchange.meet` may change whenever a run goes on."),
    ("comm", "Communication", "May change whenever a run goes on."),
    ("loss", "Loss", "May change whenever a run goes on."),
]

FEW = 100000  # larger bounds are there to catch mistakes, nobody looks for them


def escape(text):
    return text.replace("|", "\\|")


def number(x):
    return f"{x:g}" if x != int(x) else str(int(x))


def values(setting):
    if "choices" in setting:
        return ", ".join(f"`{c}`" for c in setting["choices"].split("|"))
    low, high = setting.get("min"), setting.get("max")
    text = setting["type"]
    if low is not None and high is not None and high <= FEW:
        return f"{text}, {number(low)} to {number(high)}"
    if low is not None and low >= 1:
        return f"{text}, {number(low)} or more"
    return text


def section_of(setting):
    name = setting["name"]
    return name.split(".")[0] if "." in name else ""


def row(setting):
    default = f"`{escape(setting['default'])}`" if setting["default"] else ""
    of = f" ({setting['of']})" if setting.get("of") else ""
    return f"| `{setting['name']}` | {default} | {values(setting)} | {escape(setting['doc'])}{of} |"


def main():
    out = subprocess.run([sys.argv[1], "list", "settings", "--json"], check=True, capture_output=True, text=True).stdout
    settings = json.loads(out)
    known = [s[0] for s in SECTIONS]
    others = [s for s in dict.fromkeys(map(section_of, settings)) if s not in known]
    page = [HEAD]
    for name, title, text in SECTIONS + [(s, s, "") for s in others]:
        rows = [row(s) for s in settings if section_of(s) == name]
        if not rows:
            continue
        page += [f"## {title}\n"] + ([f"{text}\n"] if text else [])
        page.append("| setting | default | values | meaning |\n|---|---|---|---|")
        page.append("\n".join(rows) + "\n")
    print("\n".join(page), end="")


if __name__ == "__main__":
    main()
