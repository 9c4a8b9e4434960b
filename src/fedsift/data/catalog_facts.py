# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Facts about the data sets fedsift knows by name: size, origin, licence, papers.

Sizes are those of the files fedsift reads, which sometimes differ from what a paper prints; the
``note`` says where. An OpenML number is given only where that set has the same shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FEDSDG, INTERACTION, VFPS, DCFS, FPSO = "FedSDG-FS", "Interaction FS", "VF-PS", "DCFS", "FPSO-FS"

_UCI = "CC BY 4.0"
_UNKNOWN = "not stated; research use"
_RESEARCH = "research use"
_CITE = "free with citation"
_OWN = "none needed (generated)"
_ASU = "ASU feature selection collection"


@dataclass(frozen=True)
class DatasetInfo:
    """What is known about one data set.

    Parameters
    ----------
    name : str
        Name to load it by.
    n_rows, n_features, n_classes : int
        Size.
    task : {"classification", "regression"}
        What the labels are for.
    origin : str
        Where it comes from.
    licence : str
        Terms, as far as known.
    shipped : bool
        Whether the file comes with fedsift.
    papers : tuple of str
        Methods whose papers use it.
    openml_id : int or None
        Number of the same set at OpenML; a number stands for one fixed version.
    sha256 : str or None
        Checksum of the content fetched from OpenML; None if it was never recorded.
    note : str
        What to know before comparing with a paper.
    """

    name: str
    n_rows: int
    n_features: int
    n_classes: int
    task: Literal["classification", "regression"]
    origin: str
    licence: str
    shipped: bool = False
    papers: tuple[str, ...] = ()
    openml_id: int | None = None
    sha256: str | None = None
    note: str = ""


def _set(
    name: str,
    size: tuple[int, int, int],
    origin: str,
    licence: str,
    paper: str | None,
    note: str = "",
    *,
    shipped: bool = False,
    openml_id: int | None = None,
) -> DatasetInfo:
    return DatasetInfo(
        name, *size, "classification", origin, licence, shipped,
        () if paper is None else (paper,), openml_id, None, note,
    )  # fmt: skip


_SETS = (
    _set("madelon", (2600, 500, 2), f"NIPS 2003 challenge, {_ASU}", _UCI, FEDSDG,
         "All labelled rows of the challenge; `informative` lists the 20 relevant columns.",
         openml_id=1485),
    _set("friedman", (1000, 1000, 2), "generated with Friedman's first formula", _OWN, FEDSDG,
         "Classes are target above or below its median; `target` has the numbers, "
         "`informative` the five columns."),
    _set("arcene", (200, 10000, 2), f"NIPS 2003 challenge, {_ASU}", _UCI, FEDSDG,
         "Only the 200 labelled rows are public; 39 columns are constant.", openml_id=1458),
    _set("basehock", (1993, 4862, 2), f"20 Newsgroups, {_ASU}", _UNKNOWN, FEDSDG,
         "The paper prints 7,862 features, probably a slip."),
    _set("relathe", (1427, 4322, 2), f"20 Newsgroups, {_ASU}", _UNKNOWN, FEDSDG,
         "The paper prints more rows than the public set has."),
    _set("pcmac", (1943, 3289, 2), f"20 Newsgroups, {_ASU}", _UNKNOWN, FEDSDG,
         "One row more than the paper."),
    _set("gisette_like", (1000, 5000, 2), "made from the digits 4 and 9 of mnist5k",
         "CC BY-SA 3.0 (as MNIST)", FEDSDG,
         "A stand-in, not GISETTE itself; `informative` lists the true columns."),
    _set("coil20", (1440, 1024, 20), f"Columbia object images, {_ASU}", _RESEARCH, FEDSDG),
    _set("isolet", (1560, 617, 26), f"UCI spoken letters, {_ASU}", _UCI, FEDSDG,
         "The 1,560-row part of ISOLET."),
    _set("wine_white", (4898, 11, 7), "UCI wine quality (white)", _UCI, INTERACTION,
         "The class is the quality grade from 3 to 9; the best grade has 5 rows.", shipped=True),
    _set("synthesis", (1000, 50, 2), "generated: side of a random hyperplane", _OWN, VFPS,
         "The paper gives no generator; `hyperplane` has the weights."),
    _set("g2_4", (2048, 4, 2), "two Gaussians, clustering benchmark of Gagolewski", "CC BY 4.0",
         VFPS, "The paper does not say which spread it used; this one overlaps."),
    _set("g2_128", (2048, 128, 2), "two Gaussians, clustering benchmark of Gagolewski",
         "CC BY 4.0", VFPS, "Separable, as in the paper."),
    _set("bank", (3192, 8, 2), "Delve bank-8FM, two classes", _UNKNOWN, VFPS,
         "`split` is 0, 1, 2 for the usual training, validation and test rows."),
    _set("unbalance", (6500, 2, 8), "SIPU clustering sets", _CITE, VFPS),
    _set("letter", (20000, 16, 26), "UCI letter recognition (Statlog)", _UCI, VFPS, openml_id=6),
    _set("birch1", (100000, 2, 100), "SIPU clustering sets", _CITE, VFPS),
    _set("birch2", (100000, 2, 100), "SIPU clustering sets", _CITE, VFPS),
    _set("mnist5k", (5000, 784, 10), "MNIST, 500 images of each digit", "CC BY-SA 3.0", DCFS,
         "Not necessarily the rows of the paper; 121 pixels are constant."),
    _set("colon", (62, 2000, 2), f"Alon et al. 1999, {_ASU}", _UNKNOWN, DCFS,
         "Values are in three steps."),
    _set("tox171", (171, 5748, 4), _ASU, _UNKNOWN, DCFS),
    _set("lung", (203, 1543, 5), "Bhattacharjee et al. 2001, filtered by de Souto et al. 2008",
         _UNKNOWN, DCFS, "Another gene filter than the paper's 3,312 genes."),
    _set("lymphoma", (96, 4026, 9), f"Alizadeh et al. 2000, {_ASU}", _UNKNOWN, DCFS,
         "Values are in three steps; two classes have 2 rows."),
    _set("wine", (178, 13, 3), "UCI wine", _UCI, FPSO, shipped=True, openml_id=187),
    _set("vowel", (990, 13, 11), "UCI vowel recognition with context", _UCI, FPSO,
         "The first three columns are the usual split, the speaker and the sex."),
    _set("vehicle", (846, 18, 4), "UCI vehicle silhouettes (Statlog)", _UCI, FPSO, openml_id=54),
    _set("segmentation", (2310, 19, 7), "UCI image segmentation", _UCI, FPSO,
         "One column is constant.", openml_id=36),
    _set("ionosphere", (351, 34, 2), "UCI ionosphere", _UCI, FPSO, "One column is constant.",
         openml_id=59),
    _set("satellite", (6435, 36, 6), "UCI Landsat satellite (Statlog)", _UCI, FPSO,
         "All rows; the paper uses 856."),
    _set("sonar", (208, 60, 2), "UCI sonar, mines and rocks", _UCI, FPSO, openml_id=40),
    _set("hill_valley", (606, 100, 2), "UCI hill-valley with noise", _UCI, FPSO,
         "The first 606 of 1,212 rows."),
    _set("hill_valley_clean", (606, 100, 2), "UCI hill-valley without noise", _UCI, FPSO,
         "An alternative to hill_valley."),
    _set("musk1", (476, 166, 2), "UCI musk, version 1", _UCI, FPSO),
    _set("dna", (3186, 180, 3), "UCI splice junctions (Statlog)", _UCI, FPSO,
         "All rows; the paper uses 2,000.", openml_id=40670),
    _set("lsvt", (126, 310, 2), "UCI LSVT voice rehabilitation", _UCI, FPSO, openml_id=1484),
    _set("cnae9", (1080, 856, 9), "UCI CNAE-9", _UCI, FPSO,
         "The full set; the paper uses two parts of it.", openml_id=1468),
    _set("yale", (165, 1024, 15), f"Yale faces, {_ASU}", _RESEARCH, FPSO, "Images of 32 x 32."),
    _set("orl", (400, 1024, 40), f"AT&T (ORL) faces, {_ASU}", _RESEARCH, FPSO,
         "Images of 32 x 32."),
    _set("breast_cancer", (569, 30, 2), "UCI breast cancer Wisconsin (diagnostic)", _UCI, None,
         shipped=True),
)  # fmt: skip

FACTS: dict[str, DatasetInfo] = {entry.name: entry for entry in sorted(_SETS, key=lambda s: s.name)}
