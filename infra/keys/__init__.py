"""The keys of a stack's configuration, one file each; `infra.config` reads the simple ones."""
