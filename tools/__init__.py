"""The tools that the project needs and no package index of Python has: Pulumi, actionlint."""
