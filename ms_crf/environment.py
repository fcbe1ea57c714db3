"""The earlier place of `ms_crf.base.environment`, for programs that call `environment.prepare`."""

from ms_crf.base.environment import prepare as prepare
