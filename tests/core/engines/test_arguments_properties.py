"""Whatever a pod template holds, reading it ends in an answer."""

import shlex

from hypothesis import given
from hypothesis import strategies as st

from kvscale.core.engines.arguments import Container, ServerArguments, choose_server
from kvscale.core.engines.shell_words import simple_commands
from kvscale.core.engines.unread import MARK
from kvscale.core.values import Unknown

PIECES = st.sampled_from([
    "vllm", "serve", "-m", "vllm.entrypoints.openai.api_server", "bash", "-c", "sh", "eval", "exec",
    "--tensor-parallel-size", "-tp", "--max-model-len=", "--config", "--model", "$(A)", "$A", "${A",
    "${A:-b}", "$@", "\\\n", "'", '"', "`", "$(", ")", "((", "&&", "||", ";", "|", "&", "<<EOF", "EOF",
    "\n", " ", "#", "A=1", "A=(", "if", "fi", "for", "do", "done", "{{ .X }}", "\0", "=", "--", "-",
    "--kv-transfer-config", '{"kv_role":', "1e9", "9" * 40, "-1", "٣", "2>&1", ">", "case", "esac",
])  # fmt: skip
WORDS = st.one_of(st.lists(PIECES, max_size=12).map("".join), st.text(max_size=30))
ENV = st.dictionaries(st.sampled_from(["A", "B", "VLLM_USE_V1"]), st.none() | WORDS, max_size=3)
CONTAINERS = st.builds(
    Container,
    name=st.just("c"),
    image=st.sampled_from(["vllm/vllm-openai:v0.11.0", "x", "", ":", "a@b:c"])
    | st.text(max_size=9),
    command=st.lists(WORDS, max_size=4).map(tuple),
    args=st.lists(WORDS, max_size=5).map(tuple),
    env=ENV,
)


@given(st.lists(CONTAINERS, max_size=3), st.sampled_from(["", "c", "d"]))
def test_reading_never_raises_and_never_leaks_its_marks(containers, named):
    read = choose_server(containers, named)
    assert isinstance(read, ServerArguments | Unknown)
    assert MARK not in repr(read).replace("\\x00", MARK)


@given(st.lists(WORDS, max_size=12).map(" ".join))
def test_any_script_after_a_shell_is_answered(script):
    read = choose_server([Container("c", "x", ("bash", "-c", script), env={"A": "1 2"})])
    assert isinstance(read, ServerArguments | Unknown)


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0\r", codec="utf-8"), max_size=8), min_size=1
    )
)
def test_quoted_words_survive_the_shell(words):
    # a first word could be a keyword or an assignment, so a program stands before them
    commands = simple_commands(shlex.join(["run", *words]), {})
    assert [command.words for command in commands] == [("run", *words)]


@given(
    st.integers(1, 64),
    st.integers(1, 2**20),
    st.integers(1, 1000),
    st.sampled_from(["list", "equals", "underscores", "shell"]),
)
def test_spellings_say_the_same(tensor, length, milli, spelling):
    flags = {
        "--tensor-parallel-size": str(tensor),
        "--max-model-len": str(length),
        "--gpu-memory-utilization": f"{milli / 1000:.3f}",
    }
    words = [word for pair in flags.items() for word in pair]
    if spelling == "equals":
        words = [f"{name}={value}" for name, value in flags.items()]
    if spelling == "underscores":
        words = [
            word
            for name, value in flags.items()
            for word in ("--" + name[2:].replace("-", "_"), value)
        ]
    command = ("vllm", "serve", "m", *words)
    if spelling == "shell":
        command = ("sh", "-c", "exec " + shlex.join(command))
    read = choose_server([Container("c", "x", command)])
    assert isinstance(read, ServerArguments)
    assert (
        read.engine.tensor_parallel,
        read.engine.max_model_len,
        read.engine.memory_utilization_milli,
    ) == (tensor, length, milli)


def test_variables_that_double_each_other_end_in_an_answer():
    env: dict[str, str | None] = {"V0": "--enforce-eager "}
    env |= {f"V{n}": f"$(V{n - 1})$(V{n - 1})" for n in range(1, 60)}
    doubling = "a=xx; " + "a=$a$a; " * 60 + "vllm serve m --dtype $a"
    arrays = "A=(1 2); " + 'A+=("${A[@]}" "${A[@]}"); ' * 60 + 'vllm serve m --dtype "${A[@]}"'
    scripts = (("sh", "-c", doubling), ("bash", "-c", arrays))
    for words in (("vllm", "serve", "m", "$(V59)"), *scripts):
        read = choose_server([Container("c", "x", words, env=env)])
        assert isinstance(read, ServerArguments)
        assert read.unread


def test_a_script_of_nothing_but_shells_ends_in_an_answer():
    script = "".join(f"v{n}=1;sh -c 'x $v{n}';" for n in range(2000)) + "vllm serve m"
    read = choose_server([Container("c", "x", ("sh", "-c", script))])
    assert isinstance(read, ServerArguments)


def test_arguments_beyond_the_limit_are_unread_and_not_dropped():
    words = ("vllm", "serve", "m", *("--enforce-eager",) * 5000, "-tp", "8")
    for command in (words, ("sh", "-c", " ".join(words))):
        read = choose_server([Container("c", "x", command)])
        assert isinstance(read, ServerArguments)
        assert "tensor_parallel" in {one.field for one in read.unread}
