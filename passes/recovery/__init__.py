"""Patterns of ops that exporters write for one op of the dialect, and their matcher.

`terms` is what patterns are written in, `table` has them, `views` reads products and
sums whatever their association, `matching` matches.
"""
