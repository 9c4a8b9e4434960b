# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What the parties own: tables, federations, splits, alignment, and data to try things on.

Modules, each importing only from those above it (`sources` opens `files` on demand)::

    wording, seeds                  text of values and names; seeds
    sources, files                  raw columns from arrays, frames and files
    column, ids                     one checked column; row ids
    table, target                   one party's table; labels
    alignment                       rows of several parties in one order
    parties, vertical, horizontal   putting a federation together
    remarks, federation             the federation
    outline, part                   what one site of several knows of it, and brings to it
    row_owners, partition           one table split over several parties
    synthetic                       generated data with known relevant features
    archive, catalog_facts, openml, catalog    named data sets
"""

from fedsift.data.alignment import Aligner, align, register_aligner
from fedsift.data.catalog import Dataset, DatasetInfo
from fedsift.data.federation import EVERYONE, Federation
from fedsift.data.partition import split_horizontal, split_vertical
from fedsift.data.synthetic import Synthetic
from fedsift.data.table import Column, PartyTable
from fedsift.data.target import Target

__all__ = [
    "EVERYONE",
    "Aligner",
    "Column",
    "Dataset",
    "DatasetInfo",
    "Federation",
    "PartyTable",
    "Synthetic",
    "Target",
    "align",
    "register_aligner",
    "split_horizontal",
    "split_vertical",
]
