"""Cells whose methods can be compiled by themselves, as in ms.jit(crf.decode)."""

import sys


class CompilableMethods:
    """Base of a cell that leaves no trace of `ms.jit(cell.method)` on it.

    MindSpore 2.10 writes the method's name on the cell when it compiles one, and reads it wherever the
    cell is compiled: after ms.jit(crf.decode) a graph that calls crf(...) would get crf.decode(...). Here
    the name counts only while that method is what is being compiled.
    """

    @property
    def __parse_method__(self):
        frame = sys._getframe(1)
        while frame is not None:
            # The frame of MindSpore's compilation: `obj` is the cell whose method it was asked for.
            compiling = frame.f_locals.get('self') if frame.f_code.co_name == 'compile' else None
            if compiling is not None and hasattr(compiling, 'fn'):
                return self._method_to_compile if compiling.obj is self else 'construct'
            frame = frame.f_back
        return 'construct'

    @__parse_method__.setter
    def __parse_method__(self, name):
        self.__dict__['_method_to_compile'] = name
