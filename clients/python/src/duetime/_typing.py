"""Names of `typing` that older Pythons lack."""

import sys

if sys.version_info >= (3, 11):
    from typing import Concatenate, ParamSpec, Self, Unpack
else:
    from typing_extensions import Concatenate, ParamSpec, Self, Unpack

__all__ = ["Concatenate", "ParamSpec", "Self", "Unpack"]
