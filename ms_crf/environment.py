"""Alias of `ms_crf.base.environment`, for programs that call `ms_crf.environment.prepare`."""

from ms_crf.base.environment import prepare as prepare
