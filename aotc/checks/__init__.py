"""Checks that a build makes of its own result before it signs.

`self_check` runs the compiled entries beside the reference evaluator; `samples` and
`inputs` choose on what, `uses` says what inputs mean and `draws` makes them, `work`
ends what takes the evaluator too long, `judging` says by `rounding` and `comparisons`
what is wrong, and `bisect` finds where it begins. `process` runs compiled code where it
can do no harm. Parity and gradient certificates use the same parts.
"""
