"""Checks that a build makes of its own result before it signs.

`self_check` runs the compiled entries beside the reference evaluator, `samples` chooses
on what, `work` ends what takes the evaluator too long, `rounding` says how far rounding
alone can carry results apart, and `process` runs compiled code where it can do no harm.
"""
