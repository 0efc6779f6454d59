"""Wait for an event, but not for ever."""

import asyncio


async def set_within(event: asyncio.Event, seconds: float) -> bool:
    """Whether the event was set within so many seconds; returns as soon as it is."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
