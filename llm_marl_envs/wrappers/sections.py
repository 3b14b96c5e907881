"""One response for several roles: ``<role>`` sections, joined and split.

A tag is ``<role>`` or ``</role>``, in any case, with up to four blanks after ``<`` or ``/`` and before ``>``. The
rules, for any text whatever:

1. A section begins after the opening tag of a role. It ends at that role's closing tag (it is then *closed*), or else
   at the next opening tag of any role, or at the end of the text: a closing tag that was forgotten costs nothing.
2. Of several sections of one role the first closed one counts; where none is closed, the first. So neither tags that
   are only mentioned before the answer nor text that rambles on after it take its place.
3. What stands outside sections is ignored. Inside, everything else is text: tags of no role, closing tags of others.
4. One newline directly after the opening tag, and one directly before the end, belong to the tags. Where there is none,
   blanks at that end are cut off.

A role without a section is missing. ``split_sections(join_sections(texts))`` gives back every text that holds no tag.
Splitting takes time linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_UNFIT = re.compile(r"[^\w.\-]+")


def tags_of(roles: Sequence[str]) -> dict[str, str]:
    """A tag for each role: its name, with ``_`` for what cannot stand in a tag. Where these would not differ (in more
    than their case), ``role_1``, ``role_2`` ..."""
    tags = {role: _UNFIT.sub("_", role) for role in roles}
    if len({tag.casefold() for tag in tags.values()}) < len(tags) or not all(tags.values()):
        tags = {role: f"role_{i}" for i, role in enumerate(roles, start=1)}
    return tags


def join_sections(texts: Mapping[str, str], tags: Mapping[str, str]) -> str:
    """One response of the texts of roles."""
    return "\n".join(f"<{tags[role]}>\n{written}\n</{tags[role]}>" for role, written in texts.items())


def split_sections(response: str, tags: Mapping[str, str]) -> dict[str, str]:
    """role -> text, of the roles that have a section.

    Args:
        response: any text.
        tags: role -> tag, of the roles to look for.
    """
    if not tags:
        return {}
    roles = {tag.casefold(): role for role, tag in tags.items()}
    names = "|".join(sorted(map(re.escape, tags.values()), key=len, reverse=True))
    # Bounded blanks, each run in one place only: no text makes this slow.
    tag = re.compile(rf"<[ \t]{{0,4}}(?P<close>/[ \t]{{0,4}})?(?P<name>{names})[ \t]{{0,4}}>", re.IGNORECASE)
    open_: dict[str, str] = {}
    closed: dict[str, str] = {}
    role, start = None, 0
    for found in tag.finditer(response):
        if (named := roles.get(found["name"].casefold())) is None:
            continue  # a letter that IGNORECASE takes for another one
        if not found["close"]:
            if role is not None:
                open_.setdefault(role, _inner(response[start : found.start()]))
            role, start = named, found.end()
        elif role is not None and named == role:
            closed.setdefault(role, _inner(response[start : found.start()]))
            role = None
    if role is not None:
        open_.setdefault(role, _inner(response[start:]))
    return {r: closed.get(r, open_.get(r, "")) for r in tags if r in closed or r in open_}


def _inner(content: str) -> str:
    content = content[1:] if content.startswith("\n") else content.lstrip()
    return content[:-1] if content.endswith("\n") else content.rstrip()
