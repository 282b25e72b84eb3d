"""Shared parts of the importers of several frameworks."""
