"""A run directory that also gives the tagger of its model."""

from ms_crf.runs import run
from ms_crf.tagging.tagger import Compiled, Tagger


class Run(run.Run):
    """A run directory, opened once; the functions of `ms_crf.api` return it.

    `ms_crf.runs.run.Run` reads the records and may not know taggers, since its folder lies below theirs. This class
    adds what needs the folders above. So inner modules take the plain class, and users get this one.

    Example, with the directory of a run:
        >>> from ms_crf.tagging.run import Run
        >>> found = Run.open(run)
        >>> found.scheme in ('BIO', 'BIOES'), len(found.tagger().tag([['wall', 'street']])[0].tags)
        (True, 2)
    """

    def tagger(self, compiled: Compiled | None = None, temperature: float = 1.0) -> Tagger:
        """Loads the tagger of its model; arguments and errors are those of `Tagger.load`."""
        return Tagger.load(self, compiled, temperature)
