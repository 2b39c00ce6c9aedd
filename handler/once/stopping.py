"""Whether this process was told to stop; it then takes no new claims."""

import signal


def told_to_stop() -> bool:
    """Tell whether the gunicorn worker that serves this process has had its SIGTERM.

    gunicorn installs its own signal handler after the application was loaded, so it cannot be had
    from there; but the handler is a method of the worker, and the worker knows. Under another
    server this is always False: pass a function of your own to `Guard` or `Service`.
    """
    worker = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return not getattr(worker, "alive", True)
