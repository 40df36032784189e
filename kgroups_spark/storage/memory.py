"""How memory is allocated: Arrow's pool, and malloc for NumPy's arrays."""

from __future__ import annotations

import os

import pyarrow as pa

# The environment variable by which users choose a pool.
CHOSEN_BY = "ARROW_DEFAULT_MEMORY_POOL"
# glibc raises the first limit to the size of the largest array that was freed, and smaller arrays then leave holes: a
# worker that reads 5 million records takes 15 MB more. With limits of half these sizes the kernel clears pages so often
# that reading takes a third more CPU.
OF_MALLOC = {"MALLOC_MMAP_THRESHOLD_": 1 << 20, "MALLOC_TRIM_THRESHOLD_": 4 << 20}


def use_jemalloc() -> None:
    """Makes Arrow allocate with jemalloc, if pyarrow has it and the user has not chosen a pool.

    mimalloc, pyarrow's default, returns pages at once. If tables are read, changed and written shard by shard, the
    kernel clears pages again and again: a night over 300,000 live offsets takes 1.9 system seconds and 650 MB with
    mimalloc, 0.6 and 750 MB with jemalloc.
    """
    if _is_ours_to_choose():
        pa.set_memory_pool(pa.jemalloc_memory_pool())


def memory_of_workers() -> dict[str, str]:
    """Spark's settings by which new workers have jemalloc from their start, and malloc returns large arrays.

    Arrow's own threads and kernels take memory from the pool that it has at its start, whatever is set later. With two
    pools, each of which keeps freed memory, a worker that reads one million records takes 40 MB more.
    """
    pool = {CHOSEN_BY: "jemalloc"} if _is_ours_to_choose() else {}
    malloc = {name: str(size) for name, size in OF_MALLOC.items() if name not in os.environ}
    return {f"spark.executorEnv.{name}": value for name, value in {**pool, **malloc}.items()}


def _is_ours_to_choose() -> bool:
    return "jemalloc" in pa.supported_memory_backends() and not os.environ.get(CHOSEN_BY)
