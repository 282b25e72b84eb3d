"""What the importers of several frameworks share."""
