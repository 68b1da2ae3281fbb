"""Reports: what a run found, for people and for machines."""
