"""Confidences of tags, spans and sentences, from posteriors of the chain."""

import numpy as np


class Posteriors:
    """Confidences of the tags, spans and sentences of a batch, from posteriors.

    Args:
        paths: (B, L), the tags.
        lengths: (B,).
        chosen: (B, L), the posterior of each tag of the paths.
        conditional: (B, L, K), the posterior of every tag given the path's tag before it.
        continues: (K, K), 1 where the second tag continues the span that the first is in.
    """

    def __init__(self, paths: np.ndarray, lengths: np.ndarray, chosen: np.ndarray, conditional: np.ndarray,
                 continues: np.ndarray) -> None:
        self.chosen = np.clip(chosen.astype(np.float64), 0, 1)
        step = np.take_along_axis(conditional, paths[:, :, None], 2)[:, :, 0].astype(np.float64)
        live = np.arange(paths.shape[1]) < lengths[:, None]
        # Logarithms of the products up to each token; differences are those of parts of a path.
        self.sums = np.cumsum(np.log(np.where(live, np.clip(step, 1e-300, 1), 1)), 1)
        self.of_sentence = np.exp(self.sums[:, -1]).tolist()
        self.ends = np.ones(paths.shape)
        self.ends[:, :-1] -= (conditional[:, 1:] * continues[paths[:, :-1]]).sum(2)

    def of_spans(self, rows: np.ndarray, firsts: np.ndarray, lasts: np.ndarray) -> np.ndarray:
        """The posterior of each span: of its first tag, of its other tags after that, and of its end."""
        inside = np.exp(self.sums[rows, lasts] - self.sums[rows, firsts])
        return self.chosen[rows, firsts] * inside * np.clip(self.ends[rows, lasts], 0, 1)
