"""Stand-ins for the provider plugins, which need an account and a network.

The engine finds them on the PATH as ``pulumi-resource-gcp`` and ``pulumi-resource-docker-build``.
They refuse what the SDK's schema does not know, keep what they create in a file, and answer as the
real provider and the API behind it do where a program can tell the difference.
"""
