"""Handlers to copy from; every one of them is run by the tests."""
