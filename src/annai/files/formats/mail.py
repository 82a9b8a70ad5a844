"""What does a message (.eml) say? Its subject, its people, its text and the names of what is attached."""

from datetime import datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import EmailPolicy

from annai.files.formats.html import convert_text
from annai.files.formats.markdown import ConversionError, Converted, escape, heading, join, one_line, properties

_SHOWN = {"From": "from", "To": "to", "Cc": "cc", "Date": "date"}


MAX_HEADER_CHARACTERS = 20_000
"""Hundreds of addresses; how long Python takes to read a header grows with the square of its length."""


class _Policy(EmailPolicy):
    """How Python reads messages, with the beginning of a header that is too long."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        """The name and the value of a header."""
        name, value = super().header_source_parse(sourcelines)
        return name, value[:MAX_HEADER_CHARACTERS]


def convert(data: bytes) -> Converted:
    """A message as Markdown."""
    message = message_from_bytes(data, policy=_Policy())
    if not isinstance(message, EmailMessage) or not any(message.get(name) for name in ("From", "Subject", "Date")):
        raise ConversionError("it is broken: not a message")
    headers = {name: _header(message, name) for name in ("Subject", *_SHOWN)}
    date = message.get("Date")
    sent = getattr(date, "datetime", None)
    people = "\n".join(f"- {name}: {escape(headers[name])}" for name in _SHOWN if headers[name])
    attached = [name for part in message.iter_attachments() if (name := part.get_filename())]
    blocks = [
        heading(1, headers["Subject"]),
        people,
        _body(message),
        "\n".join(["Attachments:", "", *(f"- {escape(name)}" for name in attached)]) if attached else "",
    ]
    values = properties(
        title=headers["Subject"],
        author=headers["From"],
        created=sent.isoformat() if isinstance(sent, datetime) else "",
    )
    return Converted(join(blocks), {**values, **({"to": one_line(headers["To"])} if headers["To"] else {})})


def _header(message: EmailMessage, name: str) -> str:
    try:
        return " ".join(str(message.get(name) or "").split())
    except (ValueError, IndexError, AttributeError):
        # The parser of Python does not know every way in which a header can be wrong.
        return ""


def _body(message: EmailMessage) -> str:
    part = message.get_body(("plain", "html"))
    if part is None:
        return ""
    try:
        text = part.get_content()
    except (LookupError, UnicodeError, ValueError):
        payload = part.get_payload(decode=True)
        text = payload.decode("utf-8", "replace") if isinstance(payload, bytes) else ""
    if part.get_content_subtype() == "html":
        return convert_text(text).text
    return join([escape(each) for each in text.replace("\r\n", "\n").split("\n\n")])
