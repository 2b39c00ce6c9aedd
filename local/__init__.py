"""The stack on this machine: the real handler, with Cloud Scheduler played by a program."""
