"""The findings of the doctor."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoptree.models import local as hardware
from hoptree.models import machine
from hoptree.models.catalogue import CATALOGUE

ARM = frozenset({"fp", "asimd", "asimddp"})


def test_a_build_without_dot_products_is_found_on_a_processor_with_them() -> None:
    check = machine.check_features(ARM, frozenset({"NEON", "ARM_FMA"}))
    assert check.ok is False
    assert machine._BUILD_COMMAND in check.remedy
    assert machine.check_features(ARM, frozenset({"NEON", "DOTPROD"})).ok is True
    assert machine.check_features(frozenset({"avx2"}), frozenset({"AVX2"})).ok is True
    assert machine.check_features(frozenset({"avx2"}), frozenset({"SSE3"})).ok is False


def test_missing_8_bit_matrix_instructions_are_no_fault() -> None:
    assert machine.check_features(ARM | {"i8mm"}, frozenset({"DOTPROD"})).ok is True


def test_unknown_processors_and_missing_libraries_are_neither_right_nor_wrong() -> None:
    assert machine.check_features(None, frozenset()).ok is None
    assert machine.check_features(ARM, None).ok is None
    assert machine.check_features(frozenset({"fp"}), frozenset()).ok is None
    assert machine.check_library("").ok is None
    assert machine.check_library("1.2").ok is True


def test_cpu_flags(tmp_path: Path) -> None:
    (tmp_path / "arm").write_text("processor\t: 0\nFeatures\t: fp asimddp\n", encoding="utf-8")
    (tmp_path / "x86").write_text("processor\t: 0\nflags\t\t: fpu avx2\n", encoding="utf-8")
    assert hardware.cpu_flags(tmp_path / "arm") == frozenset({"fp", "asimddp"})
    assert hardware.cpu_flags(tmp_path / "x86") == frozenset({"fpu", "avx2"})
    assert hardware.cpu_flags(tmp_path / "none") is None


def test_model_absent_damaged_and_misspelt(tmp_path: Path) -> None:
    entry = CATALOGUE[0]
    absent = machine.check_model(entry.name, tmp_path)
    assert absent.ok is None and f"hoptree models pull {entry.name}" in absent.remedy
    (tmp_path / entry.file).write_bytes(b"GGUF")
    assert machine.check_model(entry.name, tmp_path).ok is False
    assert "Did you mean" in machine.check_model("qwem", tmp_path).remedy
    assert machine.check_model(str(tmp_path / "none.gguf")).ok is False


def test_memory_and_disk(tmp_path: Path) -> None:
    assert machine.check_memory(None).ok is None
    assert machine.check_memory(10**8).ok is False
    assert machine.check_memory(10**11).ok is True
    assert machine.check_disk(tmp_path / "not" / "yet").ok in (True, False)


@pytest.mark.parametrize(("names", "told"), [(["phi"], "1 model (phi)"), (["a", "b"], "2 models (a, b)")])
def test_the_models_of_an_endpoint_are_counted(names: list[str], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def listed(base: str, *, timeout: float) -> list[str]:
        return names

    monkeypatch.setattr("hoptree.models.openai.list_models", listed)
    check = machine.check_endpoint({"OPENAI_BASE_URL": "http://localhost:8000/v1"}, connect=True)
    assert check.finding.endswith(f"it answers, with {told}")


def test_the_endpoint_check_never_shows_a_secret() -> None:
    secret = "sk-very-secret"
    check = machine.check_endpoint({"OPENAI_BASE_URL": f"https://me:{secret}@host:8000/v1", "OPENAI_API_KEY": secret})
    assert check.ok is True and "with a key" in check.finding
    assert secret not in repr(check)
    assert machine.check_endpoint({}).ok is None
    assert machine.check_endpoint({"OPENAI_API_KEY": secret}).finding == "OpenAI, with a key"
    assert machine.check_endpoint({"OPENAI_BASE_URL": "localhost:8000"}).ok is False
    assert machine.check_endpoint({"OPENAI_BASE_URL": "http://[::1"}).ok is False


def test_examine_names_each_check_once() -> None:
    names = [check.name for check in machine.examine({})]
    assert len(names) == len(set(names)) >= 9
