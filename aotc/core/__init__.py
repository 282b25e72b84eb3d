"""The base of all parts of aotc: options, dtypes, trees of values, files, caches."""
