"""Where does a local model run, and how much can it take there?"""

from annai.models.extras import ModelUnavailable

BATCH_TOKENS = {"cpu": 4_096, "mps": 8_192, "cuda": 65_536}
"""Device → tokens in a batch, padding included: memory grows with them, and a query waits until the batch is done."""

MAX_TEXT_TOKENS = 8_192
"""Models that take longer texts get windows of this size: the memory for one text grows with its square."""


def choose_device(wanted: str) -> str:
    """The device that a model runs on: CUDA, Apple MPS or CPU. Raises `ModelUnavailable` if it is not there."""
    import torch  # an extra, and slow to import

    usable = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    devices = [device for device, is_usable in usable.items() if is_usable]
    if wanted == "auto":
        return devices[0]
    if wanted.partition(":")[0] not in devices:
        raise ModelUnavailable(
            f"This machine has no device {wanted!r}; set device to auto or to one of: {', '.join(devices)}."
        )
    return wanted


def free_device_memory() -> None:
    """Return the memory that PyTorch reserved on the device, for use after a model was unloaded."""
    import torch  # an extra, and loaded already

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if torch.backends.mps.is_available():
        torch.mps.empty_cache()
