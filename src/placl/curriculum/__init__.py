"""Curricula and the searchers that find them."""
