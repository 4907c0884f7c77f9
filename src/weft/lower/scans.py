from weft.fun import nodes as fun
from weft.lower.emitter import Emitter


def lower_scan(e: Emitter, let: fun.Let) -> None:
    raise NotImplementedError
