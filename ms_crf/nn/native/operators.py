"""The operators of networks, each made when it is first asked for: before, there may be no library.

What they take and give is said in lstm.cpp and characters.cpp; what they give is one flat float32 tensor.
"""

from typing import Any

from ms_crf.native.custom import FLOATS, INT32, INTEGERS, operator

_OF_LSTM = [FLOATS, INTEGERS, *[FLOATS] * 8]
_OF_CHARACTERS = [FLOATS, FLOATS, INT32]
# The names in the library, and the types of the inputs.
_OPERATORS: dict[str, tuple[str, list[list[Any]]]] = {
    'states': ('LstmStates', _OF_LSTM),
    'gates_of_forms': ('LstmGatesOfForms', [FLOATS, INT32, *[FLOATS] * 6]),
    'scores_of_forms': ('LstmScoresOfForms', [FLOATS, INTEGERS, FLOATS, FLOATS, INT32, FLOATS, FLOATS]),
    'states_and_kept': ('LstmStatesAndKept', _OF_LSTM),
    'lstm_gradients': ('LstmGradients', [*_OF_LSTM, FLOATS, FLOATS]),
    'words_of_characters': ('CharactersWords', _OF_CHARACTERS),
    'character_gradients': ('CharactersGradients', [*_OF_CHARACTERS, FLOATS]),
}


def __getattr__(name: str) -> Any:
    if name not in _OPERATORS:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    globals()[name] = operator(*_OPERATORS[name])
    return globals()[name]
