# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a job will cost before it runs: counts from shapes, seconds from a short calibration.

counts     messages, bytes, ciphertexts and units of work of one run
counting   a method's own driver and roles, run on a few made-up rows to count what they send
columns, products
           kernels that have the sizes and count the work of the encrypted ones
methods.<name>.costs
           what of a job is run, how often it is repeated, and work on all rows
rates      seconds per unit of work on this machine, kept in the cache
measure, measure_crypto
           the calibration that finds them
estimate   both multiplied, and what is added between organisations
chain      the steps of a chained job, and what comes before and after each
"""

from fedsift.costs.estimate import Estimate, estimate
from fedsift.costs.rates import Rates, rates_of_this_machine

__all__ = ["Estimate", "Rates", "estimate", "rates_of_this_machine"]
