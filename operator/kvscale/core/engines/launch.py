"""Finds the inference server that a container starts, among all that it runs.

The program may stand in `command`, in `args`, in a script after `sh -c`, behind wrappers such as
`exec` or `tini`, or nowhere: then the image's entrypoint is the server and all the arguments are
its flags (vllm/vllm-openai and its like).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from kvscale.core.engines.expansion import Env, expand, expand_env
from kvscale.core.engines.shell_words import MAX_EXPANDED, REST, simple_commands
from kvscale.core.engines.unread import Budget, shown

VLLM = "vLLM"
SGLANG = "SGLang"
TENSORRT_LLM = "TensorRT-LLM"

_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh"})
_MAX_NESTING = 4
_MAX_WORDS = 4000  # of command or args; the rest is unread
_TALKERS = frozenset({
    "echo", "printf", "pip", "pip3", "pkill", "pgrep", "grep", "which", "cat", "curl", "ps",
    "kill", "killall", "apt-get", "apt", "chmod", "test", "[", "[[", "ls", "watch",
})  # fmt: skip
"""Programs whose arguments may name a server without starting one."""


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a pod template, as far as the server's arguments need it.

    Attributes:
        env: by name, in order; None when the value comes from somewhere that is not read.
    """

    name: str
    image: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Launch:
    """A server that a container starts.

    Attributes:
        engine: "vLLM", "SGLang" or another server's name.
        arguments: after the program (and `serve`); may hold unread text.
    """

    engine: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Started:
    """What a container starts.

    Attributes:
        launches: servers, in the order of the text, each once.
        scripts: files that it runs and that cannot be read.
        summary: the beginning of its command, for a person.
    """

    launches: tuple[Launch, ...]
    scripts: tuple[str, ...]
    summary: str


def find_launches(container: Container) -> Started:
    """The servers that the container starts."""
    env = expand_env(container.env)
    command = _words(container.command, env)
    args = _words(container.args, env)
    finder = _Finder()
    finder.look([*command, *args], env, 0)
    if not container.command and not finder.launches:
        engine = engine_of_image(container.image)
        # an engine's image without arguments serves nothing: something else starts the engine
        if engine and args:
            finder.launches.append(Launch(engine, tuple(args)))
    summary = shown(" ".join([*command, *args]))[:120] or f"image {container.image or '(none)'}"
    return Started(
        tuple(dict.fromkeys(finder.launches)), tuple(dict.fromkeys(finder.scripts)), summary
    )


def _words(words: Sequence[str], env: Env) -> list[str]:
    rest = [REST, REST] if len(words) > _MAX_WORDS else []
    return [expand(word, env) for word in words[:_MAX_WORDS]] + rest


class _Finder:
    """Collects servers and scripts over nested shells."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        self.scripts: list[str] = []
        self.budget = Budget(MAX_EXPANDED)

    def look(self, words: Sequence[str], env: Env, nesting: int) -> None:
        if not words or _base(words[0]) in _TALKERS or nesting > _MAX_NESTING:
            return
        for at, word in enumerate(words):
            launch = _server_at(words, at)
            if launch is not None:
                self.launches.append(launch)
                return
            if _base(word) in _SHELLS or word == "eval":
                self._shell(words[at:], env, nesting)
                return
        if re.search(r"\.(?:sh|bash|py)$|^\./", words[0]):
            self.scripts.append(words[0])
        elif re.match(r"python", _base(words[0])):
            self.scripts += [word for word in words[1:] if word.endswith(".py")][:1]

    def _shell(self, words: Sequence[str], env: Env, nesting: int) -> None:
        """A shell's script text, or the file that it runs."""
        if words[0] == "eval":
            text = " ".join(words[1:])
            positional: tuple[str, ...] = ()
        else:
            at, inline = _shell_options(words)
            if at >= len(words):
                return
            if not inline:
                self.scripts.append(words[at])
                return
            text, positional = words[at], tuple(words[at + 1 :])
        for command in simple_commands(text, env, positional, self.budget):
            self.look(command.words, command.env, nesting + 1)


def _shell_options(words: Sequence[str]) -> tuple[int, bool]:
    """Where a shell's options end, and whether the next word is a script's text (`-c`)."""
    at, inline = 1, False
    while at < len(words) and words[at].startswith(("-", "+")) and len(words[at]) > 1:
        option = words[at]
        if not option.startswith("--"):
            inline = inline or "c" in option
            at += option.endswith("o")  # -o pipefail
        at += 1
    return at, inline


def _base(word: str) -> str:
    return word.rsplit("/", 1)[-1]


def _server_at(words: Sequence[str], at: int) -> Launch | None:
    """The server whose program stands at that word, if one does."""
    word = words[at]
    following = words[at + 1] if at + 1 < len(words) else ""
    program = _base(word)
    engine, taken = _PROGRAMS.get(program, ""), 1
    # a program's name counts where a program stands, not among another one's arguments
    if engine and at and _base(words[at - 1]) not in _WRAPPERS:
        engine = ""
    if word == "-m":
        engine, taken = _MODULES.get(following, ""), 2
        if following in _MODULES_WITH_COMMANDS and list(words[at + 2 : at + 3]) == ["serve"]:
            engine, taken = VLLM, 3
    elif word.endswith("vllm/entrypoints/openai/api_server.py"):
        engine = VLLM
    elif following == "serve" and program in _SERVING:
        engine, taken = _SERVING[program], 2
    return Launch(engine, tuple(words[at + taken :])) if engine else None


_SERVING = MappingProxyType(
    {"vllm": VLLM, "sglang": SGLANG, "ollama": "Ollama", "lmdeploy": "LMDeploy"}
)
_MODULES_WITH_COMMANDS = frozenset({"vllm", "vllm.entrypoints.cli.main"})
_PROGRAMS = MappingProxyType(
    {
        "trtllm-serve": TENSORRT_LLM,
        "tritonserver": "Triton",
        "launch_triton_server.py": "Triton",
        "text-generation-launcher": "Text Generation Inference",
        "llama-server": "llama.cpp",
        "llama-box": "llama.cpp",
    }
)
_WRAPPERS = frozenset({"exec", "nohup", "tini", "--", "dumb-init", "sudo", "python", "python3"})
_MODULES: Mapping[str, str] = MappingProxyType(
    {
        "vllm.entrypoints.openai.api_server": VLLM,
        "vllm.entrypoints.api_server": VLLM,
        "sglang.launch_server": SGLANG,
        "dynamo.vllm": "Dynamo",
        "dynamo.sglang": "Dynamo",
        "dynamo.trtllm": "Dynamo",
        "tensorrt_llm.commands.serve": TENSORRT_LLM,
        "llama_cpp.server": "llama.cpp",
    }
)


_NOT_AN_ENGINE = re.compile(r"router|sidecar|operator|gateway|exporter|proxy|sim\b|bench|client")
_IMAGES: tuple[tuple[str, Callable[[str], bool]], ...] = (
    (VLLM, lambda image: re.search(r"(?:^|[-_:])vllm(?![a-z0-9])", image) is not None),
    (SGLANG, lambda image: "sglang" in image),
    (TENSORRT_LLM, lambda image: "trtllm" in image or "tensorrt-llm" in image),
    ("Triton", lambda image: "tritonserver" in image),
    ("Text Generation Inference", lambda image: "text-generation-inference" in image),
    ("llama.cpp", lambda image: "llama.cpp" in image),
    ("LMDeploy", lambda image: "lmdeploy" in image),
    ("Ollama", lambda image: "ollama" in image),
)


def engine_of_image(image: str) -> str:
    """The server that an image starts by itself, judged by its name and tag; "" if none."""
    name, tag = split_image(image)
    last = name.rsplit("/", 1)[-1].lower()
    if _NOT_AN_ENGINE.search(last):
        return ""
    said = f"{last}:{tag.lower()}"
    return next((engine for engine, fits in _IMAGES if fits(said)), "")


def split_image(image: str) -> tuple[str, str]:
    """Name and tag of an image; the tag is "" if there is none (`name@sha256:...`)."""
    name = image.partition("@")[0]
    slash = name.rfind("/")
    colon = name.rfind(":")
    return (name[:colon], name[colon + 1 :]) if colon > slash else (name, "")


def version_of_image(image: str, engine: str = VLLM) -> str | None:
    """The engine's version that an image's tag states ("v0.11.0", "0.10.0-xpu"), or None.

    Only tags of images that number themselves as the engine does: a Gaudi build, NVIDIA's monthly
    release or a custom image has a numbering of its own.
    """
    name, tag = split_image(image)
    if name.rsplit("/", 1)[-1] not in _NUMBERED.get(engine, frozenset()):
        return None
    match = re.match(
        r"v?(\d\.\d{1,3}(?:\.\d{1,3}){0,2})(?:rc\d+)?(?:\.post\d+)?(?![\d.])", tag, re.ASCII
    )
    if match is None or (engine != TENSORRT_LLM and not match[1].startswith("0.")):
        return None
    return match[1]


_NUMBERED: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        VLLM: frozenset({"vllm-openai", "vllm", "vllm-openai-rocm", "vllm-tpu", "vllm-ascend"}),
        SGLANG: frozenset({"sglang", "sglang-runtime"}),
        # nvcr.io/nvidia/tensorrt-llm/release:1.1.0
        TENSORRT_LLM: frozenset({"release", "tensorrt-llm", "tensorrtllm-runtime"}),
    }
)
