# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Reports built from a :class:`~fedsift.result.SelectionResult`, in the words of its method.

A result of a method that is not installed here has a report too, in words that fit any method.

`view` turns a result into rows ready to print; `text` and `html` print them.
"""

from fedsift.report.view import ReportView, view_of

__all__ = ["ReportView", "view_of"]
