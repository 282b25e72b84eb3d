"""What every part of aotc uses: options, dtypes, trees of values, files and caches."""
