"""What an attack brings back."""

from __future__ import annotations

from typing import NamedTuple

import torch

from gamagat.pieces.types import Counts, Images, Labels


class Outcome(NamedTuple):
    """What an attack made of a batch and what that cost; whether an image is fooled is the judge's to say."""

    images: Images
    step: Counts  # how many steps were taken when the attack saw the image fall; -1: it never did
    forwards: Counts
    backwards: Counts

    @classmethod
    def untouched(cls, x: Images) -> Outcome:
        """The images as they came, at no cost."""
        none = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        return cls(x.clone(), none - 1, none.clone(), none.clone())

    def put(self, places: Labels, news: Outcome) -> None:
        """Write the news of the images at these places; costs add up."""
        self.images[places], self.step[places] = news.images, news.step
        self.forwards[places] += news.forwards
        self.backwards[places] += news.backwards

    def costing(self, forwards: int) -> Outcome:
        """The same outcome after so many more forward passes of every image."""
        return self._replace(forwards=self.forwards + forwards)
