"""What may be registered as a job or a handler: a plain function that has run when it returns."""

import inspect


def check_function(function: object, how: str) -> None:
    """Refuse what would be taken for done without having run.

    Parameters
    ----------
    function
        What somebody registers.
    how
        How to register it, for the message.

    Raises
    ------
    TypeError
        If it is not a function, or an `async` one or a generator.
    """
    if not callable(function):
        raise TypeError(f"{function!r} is not a function: write {how} above one")
    if (
        inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
    ):
        raise TypeError(
            f"{function!r} is async or a generator: calling it runs nothing; make it "
            "a plain function (asyncio.run(...) inside it, if need be)"
        )


def check_result(result: object) -> None:
    """Refuse the result of a function that has not run yet.

    Raises
    ------
    TypeError
        If it is an awaitable or a generator.
    """
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError(f"returned a {type(result).__name__}, so nothing has run: return when done")
