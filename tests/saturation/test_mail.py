"""What egglog asks of Python is read once, and is not kept."""

from __future__ import annotations

from egraph_opt.rewrites.emit import PRELUDE
from egraph_opt.saturation.bindings import bindings
from egraph_opt.saturation.mail import Mailboxes


def _opened(*lengths: int) -> tuple[bindings.EGraph, Mailboxes]:
    egraph = bindings.EGraph(no_decomp=True)
    egraph.parse_and_run_program(PRELUDE)
    boxes = Mailboxes(egraph)
    boxes.open(lengths)
    return egraph, boxes


def _left(egraph: bindings.EGraph, name: str) -> int:
    return len(egraph.freeze().functions[name].rows)


def test_letters_of_all_lengths_are_read_in_a_fixed_order() -> None:
    egraph, boxes = _opened(2, 0)
    egraph.parse_and_run_program("(mail_2 7 -1 3) (mail_0 4) (mail_2 -2 5 6)")
    assert boxes.read() == [(-2, (5, 6)), (4, ()), (7, (-1, 3))]
    assert _left(egraph, "mail_2") == _left(egraph, "mail_0") == 0
    assert boxes.read() == []


def test_what_was_asked_before_is_not_asked_again() -> None:
    egraph, boxes = _opened(1)
    egraph.parse_and_run_program("(mail_1 1 10)")
    assert boxes.read() == [(1, (10,))]
    egraph.parse_and_run_program("(mail_1 1 10) (mail_1 1 11)")
    assert boxes.read() == [(1, (11,))]
    assert _left(egraph, "mail_1") == 0


def test_a_mailbox_may_be_opened_twice() -> None:
    egraph, boxes = _opened(1)
    boxes.open([1, 3])
    egraph.parse_and_run_program("(mail_1 1 10) (mail_3 1 1 2 3)")
    assert boxes.read() == [(1, (1, 2, 3)), (1, (10,))]
