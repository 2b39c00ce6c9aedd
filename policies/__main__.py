"""The policy pack, as the Pulumi engine starts it."""

from pulumi_policy import PolicyPack
from rules import ALL

PolicyPack(name="scheduled-once", policies=[rule.policy() for rule in ALL])
