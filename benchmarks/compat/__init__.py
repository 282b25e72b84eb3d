"""Commands that measure what `aotc compat` decides by, and write its tables."""
