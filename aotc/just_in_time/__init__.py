"""Functions that are compiled when they are called: `aotc.jit`.

signature   what a call is like: structure, dtypes, sizes, static values
guards      values that a trace has looked at, and the check that they are the same
shapes      which sizes of calls become symbols, from the calls there were
tracing     a function and a signature → a program
compiling   a program → a loaded model, by way of a bundle of its own
first_calls the first call of code beside the reference evaluator
known_calls the code of calls like those before, by a key that is quick to make
variants    what is compiled, what it is guarded by, and how often it was called
function    `jit`: a call → the variant that computes it
exporting   the variants of a function → a signed bundle
"""

from aotc.just_in_time.function import JitFunction, jit

__all__ = ["JitFunction", "jit"]
