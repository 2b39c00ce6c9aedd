"""A service account of the stack, with the three ways in which others name it."""

from dataclasses import dataclass

from pulumi_gcp import serviceaccount

from infra.component import Component


@dataclass(frozen=True)
class Account:
    """A service account; its names are made from the configuration, so a preview knows them.

    Attributes
    ----------
    email, member, full_name
        As an address, in a grant, and as a resource.
    resource
        For what has to wait for it.
    """

    email: str
    member: str
    full_name: str
    resource: serviceaccount.Account


def make_account(owner: Component, name: str, used_by: str) -> Account:
    """Declare an account of its own for one user.

    Parameters
    ----------
    owner
        The component that it belongs to.
    name
        Logical name; with the stack's prefix, the account's id.
    used_by
        Who acts as it, for people.
    """
    config = owner.config
    email = config.account_email(name)
    resource = serviceaccount.Account(
        name,
        project=config.project,
        account_id=config.called(name),
        display_name=f"{config.called(name)} ({used_by})",
        opts=owner.options(),
    )
    full_name = f"projects/{config.project}/serviceAccounts/{email}"
    return Account(email, f"serviceAccount:{email}", full_name, resource)
