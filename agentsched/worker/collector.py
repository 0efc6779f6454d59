"""Python's garbage collector, set for a process that fires."""

import gc

ALLOCATIONS = 50_000


def calm_collector() -> None:
    """Collect rarely, and never again what is there at the start.

    A tick makes hundreds of thousands of small tuples, all of which die by their reference counts; walking them over
    and over, as the default does, costs it more than a tenth of its time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(ALLOCATIONS, 20, 20)
