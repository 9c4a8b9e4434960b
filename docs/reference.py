"""Write what pages say about job files, errors, commands and methods from the code that decides it.

Run ``python docs/reference.py`` (``make fix`` does) after a change to one of them; a test compares.
"""

import inspect
import re
from pathlib import Path
from typing import Any

from typer.main import get_command

from fedsift import errors
from fedsift.cli import app
from fedsift.config import (
    job,
)
from fedsift.config import (
    parties as job_parties,
)
from fedsift.config import (
    steps as job_steps,
)
from fedsift.config.parties import KIND_SETS
from fedsift.config.toml import TEXTS
from fedsift.methods import registry

DOCS = Path(__file__).resolve().parent
BLOCK = re.compile(r"(<!-- reference:(\S+) -->\n).*?(<!-- /reference -->)", re.DOTALL)
_TYPES: dict[Any, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    list: "list",
    dict: "table",
    TEXTS: "list of texts",
    object: "any value",
}
_KEYS = {
    "_JOB_KEYS": "`[job]`: what is run",
    "_SPLIT_KEYS": "`[data]` with a catalogued set: one table is split, for simulations",
    "_TABLE_KEYS": "`[data]` with the parties' own tables",
    "_SHARED_KEYS": "`[data]`, both ways",
    "_PARTY_KEYS": "`[[party]]`: one for each organisation",
    "POLICY_KEYS": "`[party.policy]`, or `[policy]` of a party's own file: what it may reveal",
    "_RUNTIME_KEYS": "`[runtime]`: where it runs",
    "_OUTPUT_KEYS": "`[output]`: where the result goes",
    "_PARTY_FILE_DATA": "`[data]` of a party's own file",
    "_STEP_KEYS": "`[[step]]`: several methods one after the other, instead of `method` and `[method]`",
    "PREDICTING": '`[[step]]` with `method = "predict"`',
}
_MEANING = {
    "_JOB_KEYS.method": "name of the method, see below",
    "_JOB_KEYS.seed": "0 or more; repeats a run in one process, but for noise. Between organisations it drives public draws only (rows held out, groups tested): leave it out there",
    "_JOB_KEYS.timeout_seconds": "limit for each request to a party; the method's own (mostly 900) if missing",
    "_SPLIT_KEYS.dataset": "a name that `fedsift datasets` lists",
    "_SPLIT_KEYS.parties": "how many, or their names; 2 if missing",
    "_SPLIT_KEYS.label_holder": "vertical: who has the label; `label-holder` is a party of its own",
    "_SPLIT_KEYS.skew": 'horizontal: `"kmeans"` or `"dirichlet"` for parties whose rows differ',
    "_TABLE_KEYS.label": "the label column; in a vertical job `{ party = ..., column = ... }`; of survival times `time = ..., event = ...` instead of `column`, also in a horizontal job",
    "_TABLE_KEYS.id": "column, or columns, by which rows are matched with private set intersection",
    "_SHARED_KEYS.setting": '`"vertical"` (same rows, different columns) or `"horizontal"` (same columns, different rows)',
    "_SHARED_KEYS.task": '`"auto"`, `"classification"`, `"regression"` or `"survival"`',
    "_SHARED_KEYS.categorical": "columns that are categories although they hold numbers",
    "_PARTY_KEYS.name": "as others call it; with FLARE the name of the organisation",
    "_PARTY_KEYS.data": "CSV or Parquet file, relative to the job file",
    "_PARTY_KEYS.id": "its own name for the id column, if it differs",
    "_PARTY_KEYS.columns": "the features it brings; all if missing",
    "_PARTY_KEYS.policy": "what it may reveal, see below",
    "_PARTY_KEYS.file": "a file of its own that says all this instead",
    "POLICY_KEYS.methods": "methods it takes part in; any if missing",
    "POLICY_KEYS.may_reveal": "kinds of disclosure it allows, or sets of them; any other kind stops the run; if missing what a method needs, and nothing optional",
    "POLICY_KEYS.may_not_reveal": "kinds it never allows",
    "POLICY_KEYS.min_security_bits": 'weakest encryption it accepts, 128 if missing; `security = "plain"` counts as 0',
    "POLICY_KEYS.min_bin_size": "smallest bin, in rows, that may enter a count, 5 if missing",
    "POLICY_KEYS.min_class_size": "1 or more; fewest rows that share a class of the label, at whichever party it is; the largest number among all parties counts; if missing `min_bin_size`, but at least 5",
    "POLICY_KEYS.min_rows": "fewest rows of its own that it takes part with",
    "POLICY_KEYS.anonymous_names": "others see numbers instead of the names of its features, such as `shop #3`; vertical jobs only",
    "POLICY_KEYS.max_epsilon": "most that a run with differential privacy may spend on one of its rows; runs without it are refused then",
    "POLICY_KEYS.max_release_epsilon": "most that the selection, as others see it, may spend on one row, its label included; runs with an exact selection are refused then",
    "POLICY_KEYS.max_epsilon_total": "most that all jobs on one table may spend together, both budgets added up. If missing, each budget may add up to `max_epsilon` and `max_release_epsilon`, where those are given. Kept where a member has a [history](deploy.md#what-a-member-remembers)",
    "POLICY_KEYS.max_jobs_per_table": "most jobs that a member takes part in with one table. If missing: 20, and where another party has the labels at most one for every 20 rows that are used, but never fewer than 3",
    "POLICY_KEYS.min_row_change": "fewest rows by which two jobs may differ, unless they have the same rows; `min_bin_size` if missing, and 0 allows any difference",
    "POLICY_KEYS.max_ids_asked": "longest list of ids that is compared with its own. If missing, a member answers lists up to ten times as long as its own",
    "POLICY_KEYS.approval": '`"ask"`: a person at the member approves every job, see [approval](deploy.md#a-person-says-yes); `"none"` if missing',
    "POLICY_KEYS.max_bins": "most bins of a column that a job may ask for, 1,000 if missing",
    "POLICY_KEYS.max_classes": "most classes of a label, 1,000 if missing",
    "POLICY_KEYS.max_groups": "most groups, anchors or particles that a method may try, 10,000 if missing",
    "POLICY_KEYS.max_epochs": "most epochs or iterations, 10,000 if missing",
    "POLICY_KEYS.max_columns": "most columns of all parties together, 100,000 if missing",
    "_RUNTIME_KEYS.engine": '`"embedded"` (one process) or `"flare"` (organisations)',
    "_RUNTIME_KEYS.kit": "the submitter's startup kit, for `flare`",
    "_RUNTIME_KEYS.checkpoint": "directory for the state of an interrupted run",
    "_OUTPUT_KEYS.directory": "for result.json, report.html and ledger.jsonl; `NAME-out` beside the job file if missing",
    "_OUTPUT_KEYS.mlflow": "address of an MLflow server, or of a store such as `sqlite:///runs.db`; see [Trackers](reports.md#trackers-of-experiments)",
    "_OUTPUT_KEYS.mlflow_experiment": "name of the MLflow experiment, `fedsift` if missing",
    "_OUTPUT_KEYS.tensorboard": "directory of runs for TensorBoard, relative to the job file",
    "_STEP_KEYS.method": "a method, `train` or `predict`; its parameters stand beside it",
    "_STEP_KEYS.seed": "of this step; made of the job's seed and the number of the step if missing",
    "PREDICTING.rows": '`"held-out"` (kept out of training) or `"unlabelled"` (rows without a label)',
    "PREDICTING.share": "fraction of the rows that is held out, 0.2 if missing",
    "_PARTY_FILE_DATA.path": "CSV or Parquet file, relative to the party's file",
    "_PARTY_FILE_DATA.id": "column, or columns, that identify a row",
    "_PARTY_FILE_DATA.columns": "the features it brings; all if missing",
}


def kinds_in_words(kinds: tuple[Any, ...]) -> str:
    """Accepted TOML types; files have lists where Python has tuples too."""
    named = (_TYPES.get(kind, str(kind)) for kind in kinds if kind is not tuple)
    return " or ".join(dict.fromkeys(named))


def job_keys() -> str:
    """Every key of job and party files."""
    parts = []
    for name, title in _KEYS.items():
        keys: dict[str, Any] = next(
            getattr(module, name)
            for module in (job, job_parties, job_steps)
            if hasattr(module, name)
        )
        parts += [f"### {title}", "", "| key | holds | meaning |", "|---|---|---|"]
        for key, kinds in keys.items():
            meaning = _MEANING.get(f"{name}.{key}", "")
            parts.append(f"| `{key}` | {kinds_in_words(kinds)} | {meaning} |")
        parts.append("")
    return "\n".join(parts) + "\n"


def cell(text: str) -> str:
    """A docstring's words in a table: no roles, single backticks, no bars."""
    text = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", text)
    return text.replace("``", "`").replace("|", "\\|")


def method_parameters() -> str:
    """``[method]`` of every method."""
    parts = []
    for method in registry.list_built_in():
        declared = method.declared
        parts += [
            f"### `{method.name}`",
            "",
            f"{method.summary} Settings: {', '.join(method.protocols)}. [More](methods/{method.name}.md).",
            "",
            "| key | holds | default | meaning |",
            "|---|---|---|---|",
        ]
        for name, default in method.defaults.items():
            one = declared[name]
            shown = f"`{as_toml(default)}`" if default is not None else ""
            text = f"{cell(one.shown)}. {cell(one.text)}"
            parts.append(f"| `{name}` | {kinds_in_words(one.kinds)} | {shown} | {text} |")
        parts.append("")
    return "\n".join(parts) + "\n"


def as_toml(value: Any) -> str:
    """A default as a job file would write it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        value = list(value)
    return f'"{value}"' if isinstance(value, str) else str(value)


def disclosure_kinds() -> str:
    """Every kind that a policy can name, what it means and which methods have it."""
    rows: dict[str, tuple[dict[str, None], dict[str, None]]] = {}

    def add(declaration: Any, where: str) -> None:
        optional = " (optional)" if declaration.optional else ""
        texts, methods = rows.setdefault(declaration.kind, ({}, {}))
        texts[f"{declaration.receiver} learns: {declaration.text}{optional}"] = None
        methods[where] = None

    for declaration in registry.joint_declarations():
        add(declaration, "any, on own tables")
    for method in registry.list_built_in():
        for _, declaration in method.declarations():
            add(declaration, f"`{method.name}`")
    lines = ["| kind | who learns what | methods |", "|---|---|---|"]
    for kind, (texts, methods) in sorted(rows.items()):
        lines.append(f"| `{kind}` | {cell('; '.join(texts))} | {', '.join(methods)} |")
    return "\n".join(lines) + "\n"


def kind_sets() -> str:
    """Every set of kinds that a policy can name."""
    lines = ["| set | kinds |", "|---|---|"]
    for name, kinds in KIND_SETS.items():
        lines.append(f"| `{name}` | {', '.join(f'`{kind}`' for kind in kinds)} |")
    return "\n".join(lines) + "\n"


def error_codes() -> str:
    """Every error with code, exit code, meaning and Python's own class it also is."""
    found = [
        cls
        for _, cls in inspect.getmembers(errors, inspect.isclass)
        if issubclass(cls, errors.FedsiftError) and cls is not errors.FedsiftError
    ]
    lines = ["| code | error | exit | means | also a |", "|---|---|---|---|---|"]
    for cls in sorted(found, key=lambda cls: cls.code):
        outside = [base.__name__ for base in cls.__mro__ if base in (ValueError, ImportError)]
        meaning = cell((inspect.getdoc(cls) or "").splitlines()[0])
        lines.append(
            f"| {cls.code} | `{cls.__name__}` | {cls.exit_code} | {meaning} | "
            f"{', '.join(f'`{name}`' for name in outside)} |"
        )
    return "\n".join(lines) + "\n"


def commands() -> str:
    """Every command with its arguments and options."""
    parts: list[str] = []
    write_command(get_command(app), "fedsift", parts)
    return "\n".join(parts) + "\n"


def write_command(command: Any, path: str, parts: list[str]) -> None:
    """One command, then those below it."""
    if " " in path:
        help_text = inspect.cleandoc(command.help or "")
        arguments = [name_of(one) for one in command.params if one.param_type_name == "argument"]
        usage = " ".join((path, *arguments, "[OPTIONS]"))
        parts += [f"## {path}", "", help_text, "", f"    {usage}", ""]
        rows = [row for row in map(option_row, command.params) if row]
        if rows:
            parts += ["| | default | meaning |", "|---|---|---|", *rows, ""]
    for name, below in getattr(command, "commands", {}).items():
        if not below.hidden:
            write_command(below, f"{path} {name}", parts)


def option_row(parameter: Any) -> str:
    """An argument or option as a row of a table."""
    if parameter.name == "help" or getattr(parameter, "hidden", False):
        return ""
    default = parameter.default
    known = isinstance(default, (str, int, float, Path)) and default is not False
    needed = " Needed." if parameter.required else ""
    text = cell(getattr(parameter, "help", "") or "")
    return f"| `{name_of(parameter)}` | {f'`{default}`' if known else ''} | {text}{needed} |"


def name_of(parameter: Any) -> str:
    """How a user writes an argument or option."""
    if parameter.param_type_name == "option":
        return ", ".join((*parameter.opts, *parameter.secondary_opts))
    name = parameter.metavar or parameter.name.upper()
    return name if parameter.required or name.startswith("[") else f"[{name}]"


def glance(name: str) -> str:
    """The head of a method's page: who takes part, in which setting, under which names."""
    method = registry.method_named(name)
    lines = ["| | |", "|---|---|", f"| class | `{method.selector.partition(':')[2]}` |"]
    lines += [
        f"| selects | {method.selects} |",
        f'| job file | `method = "{name}"`, [its keys](../job-file.md#{name}) |',
    ]
    for setting in method.protocols:
        protocol = method.protocol(setting)
        roles = dict.fromkeys(
            role
            for message in protocol.messages
            for role in (message.declaration.sender, message.declaration.receiver)
        )
        neutral = method.neutral.get(setting)
        note = f"; `{neutral}` has no data" if neutral else ""
        lines.append(f"| {setting}: roles | {', '.join(roles)}{note} |")
    return "\n".join(lines) + "\n"


BLOCKS = {
    "job-keys": job_keys,
    "method-parameters": method_parameters,
    "disclosure-kinds": disclosure_kinds,
    "kind-sets": kind_sets,
    "error-codes": error_codes,
    "commands": commands,
} | {f"glance:{m.name}": (lambda name=m.name: glance(name)) for m in registry.list_built_in()}


def updated(text: str) -> str:
    """A page with fresh blocks."""
    return BLOCK.sub(lambda match: match[1] + BLOCKS[match[2]]() + match[3], text)


if __name__ == "__main__":
    for page in sorted(DOCS.rglob("*.md")):
        before = page.read_text(encoding="utf-8")
        if updated(before) != before:
            page.write_text(updated(before), encoding="utf-8")
            print(f"{page.relative_to(DOCS)} updated")
