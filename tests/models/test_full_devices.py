"""What devices say when their memory is full, and what only sounds like it."""

from __future__ import annotations

import errno

import pytest

torch = pytest.importorskip("torch")

from hoptree.models.batching.kv_cache import is_out_of_memory  # noqa: E402


@pytest.mark.parametrize(
    "said",
    [
        "MPS backend out of memory (MPS allocated: 8.00 GB, other allocations: 1.00 GB, max allowed: 9.07 GB).",
        "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call.",
        "HIP out of memory. Tried to allocate 2.00 GiB.",
        "[enforce fail at alloc_cpu.cpp:121] data. DefaultCPUAllocator: not enough memory: you tried 9 bytes.",
        "[enforce fail at alloc_cpu.cpp:83] err == 0. DefaultCPUAllocator: can't allocate memory: you tried 9 bytes.",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    ],
)
def test_a_full_device_is_known_by_what_it_says(said: str) -> None:
    assert is_out_of_memory(RuntimeError(said))
    assert not is_out_of_memory(ValueError(said)), "only the runtime's own errors tell of the device"


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("full"), MemoryError(), OSError(errno.ENOMEM, "Cannot allocate memory")],
)
def test_a_full_device_is_known_by_the_kind_of_its_error(error: BaseException) -> None:
    assert is_out_of_memory(error)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        RuntimeError("CUDA error: device-side assert triggered"),
        RuntimeError("index 9 is out of bounds for dimension 0 with size 3"),
        RuntimeError("Expected all tensors to be on the same device"),
        OSError(errno.ENOSPC, "No space left on device"),
    ],
)
def test_other_failures_are_no_full_device(error: BaseException) -> None:
    assert not is_out_of_memory(error)
