"""Dtypes and the table of scalar operations."""
