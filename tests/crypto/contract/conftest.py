# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Owner and evaluator of every crypto backend, made the way the methods make them.

Paillier runs with a short key here: the contract is the arithmetic. One test per kernel marked
``real_keys`` goes through the factory at full size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fedsift.crypto.columns.api import (
    ColumnEvaluator,
    ColumnOwner,
    ColumnSpec,
    join_columns,
    own_columns,
)
from fedsift.crypto.columns.paillier import PaillierColumnEvaluator, PaillierColumnOwner
from fedsift.crypto.layer.api import MatrixEvaluator, MatrixOwner, join_layer, own_layer
from fedsift.crypto.layer.paillier import PaillierLayerEvaluator, PaillierLayerOwner
from fedsift.crypto.schemes.paillier import PaillierPrivateKey
from fedsift.crypto.vectors.api import VectorEvaluator, VectorOwner, join_vector, own_vector
from fedsift.crypto.vectors.paillier import PaillierVectorEvaluator, PaillierVectorOwner

MakeColumns = Callable[[str, Any, ColumnSpec], tuple[ColumnOwner, ColumnEvaluator]]
MakeLayer = Callable[..., tuple[MatrixOwner, MatrixEvaluator]]
MakeVectors = Callable[[str, int], tuple[VectorOwner, VectorEvaluator]]


@pytest.fixture(scope="session")
def short_key() -> PaillierPrivateKey:
    return PaillierPrivateKey.generate(768, allow_weak=True)


@pytest.fixture(scope="session")
def make_columns(short_key: PaillierPrivateKey) -> MakeColumns:
    def make(scheme: str, columns: Any, spec: ColumnSpec) -> tuple[ColumnOwner, ColumnEvaluator]:
        if scheme == "paillier":
            weak = PaillierColumnOwner(columns, spec, key=short_key)
            return weak, PaillierColumnEvaluator(weak.keys, weak.columns, spec, allow_weak=True)
        owner = own_columns(scheme, columns, spec)
        return owner, join_columns(owner.keys, owner.columns, spec)

    return make


@pytest.fixture(scope="session")
def make_layer(short_key: PaillierPrivateKey) -> MakeLayer:
    def make(scheme: str, *shape: int, **options: Any) -> tuple[MatrixOwner, MatrixEvaluator]:
        if scheme == "paillier":
            options.pop("n_updates", None)
            weak = PaillierLayerOwner(*shape, key=short_key, **options)
            return weak, PaillierLayerEvaluator(weak.keys, *shape, allow_weak=True)
        owner = own_layer(scheme, *shape, **options)
        return owner, join_layer(owner.keys, *shape)

    return make


@pytest.fixture(scope="session")
def make_vectors(short_key: PaillierPrivateKey) -> MakeVectors:
    def make(scheme: str, value_bits: int) -> tuple[VectorOwner, VectorEvaluator]:
        if scheme == "paillier":
            weak = PaillierVectorOwner(value_bits, key=short_key)
            return weak, PaillierVectorEvaluator(weak.keys, value_bits, allow_weak=True)
        owner = own_vector(scheme, value_bits)
        return owner, join_vector(owner.keys, value_bits)

    return make
