"""Kubernetes' own expansion of `$(NAME)` in command, args and env values.

kubernetes third_party/forked/golang/expansion/expand.go: `$(NAME)` is replaced when the container
defines NAME, and stands as it is otherwise; `$$` is an escape for `$`. Here an undefined name is
marked as unread: it may come from `envFrom`, the image or an admission webhook.
"""

import re
from collections.abc import Mapping

from kvscale.core.engines.unread import Budget, clean, unread

_REFERENCE = re.compile(r"\$\$|\$\(([^()$\s]+)\)|\{\{.*?\}\}", re.DOTALL)

MOST_CHARACTERS = 131_072
"""That expansion adds to one text; Linux starts no process with a longer one (MAX_ARG_STRLEN)."""

Env = Mapping[str, str | None]
"""Variables of a container; None when the value comes from somewhere that is not read."""


def expand(text: str, env: Env) -> str:
    """The text as the process sees it; template text (`{{ .Name }}`) is unread as well."""
    budget = Budget(MOST_CHARACTERS)

    def replaced(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        name = match[1]
        if name is None:
            return unread(match[0].strip("{} "))
        value = env.get(name)
        return unread(name) if value is None else budget.take(value, name)

    return _REFERENCE.sub(replaced, clean(text))


def expand_env(env: Env) -> dict[str, str | None]:
    """The variables with references to earlier ones expanded, as the kubelet does."""
    seen: dict[str, str | None] = {}
    for name, value in env.items():
        seen[name] = None if value is None else expand(value, seen)
    return seen
