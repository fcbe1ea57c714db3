"""The arguments of `serve`."""

from dataclasses import dataclass, fields
from urllib.parse import urlsplit

from ms_crf.base.arguments import FILE, option
from ms_crf.base.errors import OptionError, argument, brief
from ms_crf.runs.arguments import OfModel
from ms_crf.server.limits import Limits
from ms_crf.text.splitting import CHOICES, check_name

TOKEN = 'MS_CRF_TOKEN'                 # the variable of the environment


@dataclass
class ServeArguments(Limits, OfModel):
    """What `serve` takes."""

    splitter: str = option(None, '', f'what cuts raw text: {CHOICES} (default: as the model was trained)', 'NAME')
    host: str = option('127.0.0.1', '', 'address to listen on; 0.0.0.0 or :: for the addresses of all networks, with a '
                       'token')
    port: int = option(8000, '', '0 for a free port', 'N', least=0, most=65535)
    token_file: str = option(None, '', f'file with the token that requests must bring (default: the token in {TOKEN} '
                             'in the environment, or none)', FILE)
    no_token: bool = option(False, '', 'answer everybody who reaches the server, and requests for any host, without a '
                            'token')
    allow_origin: list = option(None, '', 'scripts of pages from there may ask, too, such as https://example.org; may '
                                'be repeated', 'URL', several=True)

    def check(self) -> None:
        """Raises OptionError at the first value that can't be."""
        super().check()
        if self.splitter is not None:
            check_name(self.splitter, argument('splitter'))
        for origin in self.allow_origin or ():
            _check_origin(origin)

    @property
    def limits(self) -> Limits:
        """The limits alone."""
        return Limits(**{entry.name: getattr(self, entry.name) for entry in fields(Limits)})


def _check_origin(origin: str) -> None:
    try:
        parts = urlsplit(origin)
        _ = parts.port
    except ValueError:                           # brackets that hold no address, a port that is none
        parts = urlsplit('')
    if origin != '*' and (parts.scheme not in ('http', 'https') or origin != f'{parts.scheme}://{parts.netloc}'
                          or not parts.netloc or not origin.isascii()):
        raise OptionError(f'{argument("allow_origin")} must be * or an origin such as https://example.org, without a '
                          f'path, got {brief(origin)}')
