# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Which features and which participants are worth having, without showing the data."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fedsift import errors, hooks

if TYPE_CHECKING:
    from fedsift.data import Federation, PartyTable, split_horizontal, split_vertical
    from fedsift.jobs.chain import Chain
    from fedsift.methods.dcfs.selector import DCFSSelector
    from fedsift.methods.fedsdg.selector import FedSDGSelector
    from fedsift.methods.filter.selector import FilterSelector
    from fedsift.methods.fpso.selector import FPSOSelector
    from fedsift.methods.interaction.selector import InteractionSelector
    from fedsift.methods.stepwise.selector import StepwiseSelector
    from fedsift.methods.vfps.selector import VFPSSelector
    from fedsift.protocol import Policy
    from fedsift.result import SelectionResult

__version__ = "0.1.0"

# Names are looked up on first use, so that `import fedsift` and `fedsift --help` stay fast.
_HOMES = {
    "Chain": "fedsift.jobs.chain",
    "Federation": "fedsift.data",
    "PartyTable": "fedsift.data",
    "Policy": "fedsift.protocol",
    "SelectionResult": "fedsift.result",
    "split_horizontal": "fedsift.data",
    "split_vertical": "fedsift.data",
}

__all__ = [
    "Chain",
    "DCFSSelector",
    "FPSOSelector",
    "FedSDGSelector",
    "Federation",
    "FilterSelector",
    "InteractionSelector",
    "PartyTable",
    "Policy",
    "SelectionResult",
    "StepwiseSelector",
    "VFPSSelector",
    "errors",
    "split_horizontal",
    "split_vertical",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name.endswith("Selector"):
        registry = importlib.import_module("fedsift.methods.registry")
        found = [method for method in registry.list_built_in() if method.class_name == name]
        if found:
            return found[0].estimator
    raise AttributeError(f"module 'fedsift' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


hooks.register("align_by_psi", lambda: importlib.import_module("fedsift.jobs.align").align_by_psi)
hooks.register("html", lambda: importlib.import_module("fedsift.report.html"))
hooks.register("plots", lambda: importlib.import_module("fedsift.report.plots"))
hooks.register("verify", lambda: importlib.import_module("fedsift.protocol.verify").verify_result)
hooks.register(
    "signing_keys", lambda: importlib.import_module("fedsift.deploy.site_files").read_signing_keys
)
