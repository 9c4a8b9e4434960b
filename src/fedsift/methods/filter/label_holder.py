# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Secure filters for parties that hold different columns of the same rows.

Paper 000 (FedSDG-FS), Algorithm 1, corrected and widened to other scores.

Setting   One party holds the label (and maybe features); the others hold features.
Roles     *label holder* (drives, owns the only key), *feature holder* (any number).
Adversary Honest but curious, single parties. Feature holders that collude with each other learn
          nothing more (they hold no key); the label holder's view of one feature holder does not
          depend on others.

Who learns what
  feature holder  number of rows and classes, and which of its features were selected.
  label holder    ``disclose="scores"``: one score per unnamed feature, nothing below it.
                  Of a label of numbers, whose digits can name rows, only where the policies of
                  the feature holders name ``numeric-scores``.
                  ``disclose="counts"``: bin-by-class counts (or class sums) of unnamed features in
                  secret order of features and bins, no bin below the minimum size.
                  With an ``epsilon``: such counts with noise that their owner added, see
                  :mod:`fedsift.privacy.mechanisms`; bins are cut at edges known without the data.
                  With a ``release_epsilon`` feature holders are told a selection that the label
                  holder drew by its scores (:mod:`.filter_release`), and never a score.

Algorithm 1, line by line
  1-2  label holder encrypts the class indicator      LabelHolder._encrypt, EncryptedLabels
  3-5  feature holder adds up its bins, squares        FeatureHolder.answer (crypto.counts)
  6-9  masked square and Gini of each feature          ColumnEvaluator.quadratics
  10   label holder decrypts the Gini scores           LabelHolder._open

Deviations, each with its reason
  - The paper squares with a second round trip (u = p + r, then [u^2]). The correction T of
    :mod:`fedsift.crypto.columns.api` makes one reply enough: the two transmissions the paper
    claims.
  - p + r with a small real r does not hide p. Masks are uniform in Z_t, or 40 bits wider.
  - Features travel without names, in a secret order; so do the bins of each feature.
  - Bins below ``min_bin_size`` are merged, so that no bin isolates a row or a label.
  - Scores go back to feature holders only where the label holder's policy names ``own-scores``:
    a score and one's own bins are an equation in the label counts.

A malicious feature holder can return wrong numbers; counts that do not add up to the label
holder's class sizes are refused, wrong scores within their range are not noticed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.columns.api import BigArray, ColumnOwner, own_columns
from fedsift.data.state_files import State
from fedsift.data.table import PartyTable
from fedsift.data.target import Target
from fedsift.errors import PartyFailed
from fedsift.methods.filter import features as local
from fedsift.methods.filter import messages, scores, significance
from fedsift.methods.filter import uncertainty as filter_errors
from fedsift.methods.filter.feature_holder import FeatureHolder
from fedsift.methods.filter.messages import column_spec, way_of
from fedsift.methods.filter.noise import chosen, sensitivity
from fedsift.methods.filter.ranking import (
    Params,
    Ranking,
    bins_of,
    classes_of,
    plain_scores,
    rank,
    scores_of_tables,
)
from fedsift.privacy.mechanisms import Accountant
from fedsift.protocol import Message, Network, Protocol, PublicArray, Role, make_role
from fedsift.protocol.resume import ResumableDriver
from fedsift.protocol.role import errors_belong_to

Floats = npt.NDArray[np.float64]

_LARGEST_EXPONENT = 1074 + 64
"""Beyond that of any floating-point number, and of a sum of many."""


class LabelHolder(ResumableDriver, name="label holder", signals=messages.SIGNALS):
    """Owns the label and the only key; ranks all features and tells each owner what was chosen."""

    def __init__(
        self,
        party: str,
        table: PartyTable | None,
        target: Target | None,
        n_rows: int,
        params: Params,
        checkpoints: Path | None = None,
    ) -> None:
        self.keep_checkpoints(checkpoints, party, params, table, target)
        self._answered: dict[str, Floats] = {}
        self._errors: dict[str, Floats] = {}
        self._errors_are: str | None = None
        self._evidence: dict[str, significance.Evidence] = {}
        self._others = False
        self._party = party
        self._table = table
        self._params = params
        self._n_rows = n_rows
        self._target = target
        self._codes, self.n_classes = classes_of(target, params)
        self.budget = Accountant(params.release_epsilon or 0.0, params.release_delta)

    async def drive(self, net: Network) -> Ranking:
        """Algorithm 1, seen from the label holder."""
        await self.begin(net)
        parties = net.members("feature holder")
        results = await self.feature_scores(net)
        ranking = replace(self._ranked(results), errors=self._errors, errors_are=self._errors_are)
        found = significance.p_values(self._evidence)
        if self._params.fdr is not None and not found:
            significance.refuse_no_law(shuffles=True)
        ranking = significance.with_tests(ranking, found, self._params)
        if parties:
            selected = {party: messages.Selected(ranking.selected[party]) for party in parties}
            await net.tell("feature holder", selected)
            if self._params.share_scores:
                shared = {
                    party: messages.OwnScores(PublicArray.of(results[party])) for party in parties
                }
                await net.tell("feature holder", shared)
        await self.finish(net)
        return ranking

    def _ranked(self, results: Mapping[str, Floats]) -> Ranking:
        """The best features, or those that a private choice makes of the scores."""
        if not self._params.releases:
            return rank(results, self._params.score, self._params.n_features_to_select)
        reach = sensitivity(self._params, self._n_rows, self.n_classes)
        return chosen(results, self._params, reach, self.budget)

    async def feature_scores(self, net: Network) -> dict[str, Floats]:
        """Scores of all features of all parties, each party's in its own secret order."""
        parties = net.members("feature holder")
        results: dict[str, Floats] = {}
        frequencies = self._own_frequencies()
        if parties:
            # What is there: number of features, so that labels can be laid out for them.
            hello = messages.Introduction(self._n_rows, self._params.score)
            wanted = messages.offer_of(self._params)
            replies = await net.ask("feature holder", hello, wanted)
            offers = dict(zip(parties, replies, strict=True))
            frequencies = frequencies and all(o.frequencies for o in offers.values())
            self._check_law(self._way(frequencies))
            if self._params.score == "variance":
                results = await self._open_scores(offers, net)
            else:
                results = await self._encrypted_scores(offers, frequencies, net)
        self._others = bool(parties)
        if self._table is not None:
            results = {self._party: self._own_scores(frequencies=frequencies), **results}
            self._keep_errors(self._party, self._own_errors(results[self._party], frequencies))
            self._weigh_own(results[self._party], frequencies)
        self._errors_are = filter_errors.kind_of(self._params, self._way(frequencies))
        return results

    def _check_law(self, way: str) -> None:
        """Refuse a selection by p-values that cannot be computed, before labels are sent."""
        if self._params.fdr is None or self._params.n_permutations:
            return
        if not significance.has_law(self._params.score, way):
            significance.refuse_no_law(shuffles=True)

    def _way(self, frequencies: bool) -> str:
        params = self._params
        return way_of(params.score, params.disclose, frequencies=frequencies, noisy=params.noisy)

    async def _open_scores(
        self, offers: Mapping[str, messages.Offer], net: Network
    ) -> dict[str, Floats]:
        replies = await net.ask("feature holder", messages.ScoresWanted(), messages.OpenScores)
        results = {}
        for party, reply in zip(offers, replies, strict=True):
            with errors_belong_to(party, "ScoresWanted", 2):
                values = reply.scores.array(shape=(offers[party].n_features,))
                results[party] = values.astype(np.float64)
        return results

    async def _encrypted_scores(
        self, offers: Mapping[str, messages.Offer], frequencies: bool, net: Network
    ) -> dict[str, Floats]:
        """Lines 1-10: encrypt once, ask everybody, open what comes back.

        Whoever answered before an interruption is not asked again.
        """
        missing = [party for party in offers if party not in self._answered]
        if not missing:
            return {party: self._answered[party] for party in offers}
        params, way = self._params, self._way(frequencies)
        features = max(offer.n_features for offer in offers.values())
        n_copies = 1 + params.n_permutations
        cells = max(offer.n_cells for offer in offers.values())
        noise_bits = params.noise(features).bits if params.noisy else 0
        spec = column_spec(
            way,
            self._n_rows,
            self.n_classes,
            features * n_copies,
            cells,
            noise_bits,
            fine=params.exact_gini,
        )
        with self.clock("encrypt"):
            owner = own_columns(
                self._params.scheme,
                self._columns(way),
                spec,
                security_bits=self._params.security_bits,
            )
        labels = messages.EncryptedLabels(
            way, self.n_classes, features, cells, owner.keys, owner.columns
        )

        def take(party: str, reply: Message) -> None:
            with self.clock("decrypt"), errors_belong_to(party, "EncryptedLabels", 2):
                self._answered[party] = self._open(way, owner, party, offers[party], reply)

        asks = dict.fromkeys(missing, labels)
        await self.collect(
            net, "feature holder", asks, messages.reply_of(way, params), take, self.checkpoint
        )
        return {party: self._answered[party] for party in offers}

    def checkpoint(self) -> State:
        """Scores of the parties that have answered, their errors, and what p-values come from."""
        own = {p: one.own for p, one in self._evidence.items()}
        shuffled = {p: one.shuffled for p, one in self._evidence.items()}
        kept = {"answered": self._answered, "errors": self._errors}
        return {**kept, "evidence": own, "shuffled": shuffled}

    def restore(self, saved: State) -> None:
        """Go on with those that have not."""
        self._answered, self._errors = saved["answered"], saved["errors"]
        self._evidence = {
            party: significance.Evidence(own, saved["shuffled"][party])
            for party, own in saved["evidence"].items()
        }

    def _columns(self, way: str) -> npt.NDArray[np.int64]:
        """The label as integer columns: indicators, +1/-1, or a fixed-point target."""
        if not self.n_classes:
            assert self._target is not None  # noqa: S101 - only variance runs without a target
            unit = local.unit_columns(self._target.values[:, None])
            return local.to_integers(
                unit, messages.VALUE_BITS if way == "sum" else messages.SHARE_BITS[1]
            )
        indicator = np.eye(self.n_classes, dtype=np.int64)[self._codes]
        if way == "count":
            return indicator[:, :-1]
        if way == "impurity":
            return 2 * indicator[:, :1] - 1 if self.n_classes == 2 else indicator
        if way == "share":
            # 1 / sqrt(class size) per class, so that squares add up to the explained share.
            scale = np.rint(np.ldexp(1 / np.sqrt(self._class_sizes()), messages.SHARE_BITS[1]))
            return indicator * scale.astype(np.int64)
        if way in ("pearson", "frequency"):
            deviations = scores.class_deviations(self._codes, self.n_classes)
            return local.to_integers(deviations, self._deviation_bits(way))
        return indicator

    def _deviation_bits(self, way: str) -> int:
        if way == "pearson":
            return scores.deviation_bits(self._n_rows)
        return messages.SHARE_BITS[1]

    def _open(
        self, way: str, owner: ColumnOwner, party: str, offer: messages.Offer, reply: Message
    ) -> Floats:
        """Line 10: decrypt one party's reply and turn it into scores."""
        n_all = offer.n_features * (1 + self._params.n_permutations)
        if isinstance(reply, messages.SealedCounts):
            return self._scores_of_counts(owner, party, offer, reply)
        if isinstance(reply, messages.NoisyCounts):
            opened = owner.open_products(reply.counts, n_all * offer.n_cells)
            tables = opened.astype(np.int64).reshape(n_all, offer.n_cells, -1)
            return scores_of_tables(tables, self._params, self._n_rows, noisy=True)
        if isinstance(reply, messages.SealedSums):
            exponents = reply.exponents.array(shape=(offer.n_features,))
            sums = owner.open_products(reply.sums, n_all).astype(np.float64)
            values = self._scores_of_sums(sums, -np.resize(exponents, n_all))
            return self._kept(way, party, offer, values, 1)
        assert isinstance(reply, messages.SealedScores | messages.ScaledScores)  # noqa: S101 - the network checked the type
        n_cells = offer.n_cells if way in ("impurity", "pearson") else 1
        quadratics = owner.open_quadratics(reply.scores, n_all, n_cells)
        if way == "impurity":
            bits = scores.gini_weight_bits(self._n_rows, fine=self._params.exact_gini)
            weighted = quadratics.astype(np.float64) / float(1 << bits)
            values = scores.gini_from_quadratic(weighted, self._n_rows, centred=self.n_classes == 2)
            plausible = bool(((values > -0.01) & (values < 1.01)).all())
        elif way in ("pearson", "frequency"):
            values = self._chi2_of_quadratics(way, party, reply, quadratics)
            most = self._n_rows * self.n_classes if way == "pearson" else np.inf
            plausible = bool(((values >= 0) & (values <= most)).all())
        else:
            shares = quadratics.astype(np.float64) / 2.0 ** (2 * sum(messages.SHARE_BITS))
            values = self._f_of_shares(shares)
            plausible = bool(((shares >= 0) & (shares < 1.01)).all())
        if not plausible:
            raise _implausible(party, "scores outside their possible range")
        return self._kept(way, party, offer, values, n_cells)

    def _kept(
        self, way: str, party: str, offer: messages.Offer, values: Floats, n_cells: int
    ) -> Floats:
        """Scores of features, without those of shuffled copies, which p-values are made of."""
        own = values[: offer.n_features]
        self._keep_errors(party, self._errors_of(own, n_cells))
        law = significance.has_law(self._params.score, way)
        if not self._params.tests or not (law or self._params.n_permutations):
            return own
        bins: npt.ArrayLike = ()
        if isinstance(offer, messages.OfferOfBins):
            bins = offer.bins.array(shape=(offer.n_features,))
        elif way in ("impurity", "pearson"):
            return own  # the law depends on how many bins there are, and nobody asked for them
        copies = values.reshape(-1, offer.n_features)
        weighed = significance.weigh(
            copies, self._params, way, self._n_rows, self._class_sizes(), bins
        )
        self._evidence[party] = significance.split_evidence(weighed, offer.n_features, law=law)
        return own

    def _chi2_of_quadratics(
        self,
        way: str,
        party: str,
        reply: messages.SealedScores | messages.ScaledScores,
        quadratics: BigArray,
    ) -> Floats:
        exponent = -2 * self._deviation_bits(way)
        if isinstance(reply, messages.ScaledScores):
            told = reply.exponent.array(shape=(1,))[0]
            if not -_LARGEST_EXPONENT <= told <= _LARGEST_EXPONENT:
                raise _implausible(party, "scores with a scale that no column has")
            exponent += int(told) - 2 * messages.SHARE_BITS[0]
        else:
            exponent -= scores.gini_weight_bits(self._n_rows)
        return scores.chi2_times_powers(quadratics.astype(np.float64), exponent)

    def _scores_of_counts(
        self, owner: ColumnOwner, party: str, offer: messages.Offer, reply: messages.SealedCounts
    ) -> Floats:
        n_copies = 1 + self._params.n_permutations
        sizes = reply.sizes.array(shape=(offer.n_features, offer.n_cells))
        sizes = np.tile(sizes, (n_copies, 1))
        counts = owner.open_products(reply.counts, sizes.size)
        known = counts.astype(np.int64).reshape(*sizes.shape, self.n_classes - 1)
        table = np.concatenate([known, (sizes - known.sum(axis=2))[:, :, None]], axis=2)
        if (table < 0).any() or (table.sum(axis=1) != self._class_sizes()).any():
            raise _implausible(party, "counts that do not add up to the class sizes")
        own = table[: offer.n_features]
        self._keep_errors(party, filter_errors.errors_of_tables(own, self._params))
        if self._params.tests:
            self._evidence[party] = significance.evidence_of_tables(
                table, self._params, offer.n_features
            )
        return scores_of_tables(own, self._params, self._n_rows, noisy=False)

    def _scores_of_sums(self, sums: Floats, exponents: npt.NDArray[np.int64]) -> Floats:
        if self._params.score == "chi2":
            return scores.chi2_of_sums(sums, self._class_sizes(), exponents)
        sums = np.ldexp(sums, exponents[:, None])
        if not self.n_classes:
            # The target column is fixed point too: bring it back to norm 1.
            return self._f_of_shares(np.ldexp(sums[:, 0], -messages.VALUE_BITS) ** 2)
        return self._f_of_shares(scores.explained_share(sums, self._class_sizes()))

    def _f_of_shares(self, shares: Floats) -> Floats:
        statistic = scores.anova_f(shares, self._n_rows, self.n_classes or 2)
        return np.minimum(statistic, np.finfo(np.float64).max)  # JSON knows no infinity

    def _own_scores(self, *, frequencies: bool) -> Floats:
        """The label holder's own features need no encryption."""
        assert self._table is not None  # noqa: S101 - asked only if there is one
        return plain_scores(
            self._table,
            self._target,
            self._params,
            frequencies=frequencies,
            binned=self._own_bins,
        )

    def _weigh_own(self, values: Floats, frequencies: bool) -> None:
        """What p-values of its own features are made of."""
        way, params = self._way(frequencies), self._params
        known = params.n_permutations or significance.has_law(params.score, way)
        # Without those of the others, q-values would be of some features only.
        if not params.tests or not known or (self._others and not self._evidence):
            return
        assert self._table is not None  # noqa: S101 - it has scores
        assert self._target is not None  # noqa: S101 - scores that are tested have a target
        self._evidence[self._party] = significance.own_evidence(
            self._table,
            self._target,
            values,
            params,
            frequencies=frequencies,
            way=way,
            rng=np.random.default_rng(params.seed),
        )

    def _keep_errors(self, party: str, errors: Floats | None) -> None:
        if errors is not None:
            self._errors[party] = errors

    def _errors_of(self, values: Floats, n_cells: int) -> Floats | None:
        return filter_errors.of_scores(values, self._params, self._n_rows, self.n_classes, n_cells)

    def _own_errors(self, values: Floats, frequencies: bool) -> Floats | None:
        return filter_errors.of_own(
            self._own_bins,
            self._target,
            values,
            self._params,
            self._n_rows,
            frequencies=frequencies,
        )

    @cached_property
    def _own_bins(self) -> local.BinnedTable | None:
        """This party's own table in bins, for scores of bins."""
        if self._table is None or self._params.score not in local.BINNED_SCORES:
            return None
        return bins_of(self._table, self._params, self.n_classes)

    def _own_frequencies(self) -> bool:
        return self._table is None or local.are_frequencies(self._table)

    def _class_sizes(self) -> npt.NDArray[np.int64]:
        """Empty for a label that stays numeric."""
        return np.bincount(self._codes, minlength=self.n_classes)

    def facts(self) -> dict[str, Any]:
        """What this party knows of its own columns."""
        if self._table is None:
            return {"names": [], "remarks": []}
        names = list(self._table.feature_names)
        if self._params.fixed_edges:  # nothing is merged, and a single row can make a remark
            return {"names": names, "remarks": []}
        notes = local.remarks(self._table, self._own_bins)
        return {"names": names, "remarks": notes}


PROTOCOL = Protocol(
    name="filter",
    messages=messages.MESSAGES,
    roles=(LabelHolder, FeatureHolder),
)


def _implausible(party: str, what: str) -> PartyFailed:
    return PartyFailed(party, "EncryptedLabels", 2, f"its reply opened to {what}")


def build_nodes(
    tables: Mapping[str, PartyTable],
    label_holder: str,
    target: Target | None,
    n_rows: int,
    params: Params,
    checkpoints: Path | None = None,
) -> dict[str, Sequence[Role]]:
    """One node per party: the label holder drives, everybody else holds features."""
    own = tables.get(label_holder)
    holder = make_role(LabelHolder, label_holder, own, target, n_rows, params, checkpoints)
    nodes: dict[str, Sequence[Role]] = {label_holder: (holder,)}
    for party, table in tables.items():
        if party != label_holder:
            nodes[party] = (make_role(FeatureHolder, table, params, checkpoints),)
    return nodes


__all__ = ["PROTOCOL", "FeatureHolder", "LabelHolder", "build_nodes"]
