"""How the package and the command start: without torch, until something needs it."""

import signal
import subprocess
import sys
import time
from importlib import import_module

import pytest

import gamagat
from gamagat.cli import app as front
from gamagat.cli import main, told_to_end
from helpers import spoken_to


def python(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)


def without_torch(code: str) -> str:
    return f"import sys; sys.modules['torch'] = None\n{code}"  # to import it is an error


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """The command where torch cannot be imported."""
    return python(
        "-c", without_torch(f"sys.argv = {['gamagat', *words]!r}\nfrom gamagat.cli import main\nmain()")
    )


def test_the_package_is_imported_without_torch():
    done = python("-c", without_torch("import gamagat; print(gamagat.ConfigError.__name__, dir(gamagat))"))
    assert done.stderr == ""
    assert "ConfigError" in done.stdout
    assert "'load_model'" in done.stdout


@pytest.mark.parametrize("word", ["--help", "-h", "--version"])
def test_help_and_version_need_no_torch(word):
    done = command(word)
    assert (done.returncode, done.stderr) == (0, "")
    assert gamagat.__version__ in done.stdout or "reproduce" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"), [(["evaluat"], "Did you mean 'evaluate'?"), (["--nope"], "No such option: --nope")]
)
def test_mistakes_at_the_front_need_no_torch(words, message):
    done = command(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_every_public_name_is_there_and_is_what_it_is_at_home():
    for name in gamagat.__all__:
        assert getattr(gamagat, name) is not None
    assert {*gamagat.__all__} <= {*dir(gamagat)}
    assert gamagat.load_model is import_module("gamagat.models.core").load_model
    assert gamagat.verify is import_module("gamagat.api").verify
    assert gamagat.pieces.threat.LINF is gamagat.LINF  # parts of the package, too


def test_star_imports_bring_all_names():
    done = python("-c", "from gamagat import *; print(ThreatModel(LINF, 0.1).eps, attack.__name__)")
    assert (done.stdout, done.stderr) == ("0.1 attack\n", "")


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'gamagat' has no attribute 'nothing'"):
        _ = gamagat.nothing
    assert not hasattr(gamagat, "__wrapped__")


def test_the_menu_is_what_the_files_add():
    """Names and first lines are read from the source; what the modules register is the same."""
    read = dict(front.subcommands())
    for subcommand in read.values():
        import_module(f"gamagat.cli.{subcommand.module}")
    registered = {
        info.name or info.callback.__name__.replace("_", "-"): info.callback.__doc__
        for info in front.app.registered_commands
    }
    assert set(read) == set(registered)
    for name, subcommand in read.items():
        assert subcommand.help.split("\n")[0] == (registered[name] or "").strip().split("\n")[0]


@pytest.mark.slow  # where a process is after so many seconds is the machine's to say
@pytest.mark.parametrize("seconds", [0.3, 0.8])
def test_ctrl_c_while_modules_are_imported_is_one_line(seconds):
    process = spoken_to(["evaluate", "digits-cnn", "--attack", "autoattack"])
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "note: stopped: it was interrupted\n"


@pytest.mark.parametrize(
    ("before", "elastic", "within"),
    [
        (signal.SIG_DFL, None, signal.default_int_handler),
        (signal.SIG_IGN, None, signal.SIG_IGN),  # somebody's wish
        (signal.SIG_DFL, "run", signal.SIG_DFL),  # torchrun's own processes
    ],
)
def test_being_told_to_end_is_ctrl_c_for_as_long_as_the_command_runs(before, elastic, within, monkeypatch):
    if elastic is not None:
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", elastic)
    usual = signal.signal(signal.SIGTERM, before)
    try:
        with told_to_end():
            assert signal.getsignal(signal.SIGTERM) == within
        assert signal.getsignal(signal.SIGTERM) == before
    finally:
        signal.signal(signal.SIGTERM, usual)


def test_ctrl_c_in_a_subcommand_is_one_line(monkeypatch, capsys):
    """Where the subcommand itself does not know what to do about it, as while a network is loaded."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    import_module("gamagat.cli.list")
    monkeypatch.setattr("gamagat.cli.list.catalog", interrupted)
    monkeypatch.setattr(sys, "argv", ["gamagat", "list"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 130
    assert capsys.readouterr() == ("", "note: stopped: it was interrupted\n")
