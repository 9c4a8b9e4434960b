# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""scikit-learn estimators: they translate, the methods compute."""

from fedsift.selectors.dcfs import DCFSSelector
from fedsift.selectors.fedsdg import FedSDGSelector
from fedsift.selectors.filter import FilterSelector
from fedsift.selectors.fpso import FPSOSelector
from fedsift.selectors.interaction import InteractionSelector
from fedsift.selectors.vfps import VFPSSelector

__all__ = [
    "DCFSSelector",
    "FPSOSelector",
    "FedSDGSelector",
    "FilterSelector",
    "InteractionSelector",
    "VFPSSelector",
]
