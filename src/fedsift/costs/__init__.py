# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a job will cost before it runs: counts from shapes, seconds from a short calibration.

counts     messages, bytes, ciphertexts and units of work of one run
columns, paillier
           sizes and work of the encryption kernels, by scheme
rates      seconds per unit of work on this machine, kept in the cache
measure, measure_crypto
           the calibration that finds them
estimate   the counts that a method's cost model gives, multiplied with the rates
flare      what is added between organisations
"""

from fedsift.costs.estimate import Estimate, estimate
from fedsift.costs.rates import Rates, rates_of_this_machine

__all__ = ["Estimate", "Rates", "estimate", "rates_of_this_machine"]
