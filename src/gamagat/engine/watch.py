"""Progress: what is running and how far it is, told with every batch that passes through the network."""

from collections.abc import Callable

from gamagat.pieces.types import Images, Model, Scores

Progress = Callable[[str, float, int], None]  # what is running, images done, images in all


def silent(what: str, done: float, total: int) -> None:
    """Say nothing."""


class Watch:
    """Counts the passes of one run, to tell how far it is before its first batch has ended."""

    def __init__(self, progress: Progress, what: str, total: int, passes: int = 1) -> None:
        self._progress, self._what, self._total = progress, what, total
        self._passes = passes  # that an image may need at the most
        self._done = 0
        self._within = 0.0  # images' worth of passes since the last batch ended
        progress(what, 0, total)

    def through(self, model: Model, count: int) -> Model:
        """The same network, which reports every pass of a batch of `count` images."""

        def watched(images: Images) -> Scores:
            logits = model(images)
            self._within = min(self._within + len(images) / self._passes, count)
            self._progress(self._what, self._done + self._within, self._total)
            return logits

        return watched

    def finished(self, count: int) -> None:
        """A batch of `count` images has ended."""
        self._done, self._within = self._done + count, 0.0
        self._progress(self._what, self._done, self._total)
