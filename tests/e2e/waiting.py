"""Waiting for what must come true, and saying what was seen instead when it does not."""

import pathlib
import time
import traceback
import types

TOP = pathlib.Path(__file__).resolve().parents[2]
VALUE_CHARACTERS, VALUES_CHARACTERS = 400, 4000


def wait_until(condition, seconds=30, what="the condition"):
    """Polls until condition() is true (its value is returned); an exception counts as not yet."""
    deadline = time.monotonic() + seconds
    last = error = None
    while time.monotonic() < deadline:
        try:
            value = condition()
            if value:
                return value
            last, error = value, None
        except Exception as caught:  # the platform may be restarting under us
            error = caught
        time.sleep(0.05)
    raise AssertionError(f"{what} did not come true in {seconds} s; the last try: {described(error) if error else repr(last)}") from error


def described(error):
    """An exception in full: its line among the tests', what it says, and the values that were looked at there."""
    frames = [each for each in traceback.walk_tb(error.__traceback__) if is_ours(each[0])]
    text = f"{type(error).__name__}: {error}"
    if not frames:
        return text
    frame, line = frames[-1]
    place = pathlib.Path(frame.f_code.co_filename).resolve().relative_to(TOP)
    return f"{place}:{line}: {text}\n{values(frame.f_locals)}"


def is_ours(frame):
    return TOP in pathlib.Path(frame.f_code.co_filename).resolve().parents


def values(variables):
    lines = []
    for name, value in variables.items():
        if name.startswith("@") or isinstance(value, (types.ModuleType, types.FunctionType)) or repr(value).startswith("<"):
            continue  # what says nothing
        text = repr(value)
        lines.append(f"    {name} = {text[:VALUE_CHARACTERS]}{' ...' if len(text) > VALUE_CHARACTERS else ''}")
    return "\n".join(lines)[:VALUES_CHARACTERS]
