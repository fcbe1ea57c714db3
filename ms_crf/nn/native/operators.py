"""The operators of networks.

lstm.cpp and characters.cpp describe their inputs and results; a result is one flat float32 tensor.
"""

from ms_crf.native.custom import FLOATS, INT32, INTEGERS, on_first_use

_OF_LSTM = [FLOATS, INTEGERS, *[FLOATS] * 8]
_OF_CHARACTERS = [FLOATS, FLOATS, INT32]

__getattr__ = on_first_use(globals(), {
    'states': ('LstmStates', _OF_LSTM),
    'gates_of_forms': ('LstmGatesOfForms', [FLOATS, INT32, *[FLOATS] * 6]),
    'scores_of_forms': ('LstmScoresOfForms', [FLOATS, INTEGERS, FLOATS, FLOATS, INT32, FLOATS, FLOATS]),
    'states_and_kept': ('LstmStatesAndKept', _OF_LSTM),
    'lstm_gradients': ('LstmGradients', [*_OF_LSTM, FLOATS, FLOATS]),
    'words_of_characters': ('CharactersWords', _OF_CHARACTERS),
    'character_gradients': ('CharactersGradients', [*_OF_CHARACTERS, FLOATS]),
})
