"""Bases of our cells that keep off what MindSpore 2.10 would do to them."""

import sys


class InFloat32:
    """A cell that stays in float32 under `to_float` and mixed precision, which would cast its inputs to 16 bits.

    Sums over paths and the scores of what is forbidden don't fit there.
    """

    def add_flags(self, **flags):
        if flags.get('fp16') or flags.get('bf16'):
            flags.update(fp16=False, bf16=False, fp32=True)
        return super().add_flags(**flags)


class CompilableMethods:
    """A cell whose methods can be compiled by themselves, as in ms.jit(crf.decode).

    MindSpore writes the method's name on the cell when it compiles one, and reads it wherever the cell is
    compiled: after ms.jit(crf.decode) a graph that calls crf(...) would get crf.decode(...). Here the name
    counts only while that method is what is being compiled.
    """

    @property
    def __parse_method__(self):
        frame = sys._getframe(1)
        while frame is not None:
            # The frame of MindSpore's compilation: `obj` is the cell whose method it was asked for.
            compiling = frame.f_locals.get('self') if frame.f_code.co_name == 'compile' else None
            if hasattr(compiling, 'fn') and hasattr(compiling, 'obj'):
                return self._method_to_compile if compiling.obj is self else 'construct'
            frame = frame.f_back
        return 'construct'

    @__parse_method__.setter
    def __parse_method__(self, name):
        self.__dict__['_method_to_compile'] = name
