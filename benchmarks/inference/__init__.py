"""Times of whole models: aotc and its peers, each system in a process of its own."""
