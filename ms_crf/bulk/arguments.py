"""The arguments of `tag_many`."""

from dataclasses import dataclass

from ms_crf.base.arguments import DIR, FILE, option
from ms_crf.base.errors import OptionError, argument, brief
from ms_crf.bulk.shards import JSONL, PARQUET
from ms_crf.runs.arguments import Computing
from ms_crf.runs.records import check_output
from ms_crf.text.splitting import CHOICES, check_name

RAY = 'ray'
MOST_WORKERS = 10_000


@dataclass
class TagManyArguments(Computing):
    """What `tag_many` takes."""

    run: str = option(None, 'Input', 'run directory (default: the newest in runs/)', DIR)
    input: list = option(None, 'Input', 'files, folders or patterns like "shards/*.jsonl.zst": JSON lines (.jsonl, '
                         '.json), a text a line (.txt), these also with .gz or .zst, and .parquet', FILE,
                         required=True, several=True)
    id_field: str = option(None, 'Input', 'field or column of the id (default: id where a row has it, otherwise file '
                           'and line)', 'NAME')
    text_field: str = option('text', 'Input', 'field or column of the text', 'NAME')
    tokens_field: str = option('tokens', 'Input', 'field or column of the tokens, taken where a row has both', 'NAME')
    raw: bool = option(False, 'Input', 'find sentences and tokens in each text')
    splitter: str = option(None, 'Input', f'what finds them: {CHOICES} (default: as the model was trained)', 'NAME',
                           needs={'raw': True})
    output: str = option(None, 'Output', 'folder for the tagged files, of the same names', DIR, required=True)
    format: str = option(JSONL, 'Output', 'of the tagged files', choices=(JSONL, PARQUET))
    confidence: bool = option(False, 'Output', 'posteriors of tags, entities and sentences')
    json: str = option(None, 'Output', 'write the summary there', FILE)
    workers: int = option(None, 'Computing', 'processes, each with the model (default: as many as this machine has '
                          'processors)', 'N', least=1, most=MOST_WORKERS)
    engine: str = option(RAY, 'Computing', 'what runs the workers', choices=(RAY,))
    address: str = option(None, 'Computing', "of a cluster that is there, or 'auto' for the cluster that this machine "
                          'belongs to (default: processes of this machine)', 'HOST:PORT')

    def check(self) -> None:
        """Raises OptionError at the first value that can't be."""
        super().check()
        if self.splitter is not None and self.raw:
            check_name(self.splitter, argument('splitter'))
        for name in self.input:
            if '://' in name:
                raise OptionError(f'{argument("input")} must be files that all machines see by their names, got '
                                  f'{brief(name)}')
        if self.json:
            check_output(self.json)
