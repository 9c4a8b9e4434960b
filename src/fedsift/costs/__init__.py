# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a job will cost before it runs: counts from shapes, seconds from a short calibration.

tally      messages, bytes, ciphertexts and units of work of one run
columns, vectors, layers
           sizes and work of the encryption kernels, by scheme
filters, interaction, vfps, dcfs, fpso, fedsdg
           one walk through each method
rates      seconds per unit of work on this machine, kept in the cache
measure, measure_crypto
           the calibration that finds them
estimate   both multiplied
flare      what is added between organisations
"""

from fedsift.costs.estimate import Estimate, estimate
from fedsift.costs.rates import Rates, rates_of_this_machine

__all__ = ["Estimate", "Rates", "estimate", "rates_of_this_machine"]
