# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Reproduce the five papers: ``python -m benchmarks.reproduce [000 001 ...] [--fresh | --no-runs]``.

Runs what is missing in the result files, writes the cells that the page shows, and the page itself.
``--fresh`` starts from nothing, ``--no-runs`` uses the runs there are. Data sets that do not come with fedsift are read from FEDSIFT_DATA.
"""

import argparse
import importlib
import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

SUITES = {"000": "fedsdg", "001": "interaction", "002": "vfps", "003": "dcfs", "004": "fpso"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reproduce", description=__doc__)
    parser.add_argument("papers", nargs="*", metavar="paper", help=f"of {', '.join(SUITES)}")
    parser.add_argument("--fresh", action="store_true", help="forget finished runs")
    parser.add_argument("--no-runs", action="store_true", help="write cells and page only")
    asked = parser.parse_args()
    unknown = sorted(set(asked.papers) - set(SUITES))
    if unknown:
        parser.error(f"no paper {', '.join(unknown)}; there are {', '.join(SUITES)}")
    from benchmarks.reproduce.experiments import Runs, answers_of, make

    for paper in asked.papers or SUITES:
        suite = importlib.import_module(f"benchmarks.reproduce.{SUITES[paper]}")
        runs = Runs(paper, fresh=asked.fresh)
        if not asked.no_runs:
            make(suite, runs, lambda line: print(line, flush=True))
        runs.write(answers_of(suite, runs))
    from benchmarks.reproduce import page

    page.write()
    print(f"{page.PAGE.name} written")


if __name__ == "__main__":
    main()
