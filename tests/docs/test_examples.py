"""Every Python block and every command of the documentation is run.

Blocks of a page share one namespace, all pages one folder with the example files; a command that
several pages show is run once. A block that cannot run here (it needs other machines, or minutes)
has ``<!-- not run: reason -->`` above it: its commands are then only read, with all their options.
"""

import re
import runpy
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from fedsift.cli import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))
}
FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^>]+) -->\n)?```(?P<language>\w+)[^\n]*\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
INLINE = re.compile(r"`fedsift ([^`\n]+)`")
SHELLS = ("bash", "console", "sh")
RUN_ELSEWHERE = {
    "docs/resume.md": "tests/docs/test_resume_page.py",
    "docs/chains.md": "tests/docs/test_chains_page.py",
    "docs/add-a-method.md": "tests/docs/test_add_a_method.py",
}
MOST_NOT_RUN = 18
FEDSIFT = get_command(app)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    language: str
    text: str
    reason: str | None

    @property
    def commands(self):
        """What is typed after ``fedsift``, without comments and prompts."""
        return [words[1:] for words in self.lines if words[0] == "fedsift"]

    @property
    def lines(self):
        """Calls of ``fedsift`` and of example scripts, as lists of words."""
        joined = self.text.replace("\\\n", " ")
        lines = (line.strip().removeprefix("$ ") for line in joined.splitlines())
        wanted = ("fedsift ", "python examples/")
        return [shlex.split(line, comments=True) for line in lines if line.startswith(wanted)]


def blocks_of(page):
    return [
        Block(page, match["language"], match["text"], match["reason"])
        for match in FENCE.finditer(PAGES[page])
    ]


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def is_run(block):
    return block.reason is None and block.page not in RUN_ELSEWHERE


WITH_PYTHON = list(dict.fromkeys(b.page for b in BLOCKS if b.language == "python" and is_run(b)))
WITH_COMMANDS = list(
    dict.fromkeys(b.page for b in BLOCKS if b.language in SHELLS and is_run(b) and b.commands)
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where a reader would be: beside the examples."""
    place = tmp_path_factory.mktemp("reader")
    ignored = shutil.ignore_patterns("out", "*-out", "notebooks")
    shutil.copytree(ROOT / "examples", place / "examples", ignore=ignored)
    return place


@pytest.fixture(scope="module")
def done():
    """Commands that were run already."""
    return set()


@pytest.mark.timeout(400)  # on a machine with other work to do
@pytest.mark.xdist_group("pages")
@pytest.mark.slow(3)
@pytest.mark.parametrize("page", WITH_PYTHON)
def test_python_blocks_run(page, folder, monkeypatch):
    monkeypatch.chdir(folder)
    names = {"__name__": "__main__"}
    for block in blocks_of(page):
        if block.language == "python" and is_run(block):
            exec(compile(block.text, page, "exec"), names)  # noqa: S102 - our own pages


@pytest.mark.timeout(400)
@pytest.mark.xdist_group("pages")
@pytest.mark.slow(3)
@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_commands_run(page, folder, done, monkeypatch):
    monkeypatch.chdir(folder)
    for block in blocks_of(page):
        if block.language not in SHELLS or not is_run(block):
            continue
        for words in block.lines:
            if tuple(words) not in done:
                call(words)
                done.add(tuple(words))


def call(words):
    """Run one line in this process."""
    if words[0] == "python":
        runpy.run_path(words[1], run_name="__main__")
        return
    ran = CliRunner().invoke(app, words[1:])
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    assert ran.exit_code == 0, (words, ran.stderr)


@pytest.mark.parametrize("page", list(dict.fromkeys(b.page for b in BLOCKS if b.reason)))
def test_commands_that_are_not_run_are_well_formed(page):
    for block in blocks_of(page):
        if block.reason is None or block.language not in SHELLS:
            continue
        for words in block.commands:
            command, rest = found(words)
            # Reading checks every option, value and argument, and runs nothing.
            command.make_context(" ".join(words), rest)


def test_commands_inside_sentences_exist():
    for page, text in PAGES.items():
        for sentence in INLINE.findall(re.sub(FENCE, "", text)):
            if sentence.split()[0].isupper():  # a placeholder
                continue
            command, rest = found(sentence.split())
            options = {name for parameter in command.params for name in parameter.opts}
            given = {word for word in rest if re.fullmatch(r"--?[a-z][\w-]*", word)}
            assert given <= options | {"--help"}, (page, sentence)


def test_few_blocks_are_not_run():
    left = [(block.page, block.reason) for block in BLOCKS if block.reason]
    assert len(left) <= MOST_NOT_RUN, left
    assert all(len(reason) > 10 for _, reason in left)


def test_there_is_something_to_run():
    """The checks above would pass on pages that are not read."""
    assert {"README.md", "docs/quick-start.md"} <= set(WITH_PYTHON)
    assert len(WITH_COMMANDS) >= 6
    assert sum(len(b.commands) for b in BLOCKS if b.language in SHELLS) >= 20


def found(words):
    """The command that these words call, and what is left of them."""
    command, rest = FEDSIFT, list(words)
    while rest and getattr(command, "commands", None) and not rest[0].startswith("-"):
        assert rest[0] in command.commands, f"there is no 'fedsift {' '.join(words)}'"
        command = command.commands[rest.pop(0)]
    return command, rest
