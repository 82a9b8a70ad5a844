"""How are counts, sizes and times said to people?"""


def counted(count: int, noun: str) -> str:
    """So many of something: 1 result, 2 results."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def size(count: int) -> str:
    """A number of bytes, for people."""
    amount = float(count)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def local_time(timestamp: str) -> str:
    """When something was, by the clock of this machine; empty if it has not come."""
    from datetime import datetime  # only where one is shown

    return f"{datetime.fromisoformat(timestamp).astimezone():%Y-%m-%d %H:%M:%S}" if timestamp else ""


def time_ago(timestamp: str) -> str:
    """How long ago something was, for people; a date if that is long ago, and empty if it has not come."""
    from datetime import UTC, datetime  # only where one is shown

    if not timestamp:
        return ""
    moment = datetime.fromisoformat(timestamp)
    seconds = (datetime.now(UTC) - moment).total_seconds()
    if seconds < 60:
        return "just now"
    for unit, length, most in (("minute", 60, 60), ("hour", 3600, 24), ("day", 86400, 30)):
        if (number := int(seconds // length)) < most:
            return f"{counted(number, unit)} ago"
    return f"{moment.astimezone():%Y-%m-%d}"
