"""The handler as deployed, with the payments example instead of the jobs and events that it has.

`functions-framework --source tests/support/payments_app.py --target handle` serves it.
"""

if True:  # the service takes the handlers when it is imported
    from main import handle

    from examples import payments  # noqa: F401  (registers the handler)

__all__ = ["handle"]
